//! A named argument given twice.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print], sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
