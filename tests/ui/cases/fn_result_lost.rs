//! A sink function whose result nobody would see.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

fn store(n: u32) -> u32 {
    n
}

#[handle(numbers(), sink = [store])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
