//! A CPU-bound handler, with a table and without, on `memory:` with 4 partitions: how much faster are two worker threads than one?

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::Memory;
use tokio::runtime::Builder;

use crate::report::{Row, compare, scaled, timed};

/// Rows of the table.
const KEYS: u64 = 1000;

/// About 20 µs of work.
fn work(n: u64) -> u64 {
    (0..20_000).fold(n, |hash, i| black_box(hash.rotate_left(5) ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

const NUMBERS: &str = "numbers";

/// The app in question, without its configuration.
type MakeApp = fn(Topic<u64, u64>) -> App;

fn handler(numbers: Topic<u64, u64>) -> App {
    let call = |n: u64| {
        black_box(work(n));
    };
    App::new().handle(numbers, call, ())
}

fn fold(numbers: Topic<u64, u64>) -> App {
    let call = |n: u64, sums: &mut Rows<u64, u64>| sums.update(n % KEYS, |sum| sum.unwrap_or(0) ^ work(n));
    App::new().handle(numbers, call, ()).name("fold").table(&Table::<u64, u64>::named("sums"))
}

/// From the start until all is done, stored and committed.
fn with_workers(threads: usize, count: u64, make: MakeApp) -> Duration {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    let group = format!("scale-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    runtime.block_on(async move {
        let conf = Conf::isolated().with("broker", "memory:scale").with("app.id", group);
        let run = make(Topic::named(NUMBERS)).conf(conf).run();
        let handle = run.handle();
        let began = std::time::Instant::now();
        let task = tokio::spawn(run.into_future());
        until(|| handle.stats().handled(NUMBERS) == count).await;
        handle.trigger();
        task.await.unwrap().unwrap();
        began.elapsed()
    })
}

fn with_threads(threads: u64, count: u64) -> Duration {
    timed(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    (0..count / threads).for_each(|n| {
                        black_box(work(n));
                    });
                });
            }
        });
    })
}

pub fn scale() -> Row {
    row("scale-2", handler)
}

pub fn table_scale() -> Row {
    row("table-scale-2", fold)
}

fn row(name: &str, make: MakeApp) -> Row {
    let count = scaled(40_000);
    let memory = Memory::named("scale");
    slipstream::testing::block_on(async {
        // Dealt to the partitions evenly: a bare value has no key.
        let numbers: Topic<u64, u64> = Topic::named(NUMBERS);
        let conf = Conf::isolated().with("broker", "memory:scale").with("app.id", "fill");
        App::new().handle(stream::iter(0..count), |n: u64| n, numbers).conf(conf).run().await.unwrap();
    });
    let row = compare(
        name,
        0.9,
        1,
        // The "time" of a side is its time with two threads in units of that with one.
        || {
            Duration::from_secs_f64(
                with_workers(2, count, make).as_secs_f64() / with_workers(1, count, make).as_secs_f64(),
            )
        },
        || Duration::from_secs_f64(with_threads(2, count).as_secs_f64() / with_threads(1, count).as_secs_f64()),
    );
    drop(memory);
    Row { unit: "× faster".to_owned(), ..row }
}
