//! A pipe that gives no stream.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

fn first(numbers: Piped<u32>) -> u32 {
    let _ = numbers;
    1
}

#[handle(numbers(), pipe = first, sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
