//! Where the checks run, and small things that they share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use slipstream::prelude::*;
use slipstream::topic::Memory;
use slipstream::{Conf, RunHandle};
use tokio::task::JoinHandle;

/// A broker, and a directory for the state of apps.
pub struct World {
    pub url: String,
    pub has_groups: bool,
    pub id: String,
    folder: tempfile::TempDir,
    /// Keeps records alive between apps.
    _memory: Option<Memory>,
}

fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let micros = Utc::now().timestamp_micros();
    format!("c{micros:x}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl World {
    pub fn memory() -> Self {
        let id = unique();
        let memory = Memory::named(&id);
        Self::at(format!("memory:{id}"), true, id, Some(memory))
    }

    #[cfg(feature = "booblik")]
    pub fn embedded() -> Self {
        let id = unique();
        let mut world = Self::at(String::new(), false, id, None);
        world.url = format!("embedded:{}", world.folder.path().join("log").display());
        world
    }

    /// `None` where the caller asked to leave Kafka out.
    #[cfg(feature = "kafka")]
    pub fn kafka() -> Option<Self> {
        if std::env::var_os("SKIP_KAFKA").is_some_and(|value| value == "1") {
            eprintln!("left out, because SKIP_KAFKA=1 is set");
            return None;
        }
        let Ok(servers) = std::env::var("KAFKA_BOOTSTRAP") else {
            panic!("KAFKA_BOOTSTRAP is not set: run `make test`, or set SKIP_KAFKA=1 to leave the Kafka half out");
        };
        Some(Self::at(format!("kafka://{servers}"), true, unique(), None))
    }

    fn at(url: String, has_groups: bool, id: String, memory: Option<Memory>) -> Self {
        Self { url, has_groups, id, folder: tempfile::tempdir().unwrap(), _memory: memory }
    }

    pub fn name(&self, part: &str) -> String {
        format!("{}-{part}", self.id)
    }

    pub fn topic<V: slipstream::codec::DefaultCodec>(&self, part: &str, partitions: u32) -> Topic<V> {
        Topic::named(self.name(part)).partitions(partitions)
    }

    /// A declaration for use outside any app.
    pub fn alone<V: slipstream::codec::DefaultCodec>(&self, part: &str, partitions: u32) -> Topic<V> {
        let url: &'static str = self.url.clone().leak();
        self.topic(part, partitions).conf(vec![("broker", url)].leak())
    }

    /// For one member of the app's group.
    pub fn conf(&self, member: usize) -> Conf {
        let state = self.state_dir(member);
        Conf::isolated()
            .with("broker", self.url.clone())
            .with("app.id", self.id.clone())
            .with("state.dir", state.display().to_string())
            .with("commit.interval", "5ms")
            .with("session.timeout.ms", "6000")
            .with("heartbeat.interval.ms", "300")
            .with("topic.metadata.refresh.interval.ms", "1000")
    }

    /// Removes all that a member has kept, but not the topics.
    pub fn forget(&self, member: usize) {
        let _gone = std::fs::remove_dir_all(self.state_dir(member));
    }

    /// The same for its tables alone.
    #[cfg(all(feature = "rocksdb", feature = "booblik"))]
    pub fn forget_tables(&self, member: usize) {
        std::fs::remove_dir_all(self.state_dir(member).join(&self.id).join("tables")).unwrap();
    }

    fn state_dir(&self, member: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("member-{member}"))
    }
}

/// A run in the background.
pub struct Running {
    pub handle: RunHandle,
    task: JoinHandle<Result<()>>,
}

impl Running {
    pub fn start(app: App, conf: Conf) -> Self {
        let run = app.run().conf(conf).signals(slipstream::Signals::Ignore);
        let handle = run.handle();
        Self { handle, task: tokio::spawn(run.into_future()) }
    }

    /// Whether its sources are read: before that nobody takes what is sent to a proxy.
    pub fn is_reading(&self) -> bool {
        self.handle.health().state == slipstream::app::State::Running
    }

    /// Drains and ends.
    pub async fn stop(self) -> Result<()> {
        self.handle.trigger();
        self.task.await.unwrap()
    }

    /// As after a crash: what is in flight is given up.
    pub async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for its end, which is not far.
    pub async fn ended(self) -> Result<()> {
        tokio::time::timeout(std::time::Duration::from_mins(1), self.task).await.unwrap().unwrap()
    }
}

/// A sink that keeps what it gets.
pub fn collect<T: Send + 'static>() -> (Arc<Mutex<Vec<T>>>, impl Fn(T) + Clone + Send + Sync + 'static) {
    let list = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&list);
    (list, move |value| sink.lock().unwrap().push(value))
}
