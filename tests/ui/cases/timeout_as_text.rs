//! A timeout as text.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), timeout = "5s", sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
