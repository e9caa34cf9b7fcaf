//! A generic handler.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
fn label<T: std::fmt::Display + Send>(n: T) -> String {
    n.to_string()
}

fn main() {}
