//! What a pipe holds back is in no table.

use slipstream::prelude::*;

static WORDS: Topic<u32> = Topic::new("words");
static COUNTS: u32 = 0;

fn skip(words: impl Stream<Item = Message<u32>>) -> impl Stream<Item = Message<u32>> {
    words.skip(1)
}

#[handle(WORDS, pipe = skip, table = COUNTS)]
fn count(_word: Message<u32>, counts: &mut Vec<u32>) {
    counts.push(COUNTS);
}

fn main() {}
