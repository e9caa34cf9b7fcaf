//! What the checks run on: a broker in memory, a log in the process, a booblik broker, or a real Kafka.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use slipstream::app::Health;
#[cfg(feature = "booblik")]
use slipstream::booblik::broker::{Broker, BrokerOptions, Server, ServerOptions};
use slipstream::codec::DefaultCodec;
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::Memory;
use slipstream::{Conf, Error, Kind, RunHandle};
use tokio::task::JoinHandle;

/// The broker under test.
pub enum Backend {
    /// Kept alive here, so that records and positions outlive the apps.
    Memory(Memory),
    /// Its address.
    Kafka(String),
    /// Where the log is.
    #[cfg(feature = "booblik")]
    Embedded(tempfile::TempDir),
    #[cfg(feature = "booblik")]
    Booblik(Served),
}

/// A broker of this process that answers on a port of its own.
#[cfg(feature = "booblik")]
pub struct Served {
    pub broker: Broker,
    pub server: Server,
    _directory: tempfile::TempDir,
}

/// A broker with names and a state directory that belong to one check.
pub struct Bench {
    pub backend: Backend,
    id: String,
    state: tempfile::TempDir,
}

/// Bytes as a broker carries them.
pub type Raw = Message<Option<Bytes>, Bytes>;
pub type RawTopic = Topic<Option<Bytes>, Bytes>;

impl Bench {
    /// The one with this name; `None` where the caller asked to leave it out.
    pub async fn on(backend: &str) -> Option<Self> {
        match backend {
            "memory" => Some(Self::memory()),
            "kafka" => Self::kafka(),
            #[cfg(feature = "booblik")]
            "embedded" => Some(Self::embedded()),
            #[cfg(feature = "booblik")]
            "booblik" => Some(Self::booblik().await),
            other => panic!("no backend {other}"),
        }
    }

    #[cfg(feature = "booblik")]
    pub fn embedded() -> Self {
        Self::over(Backend::Embedded(tempfile::tempdir().unwrap()), unique())
    }

