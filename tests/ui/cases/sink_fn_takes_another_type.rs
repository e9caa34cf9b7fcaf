//! A sink function that takes another type than the handler gives.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

fn store(_: u64) {}

#[handle(numbers(), sink = [print, store])]
fn label(n: u32) -> String {
    n.to_string()
}

fn main() {}
