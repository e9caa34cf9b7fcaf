//! Two handlers linked by a proxy, against the same over a bounded channel.

use std::hint::black_box;

use slipstream::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::hello::conf;
use crate::report::{Row, compare, scaled, timed};

const CAPACITY: usize = 1024;

pub fn two_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn one_worker() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub fn proxy() -> Row {
    linked("proxy", two_workers)
}

pub fn one_core() -> Row {
    linked("proxy-one-core", one_worker)
}

fn linked(name: &str, runtime: fn() -> Runtime) -> Row {
    let count = scaled(5_000_000);
    let ours = || {
        let proxy: Proxy<u64> = Proxy::named("bench").capacity(CAPACITY);
        let app = App::new()
            .handle(stream::iter(0..count), |n: u64| n + 1, proxy.clone())
            .handle(
                proxy,
                |n: u64| n + 1,
                |n: u64| {
                    black_box(n);
                },
            )
            .conf(conf());
        let runtime = runtime();
        timed(|| runtime.block_on(app.run().into_future()).unwrap())
    };
    let floor = || {
        let runtime = runtime();
        timed(|| {
            runtime.block_on(async {
                let (sender, mut receiver) = tokio::sync::mpsc::channel(CAPACITY);
                let first = tokio::spawn(async move {
                    let mut numbers = stream::iter(0..count);
                    while let Some(n) = numbers.next().await {
                        sender.send(n + 1).await.unwrap();
                    }
                });
                let second = tokio::spawn(async move {
                    while let Some(n) = receiver.recv().await {
                        black_box(n + 1);
                    }
                });
                first.await.unwrap();
                second.await.unwrap();
            });
        })
    };
    compare(name, 1.0, count, ours, floor)
}