    #[cfg(feature = "booblik")]
    pub async fn booblik() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let broker = Broker::open(directory.path(), BrokerOptions::default()).await.unwrap();
        let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
        Self::over(Backend::Booblik(Served { broker, server, _directory: directory }), unique())
    }

    pub fn memory() -> Self {
        let id = unique();
        Self::over(Backend::Memory(Memory::named(&id)), id)
    }

    /// `None` where the caller asked to leave Kafka out. A Kafka that is merely missing is a failure: silence would
    /// look like a pass.
    pub fn kafka() -> Option<Self> {
        if std::env::var_os("SKIP_KAFKA").is_some_and(|value| value == "1") {
            eprintln!("left out, because SKIP_KAFKA=1 is set");
            return None;
        }
        let Ok(servers) = std::env::var("KAFKA_BOOTSTRAP") else {
            panic!(
                "KAFKA_BOOTSTRAP is not set: run `make test`, or `scripts/kafka.sh run -- cargo test`; to leave the \
                 Kafka half out, set SKIP_KAFKA=1"
            );
        };
        Some(Self::over(Backend::Kafka(servers), unique()))
    }

    fn over(backend: Backend, id: String) -> Self {
        Self { backend, id, state: tempfile::tempdir().unwrap() }
    }

    pub fn is_kafka(&self) -> bool {
        matches!(self.backend, Backend::Kafka(_))
    }

    /// Whether records lie in booblik's log: partitions by FNV-1a, no groups, no deletion of topics.
    pub fn is_booblik(&self) -> bool {
        match &self.backend {
            Backend::Memory(_) | Backend::Kafka(_) => false,
            #[cfg(feature = "booblik")]
            Backend::Embedded(_) | Backend::Booblik(_) => true,
        }
    }

    /// Whether an app can create topics.
    pub fn can_create(&self) -> bool {
        match &self.backend {
            #[cfg(feature = "booblik")]
            Backend::Booblik(_) => false,
            _ => true,
        }
    }

    /// Creates a topic where no app can, and only there.
    pub fn create(&self, part: &str, partitions: u32) {
        match &self.backend {
            #[cfg(feature = "booblik")]
            Backend::Booblik(Served { broker, .. }) => {
                let (broker, name) = (broker.clone(), self.name(part));
                // Callers are not asynchronous, and the broker does its work on threads of its own.
                let create = move || slipstream::testing::block_on(broker.ensure_topic(&name, partitions as usize));
                std::thread::spawn(create).join().unwrap().unwrap();
            }
            _ => {}
        }
    }

    /// More than a record may have.
    pub fn too_large_bytes(&self) -> usize {
        if self.is_booblik() { 9 << 20 } else { 2 << 20 }
    }

    pub fn url(&self) -> String {
        match &self.backend {
            Backend::Memory(memory) => format!("memory:{}", memory.name().unwrap_or_default()),
            Backend::Kafka(servers) => format!("kafka://{servers}"),
            #[cfg(feature = "booblik")]
            Backend::Embedded(directory) => format!("embedded:{}", directory.path().display()),
            #[cfg(feature = "booblik")]
            Backend::Booblik(served) => format!("booblik://{}", served.server.local_addr()),
        }
    }

    /// A name that no other check has.
    pub fn name(&self, part: &str) -> String {
        format!("{}-{part}", self.id)
    }

    /// `text` with the names as the check wrote them, the same on every backend.
    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    pub fn plain(&self, text: impl ToString) -> String {
        text.to_string().replace(&format!("{}-", self.id), "")
    }

    pub fn state_dir(&self, app: &str) -> PathBuf {
        self.state.path().join(app)
    }

    /// A topic of this check, created with this many partitions.
    pub fn topic<V: DefaultCodec, K: DefaultCodec>(&self, part: &str, partitions: u32) -> Topic<V, K> {
        self.create(part, partitions);
        Topic::named(self.name(part)).partitions(partitions)
    }

    /// The same topic as bytes.
    pub fn raw(&self, part: &str, partitions: u32) -> RawTopic {
        self.topic(part, partitions)
    }

    /// A declaration for use outside any app.
    pub fn alone<V: DefaultCodec, K: DefaultCodec>(&self, part: &str) -> Topic<V, K> {
        let url: &'static str = self.url().leak();
        Topic::named(self.name(part)).conf(vec![("broker", url), ("encoding", "envelope")].leak())
    }

    /// For an app, which is also the group.
    pub fn conf(&self, app: &str) -> Conf {
        self.member(app, app)
    }

    /// For one of several members of a group.
    pub fn member(&self, app: &str, member: &str) -> Conf {
        Conf::isolated()
            .with("broker", self.url())
            .with("encoding", "envelope")
            .with("app.id", self.name(app))
            .with("state.dir", self.state_dir(member).display().to_string())
            .with("commit.interval", "20ms")
            .with("session.timeout.ms", "2000")
            .with("heartbeat.interval.ms", "300")
            // Librdkafka's pause between two attempts to join; the default half second is most of a check's time.
            .with("topic.metadata.refresh.interval.ms", "1000")
    }

    /// Writes records in this order and creates the topic.
    pub async fn write(&self, part: &str, partitions: u32, records: Vec<Raw>) -> Result<()> {
        let topic = self.raw(part, partitions);
        let give = |record: Raw| One(record);
        App::new().handle(stream::iter(records), give, topic).conf(self.conf("writer")).run().await
    }

    /// Reads until there are `count`, as this group, and commits.
    pub async fn read<V, K>(&self, app: &str, topic: &Topic<V, K>, count: usize) -> Result<Vec<Message<V, K>>>
    where
        V: Clone + Send + Sync + 'static,
        K: Clone + Send + Sync + 'static,
    {
        let seen = Seen::default();
        let run = Running::start(App::new().handle(topic.clone(), seen.keep(), ()), self.conf(app));
        run.until(|| seen.len() >= count).await;
        run.stop().await?;
        Ok(seen.take())
    }

    /// What the topic holds, from its beginning, by a group of its own.
    pub async fn contents(&self, part: &str, partitions: u32, count: usize) -> Result<Vec<Raw>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let app = format!("contents-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut all = self.read(&app, &self.raw(part, partitions), count).await?;
        all.sort_by_key(|record| (record.partition, record.offset));
        Ok(all)
    }

    /// Where each partition of the topic begins and ends.
    pub async fn ends(&self, part: &str) -> Result<Option<Vec<(i64, i64)>>> {
        let topic: RawTopic = self.alone(part);
        let found = topic.admin()?.describe().await?;
        topic.close().await?;
        Ok(found.map(|found| found.partitions))
    }
}

