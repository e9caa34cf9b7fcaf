//! A table that the handler does not write.

use slipstream::prelude::*;

static WORDS: Topic<u32> = Topic::new("words");
static COUNTS: u32 = 0;

#[handle(WORDS, table = COUNTS, sink = [print])]
fn count(word: u32) -> u32 {
    word + COUNTS
}

fn main() {}
