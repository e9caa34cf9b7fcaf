//! A broker in memory that outlives its apps, and apps that count.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::{Memory, MemoryLimits};
use slipstream::{RunHandle, Signals};

pub fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Small enough to be filled.
const TOPIC_BYTES: usize = 4096;

/// A broker and a topic on it.
pub struct World {
    pub memory: Memory,
    pub input: Topic<u64>,
    conf: Conf,
}

/// A log on disk and an app's state beside it.
pub struct Disk {
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Disk {
    pub fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Self { dir: temporary.path().to_owned(), _temporary: Some(temporary) }
    }

    /// One that somebody else made.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir, _temporary: None }
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn conf(&self) -> Conf {
        Conf::isolated()
            .with("broker", format!("embedded:{}", self.dir.join("log").display()))
            .with("state.dir", self.dir.join("state").display().to_string())
            .with("app.id", "counter")
            .with("commit.interval", "20ms")
            .with("table.generation.time", "10ms")
    }

    pub async fn feed(&self, records: impl IntoIterator<Item = (String, u64)>) {
        let records: Vec<_> = records.into_iter().collect();
        App::new()
            .handle(stream::iter(records), |record: (String, u64)| record, Topic::<u64>::named("input"))
            .conf(self.conf().with("app.id", "feeder"))
            .signals(Signals::Ignore)
            .run()
            .await
            .unwrap();
    }

    /// Where the app's tables are; one broker.
    pub fn tables(&self) -> PathBuf {
        let tables = self.dir.join("state/counter/tables");
        std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().path()
    }
}

impl World {
    pub fn new() -> Self {
        Self::with_partitions(2)
    }

    pub fn with_partitions(partitions: u32) -> Self {
        let name = unique("tables");
        let memory =
            Memory::named_with(&name, MemoryLimits::default().partitions(partitions).topic_bytes(TOPIC_BYTES)).unwrap();
        let conf = Conf::isolated()
            .with("broker", format!("memory:{name}"))
            .with("app.id", "counter")
            .with("commit.interval", "20ms")
            .with("table.generation.time", "10ms");
        Self { memory, input: Topic::named("input").partitions(partitions), conf }
    }

    pub fn conf(&self) -> Conf {
        self.conf.clone()
    }

    /// Writes records outside of the app that counts; `key` is the key.
    pub async fn feed(&self, records: impl IntoIterator<Item = (String, u64)>) {
        let records: Vec<_> = records.into_iter().collect();
        let topic = Topic::<u64>::named("input");
        App::new()
            .handle(stream::iter(records), |record: (String, u64)| record, topic)
            .conf(self.conf().with("app.id", "feeder"))
            .signals(Signals::Ignore)
            .run()
            .await
            .unwrap();
    }

    /// Deletes the topic and makes it anew, empty.
    pub async fn replace_log(&self, partitions: u32) {
        let topic = self.outside();
        let admin = topic.admin().unwrap();
        admin.delete().await.unwrap();
        admin.create(partitions).await.unwrap();
        topic.close().await.unwrap();
    }

    /// Has a group read everything, and then writes records called `filler` until the broker drops what was read.
    pub async fn drop_oldest(&self, group: &str, read_before: i64) {
        let end = self.ends().await[0].1;
        let read = Arc::new(AtomicU64::new(0));
        let reads = Arc::clone(&read);
        let app = App::new()
            .handle(
                Topic::<u64>::named("input"),
                move |_: u64| {
                    reads.fetch_add(1, Ordering::Relaxed);
                },
                (),
            )
            .conf(self.conf().with("app.id", "drainer").with("group.id", group));
        let all = u64::try_from(end - read_before).unwrap();
        run_until(app, || read.load(Ordering::Relaxed) == all).await.unwrap();
        for _ in 0..200 {
            self.feed(keyed(&["filler"])).await;
            if self.ends().await[0].0 > 0 {
                return;
            }
        }
        panic!("nothing was dropped");
    }

    /// Where the log of each partition begins and ends.
    pub async fn ends(&self) -> Vec<(i64, i64)> {
        let topic = self.outside();
        let described = topic.admin().unwrap().describe().await.unwrap().unwrap();
        topic.close().await.unwrap();
        described.partitions
    }

    fn outside(&self) -> Topic<u64> {
        let name = format!("memory:{}", self.memory.name().unwrap());
        let settings: &'static [(&str, &str)] = Box::leak(Box::new([("broker", &*Box::leak(name.into_boxed_str()))]));
        Topic::<u64>::named("input").conf(settings)
    }
}

pub fn count(message: Message<u64>, counts: &mut Rows<String, u64>) -> Result<()> {
    counts.update(message.key()?, |n| n.unwrap_or(0) + 1)
}

/// Runs `app` until `done`, and ends it.
pub async fn run_until(app: App, done: impl FnMut() -> bool) -> Result<()> {
    let run = app.signals(Signals::Ignore).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until_or_ended(&handle, done).await;
    handle.trigger();
    task.await.unwrap()
}

/// Waits for `done`, or for the end of a run that fails.
pub async fn until_or_ended(handle: &RunHandle, mut done: impl FnMut() -> bool) {
    until(|| done() || handle.health().state == slipstream::app::State::Stopped).await;
}

pub fn rows_of<K: slipstream::keys::Key + Ord, V>(table: &Table<K, V>) -> Option<BTreeMap<K, V>> {
    table.items().iter().collect::<Result<_>>().ok()
}

pub fn rows<K: slipstream::keys::Key + Ord, V>(table: &Table<K, V>) -> BTreeMap<K, V> {
    table.items().iter().collect::<Result<_>>().unwrap()
}

/// Whether the table has as many records as were written.
pub fn has<K: slipstream::keys::Key, V>(table: &Table<K, V>, records: i64) -> bool {
    table.stats().is_ok_and(|stats| stats.stored() == records)
}

pub fn keyed(keys: &[&str]) -> Vec<(String, u64)> {
    keys.iter().map(|key| ((*key).to_owned(), 1)).collect()
}
