//! A topic of an own type that has no codec.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

#[derive(Clone)]
struct Order(u32);

static ORDERS: Topic<Order> = Topic::new("orders");

#[handle(numbers(), sink = [ORDERS])]
fn order(n: u32) -> Order {
    Order(n)
}

fn main() {}
