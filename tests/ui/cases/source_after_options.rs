//! A source after the named arguments.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print], numbers())]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
