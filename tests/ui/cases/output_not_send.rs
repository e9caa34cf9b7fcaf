//! An output that cannot change threads.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

use std::rc::Rc;

#[handle(numbers(), sink = [print])]
fn label(n: u32) -> Rc<u32> {
    Rc::new(n)
}

fn main() {}
