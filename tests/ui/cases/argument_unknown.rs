//! An argument that no extractor knows.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

struct Db;

#[handle(numbers(), sink = [print])]
fn label(n: u32, db: Db) -> u32 {
    let _ = db;
    n
}

fn main() {}
