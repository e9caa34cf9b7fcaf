//! Two sinks for an output that cannot be cloned.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

struct Ticket(u32);

fn first(_: Ticket) {}
fn second(_: Ticket) {}

#[handle(numbers(), sink = [first, second])]
fn ticket(n: u32) -> Ticket {
    Ticket(n)
}

fn main() {}
