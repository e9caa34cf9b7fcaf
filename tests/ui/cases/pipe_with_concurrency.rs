//! A pipe is one lane.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

fn skip(numbers: impl Stream<Item = u32>) -> impl Stream<Item = u32> {
    numbers.skip(1)
}

#[handle(numbers(), pipe = skip, concurrency = 2, sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
