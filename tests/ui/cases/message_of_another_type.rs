//! A handler of another message than the source gives.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
fn label(name: String) -> String {
    name
}

fn main() {}