/// Unlike any name of this or another process on the same Kafka.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let micros = Utc::now().timestamp_micros();
    format!("c{micros:x}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A record of these bytes.
pub fn record(key: Option<&[u8]>, value: Option<&[u8]>) -> Raw {
    let raw = Message::new(value.map(Bytes::copy_from_slice));
    match key {
        Some(key) => raw.with_key(Bytes::copy_from_slice(key)),
        None => raw,
    }
}

/// A record of text.
pub fn text(key: &str, value: &str) -> Raw {
    record(Some(key.as_bytes()), Some(value.as_bytes()))
}

/// What a handler has been given.
pub struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> Seen<T> {
    pub fn push(&self, value: T) {
        self.0.lock().unwrap().push(value);
    }

    /// A handler that keeps what it gets.
    pub fn keep(&self) -> impl Fn(T) + Clone + Send + Sync + 'static {
        let seen = self.clone();
        move |value| seen.push(value)
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl<V, K> Seen<Message<V, K>> {
    /// The offsets so far, in the order in which they came.
    pub fn offsets(&self) -> Vec<i64> {
        self.0.lock().unwrap().iter().map(|message| message.offset).collect()
    }
}

/// Offsets by partition, in the order in which they came.
pub fn by_partition<V, K>(messages: &[Message<V, K>]) -> BTreeMap<i32, Vec<i64>> {
    let mut found: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    messages.iter().for_each(|message| found.entry(message.partition).or_default().push(message.offset));
    found
}

/// An app in the background.
pub struct Running {
    pub handle: RunHandle,
    task: JoinHandle<Result<()>>,
}

impl Running {
    pub fn start(app: App, conf: Conf) -> Self {
        let run = app.conf(conf).run();
        Self { handle: run.handle(), task: tokio::spawn(run.into_future()) }
    }

    /// Waits for it, and fails at once when the app ends instead.
    #[track_caller]
    pub fn until(&self, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        let waited = until(move || condition() || self.task.is_finished());
        async move {
            waited.await;
            assert!(!self.task.is_finished(), "the app ended while it was waited for at {caller}");
        }
    }

    fn lanes(health: &Health) -> usize {
        health.sources.iter().map(|source| source.lanes.len()).sum()
    }

    /// Waits until it has this many partitions, of all its topics together.
    #[track_caller]
    pub fn assigned(&self, count: usize) -> impl Future<Output = ()> {
        self.until(move || Self::lanes(&self.handle.health()) == count)
    }

    /// Waits until these positions are committed, in the order of the partitions that it has.
    #[track_caller]
    pub fn committed(&self, sum: i64) -> impl Future<Output = ()> {
        self.until(move || self.committed_now() == sum)
    }

    /// All committed positions together.
    pub fn committed_now(&self) -> i64 {
        let health = self.handle.health();
        let lanes = health.sources.iter().flat_map(|source| &source.lanes);
        lanes.filter_map(|lane| lane.committed).sum()
    }

    pub fn notice(&self) -> Option<String> {
        self.handle.health().sources.into_iter().find_map(|source| source.notice)
    }

    /// Tells it to end, and waits for that.
    pub async fn stop(self) -> Result<()> {
        self.handle.trigger();
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Result<()> {
        const LIMIT: std::time::Duration = std::time::Duration::from_mins(1);
        match tokio::time::timeout(LIMIT, self.task).await {
            Ok(result) => result.unwrap(),
            Err(_) => Err(Error::new(Kind::Timeout, "the app did not end")),
        }
    }

    /// Drops the run's future: what is in flight is given up, as by a crash.
    pub async fn crash(self) {
        self.task.abort();
        let _cancelled = self.task.await;
    }
}
