//! `.map` to something that the sink does not take.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

static COUNTS: Proxy<u64> = Proxy::new("counts");

#[handle(numbers(), sink = [COUNTS.map(|n| n.to_string())])]
fn label(n: u32) -> u32 {
    n
}

fn main() {}
