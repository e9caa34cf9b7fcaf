//! A handler that is generic without saying so.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
fn label(n: impl std::fmt::Display) -> String {
    n.to_string()
}

fn main() {}
