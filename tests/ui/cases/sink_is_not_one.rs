//! A sink that is neither callable nor a declaration.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

static LIMIT: u32 = 5;

#[handle(numbers(), sink = [LIMIT])]
fn label(n: u32) -> String {
    n.to_string()
}

fn main() {}
