//! `key` for another message than the source gives.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), concurrency = 2, key = |n: &String| n.clone(), sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
