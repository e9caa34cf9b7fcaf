//! A named argument that does not exist.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sinks = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
