//! A source that is no stream.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(vec![1, 2], sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
