//! A tombstone for a topic that does not know any.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

static NAMES: Topic<String> = Topic::new("names");

#[handle(numbers(), sink = [NAMES])]
fn forget(n: u32) -> (String, Option<String>) {
    (n.to_string(), None)
}

fn main() {}
