//! A handler that returns `()` by another name, with a sink.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[handle(numbers(), sink = [print])]
async fn nothing(n: u32) -> Result<()> {
    let _ = n;
    Ok(())
}

fn main() {}
