//! Something that is no function.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
struct Label;

fn main() {}
