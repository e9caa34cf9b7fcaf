//! A handler whose error is not an error.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

struct Failed;

#[handle(numbers(), sink = [print])]
fn label(n: u32) -> std::result::Result<u32, Failed> {
    if n == 0 { Err(Failed) } else { Ok(n) }
}

fn main() {}
