//! A method.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

struct Labels;

impl Labels {
    #[handle(numbers(), sink = [print])]
    fn label(&self, n: u32) -> u32 {
        n
    }
}

fn main() {}
