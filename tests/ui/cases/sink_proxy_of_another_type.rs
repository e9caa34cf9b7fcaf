//! A proxy of another type than the handler gives.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

static COUNTS: Proxy<u64> = Proxy::new("counts");

#[handle(numbers(), sink = [print, COUNTS])]
fn label(n: u32) -> String {
    n.to_string()
}

fn main() {}
