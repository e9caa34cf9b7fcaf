//! Stream → sync handler → sync sink, on one core.

use std::hint::black_box;

use slipstream::prelude::*;
use slipstream::testing::block_on;

use crate::report::{Row, compare, scaled, timed};

pub fn conf() -> Conf {
    Conf::isolated().with("broker", "memory:").with("app.id", "bench")
}

fn numbers(count: u64) -> impl Stream<Item = u64> {
    stream::iter(0..count)
}

fn handler(n: u64) -> u64 {
    n.wrapping_mul(3) ^ 1
}

fn sink(n: u64) {
    black_box(n);
}

pub fn hello() -> Row {
    let count = scaled(20_000_000);
    let ours = || {
        timed(|| {
            block_on(App::new().handle(numbers(count), handler, sink).conf(conf()).run().into_future()).unwrap();
        })
    };
    let floor = || {
        timed(|| {
            block_on(async {
                let mut stream = std::pin::pin!(numbers(count));
                while let Some(n) = stream.next().await {
                    sink(handler(n));
                }
            });
        })
    };
    compare("hello", 0.5, count, ours, floor)
}
