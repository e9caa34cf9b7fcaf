//! A handler of another value than the topic has.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

static LENGTHS: Topic<u64> = Topic::new("lengths");

#[handle(LENGTHS, sink = [print])]
fn label(name: String) -> String {
    name
}

fn main() {}
