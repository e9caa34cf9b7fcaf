//! A value that cannot change threads, kept across an await.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

use std::rc::Rc;

#[handle(numbers(), sink = [print])]
async fn label(n: u32) -> u32 {
    let shared = Rc::new(n);
    slipstream_ui_tests::pause().await;
    *shared
}

fn main() {}
