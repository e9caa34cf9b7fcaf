//! Rows belong to the one lane of their partition.

use slipstream::prelude::*;

static WORDS: Topic<u32> = Topic::new("words");
static COUNTS: u32 = 0;

#[handle(WORDS, table = COUNTS, concurrency = 4)]
fn count(_word: Message<u32>, counts: &mut Vec<u32>) {
    counts.push(COUNTS);
}

fn main() {}
