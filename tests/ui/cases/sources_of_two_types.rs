//! Two sources that do not give the same.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), stream::iter(["a"]), sink = [print])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
