//! A topic whose values are of another type than the handler gives.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

static LENGTHS: Topic<u64> = Topic::new("lengths");

#[handle(numbers(), sink = [LENGTHS])]
fn label(n: u32) -> String {
    n.to_string()
}

fn main() {}
