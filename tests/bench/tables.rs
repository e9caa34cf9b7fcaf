//! Counting by key, exactly, with a table: against the loops of `counting`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use slipstream::prelude::*;
use slipstream::testing::until;
use tempfile::TempDir;

use crate::counting::{self, Load};
use crate::kafka::{bootstrap, unique};
use crate::payments::Payment;
use crate::proxy::two_workers;
use crate::report::{Row, compare};

/// A store is at rest when its files have had the same size for this long.
const QUIET: Duration = Duration::from_secs(3);
/// How often that is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub fn count() -> Row {
    let load = counting::load();
    compare("kafka-count", 0.8, load.count, || pass(load, None), || counting::count_floor(load))
}

pub fn cold() -> Row {
    let mut prepared = None;
    let load = counting::cold_load(|topic, records| prepared = Some(prepare(topic, records)));
    let prepared = prepared.unwrap();
    compare("kafka-count-cold", 0.7, load.count, || pass(&load, Some(&prepared)), || counting::count_floor(&load))
}

/// A store of an app that is closed.
struct Prepared {
    _state: TempDir,
    /// The folder that RocksDB has its files in.
    files: PathBuf,
    /// The same, seen from the app's folder.
    place: PathBuf,
}

/// An app with its folder.
struct Counter {
    state: TempDir,
    id: String,
    counts: Table<String, u64>,
}

impl Counter {
    fn new() -> Self {
        Self { state: tempfile::tempdir().unwrap(), id: unique("bench"), counts: Table::named("counts") }
    }

    fn folder(&self) -> PathBuf {
        self.state.path().join(&self.id)
    }

    /// The app, and when it got its first message.
    fn app(&self, topic: &str) -> (App, Arc<OnceLock<Instant>>) {
        let began = Arc::new(OnceLock::new());
        let first = Arc::clone(&began);
        let tally = move |payment: Message<Payment>, counts: &mut Rows<String, u64>| {
            first.get_or_init(Instant::now);
            counts.update(&payment.value.user, |n| n.unwrap_or(0) + 1)
        };
        let conf = Conf::isolated()
            .with("broker", format!("kafka://{}", bootstrap()))
            .with("app.id", self.id.as_str())
            .with("state.dir", self.state.path().display().to_string());
        let app = App::new().handle(Topic::<Payment>::named(topic), tally, ()).name("tally").table(&self.counts);
        (app.conf(conf), began)
    }

    /// Counts `count` records; how long that took from the first one until everything is stored and committed.
    async fn run(&self, topic: &str, count: u64) -> Duration {
        let (app, began) = self.app(topic);
        let run = app.run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        until(|| handle.stats().handled(topic) == count).await;
        let began = began.get().unwrap();
        let handled = began.elapsed();
        handle.trigger();
        task.await.unwrap().unwrap();
        let time = began.elapsed();
        if std::env::var_os("BENCH_VERBOSE").is_some() {
            println!("{topic}: {handled:?} until handled, {time:?} until closed");
        }
        time
    }

    /// Runs the app until `done`, which reads its rows; there are no further records.
    async fn look(&self, topic: &str, done: impl AsyncFnOnce(&Table<String, u64>)) {
        let run = self.app(topic).0.run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        until(|| self.counts.partitions().is_ok_and(|all| all.len() == 4)).await;
        done(&self.counts).await;
        handle.trigger();
        task.await.unwrap().unwrap();
    }
}

fn pass(load: &Load, prepared: Option<&Prepared>) -> Duration {
    let counter = Counter::new();
    if let Some(Prepared { files, place, .. }) = prepared {
        counting::copy_store(files, &counter.folder().join(place));
    }
    let time = two_workers().block_on(async {
        let time = counter.run(&load.topic, load.count).await;
        counter.look(&load.topic, async |counts| load.check(counts.items().iter().map(Result::unwrap))).await;
        time
    });
    load.check_committed(&counter.id);
    time
}

/// Counts all of a topic, and lets the store come to rest.
fn prepare(topic: &str, records: u64) -> Prepared {
    let counter = Counter::new();
    two_workers().block_on(async {
        counter.run(topic, records).await;
        counter.look(topic, async |counts| rest(counts).await).await;
    });
    let tables = counter.folder().join("tables");
    let broker = std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().file_name();
    let place = Path::new("tables").join(broker).join("db");
    Prepared { files: counter.folder().join(&place), place, _state: counter.state }
}

async fn rest(counts: &Table<String, u64>) {
    let bytes = || counts.stats().unwrap().disk_bytes;
    let (mut last, mut since) = (bytes(), Instant::now());
    while since.elapsed() < QUIET {
        tokio::time::sleep(LOOK_AGAIN).await;
        if bytes() != last {
            (last, since) = (bytes(), Instant::now());
        }
    }
}
