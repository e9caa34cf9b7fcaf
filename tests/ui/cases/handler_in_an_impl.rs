//! A function of a type.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[derive(Debug)]
struct Label(u32);

impl Label {
    #[handle(numbers(), sink = [debug])]
    fn new(n: u32) -> Self {
        Self(n)
    }
}

fn main() {}
