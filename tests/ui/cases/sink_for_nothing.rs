//! A handler that returns nothing, with a sink.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
fn nothing(n: u32) {
    let _ = n;
}

fn main() {}
