//! A closure sink whose result nobody would see.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [|n| n + 1])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
