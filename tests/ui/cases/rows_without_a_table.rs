//! Rows are lent by a table.

use slipstream::prelude::*;

static WORDS: Topic<u32> = Topic::new("words");

#[handle(WORDS)]
fn count(_word: u32, counts: &mut Vec<u64>) {
    counts.push(1);
}

fn main() {}
