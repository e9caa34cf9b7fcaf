//! A handler without a message for a source that gives one.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
fn label() -> u32 {
    1
}

fn main() {}
