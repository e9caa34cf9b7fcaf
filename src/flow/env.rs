//! What one run of an app gives to its parts: limits, where state lives, how to stop, who to tell.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::durable::Durable;
use super::{Gate, SourceStats};
use crate::error::{Error, Kind, Result};

/// Who a source or a sink is: the same node may be named by many handlers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId {
    pub kind: &'static str,
    pub name: Arc<str>,
    /// Tells apart nodes that may share a name; 0 for those that cannot.
    pub id: usize,
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Starting,
    Running,
    Draining,
    Stopped,
}

type ExitHook = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;
type Singles = HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>;

/// The fixed part of an [`Env`].
pub(crate) struct EnvParts {
    pub app_id: Arc<str>,
    pub state_dir: PathBuf,
    pub settings: crate::conf::Settings,
    pub max_in_flight: u32,
    pub max_in_flight_bytes: usize,
    pub commit_interval: Duration,
    pub drain_timeout: Duration,
    pub revoke_timeout: Duration,
    pub exts: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// One run of an app, as its parts see it. Cheap to clone.
#[derive(Clone)]
pub struct Env(Arc<Inner>);

struct Inner {
    parts: EnvParts,
    stop: CancellationToken,
    kill: CancellationToken,
    tasks: TaskTracker,
    phase: AtomicU8,
    singles: Mutex<Singles>,
    evicting: Mutex<BTreeMap<NodeId, String>>,
    durables: Mutex<Vec<Arc<dyn Durable>>>,
    closers: Mutex<Vec<(u8, ExitHook)>>,
    sources: Mutex<Vec<Arc<SourceStats>>>,
    notices: Mutex<BTreeMap<String, String>>,
    failure: Mutex<Option<Error>>,
}

impl Env {
    pub(crate) fn new(parts: EnvParts) -> Self {
        Self(Arc::new(Inner {
            parts,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            tasks: TaskTracker::new(),
            phase: AtomicU8::new(Phase::Starting as u8),
            singles: Mutex::default(),
            evicting: Mutex::default(),
            durables: Mutex::default(),
            closers: Mutex::default(),
            sources: Mutex::default(),
            notices: Mutex::default(),
            failure: Mutex::default(),
        }))
    }

    pub(crate) fn parts(&self) -> &EnvParts {
        &self.0.parts
    }

    /// Cancelled when sources are to stop pulling.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Cancelled when draining has taken too long: what is in flight is given up.
    pub(crate) fn kill(&self) -> &CancellationToken {
        &self.0.kill
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.0.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Running,
            2 => Phase::Draining,
            _ => Phase::Stopped,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Ordering::Release);
    }

    /// Ends the run with `error`; the first one wins. Abandoned units count only while nobody asked to stop.
    pub(crate) fn fail(&self, error: Error) {
        self.fail_as_first(error);
    }

    /// The same; true when it is this error that the run ends with.
    pub(crate) fn fail_as_first(&self, error: Error) -> bool {
        if error.kind() == Kind::Abandoned && self.0.stop.is_cancelled() {
            return false;
        }
        let is_first = {
            let mut failure = lock(&self.0.failure);
            let is_first = failure.is_none();
            failure.get_or_insert(error);
            is_first
        };
        self.0.stop.cancel();
        is_first
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.0.failure).take()
    }

    /// The one `T` of this run called `name`, made at the first call.
    pub(crate) fn single<T: Any + Send + Sync>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let key = (TypeId::of::<T>(), name.to_owned());
        let find = |all: &Singles| all.get(&key).and_then(|any| Arc::clone(any).downcast::<T>().ok());
        if let Some(found) = find(&lock(&self.0.singles)) {
            return Ok(found);
        }
        // Made without the lock: what is made may ask for singles of its own.
        let built = make()?;
        let mut singles = lock(&self.0.singles);
        if let Some(other) = find(&singles) {
            return Ok(other);
        }
        singles.insert(key.clone(), Arc::clone(&built) as Arc<dyn Any + Send + Sync>);
        Ok(built)
    }

    /// Lets go of everything that was made for the run: some of it holds the run itself.
    pub(crate) fn forget(&self) {
        let singles = std::mem::take(&mut *lock(&self.0.singles));
        let durables = std::mem::take(&mut *lock(&self.0.durables));
        drop((singles, durables));
    }

    /// A value given with `stream().with(value)`.
    pub(crate) fn ext<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.parts.exts.get(&TypeId::of::<T>())?).downcast().ok()
    }

    /// A sink that drops what was written on its own.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "caches do"))]
    pub(crate) fn evicts(&self, node: NodeId, retention: String) {
        lock(&self.0.evicting).insert(node, retention);
    }

    /// Such sinks, with what they say of it.
    pub(crate) fn evicting(&self) -> BTreeMap<NodeId, String> {
        lock(&self.0.evicting).clone()
    }

    pub(crate) fn add_durable(&self, durable: Arc<dyn Durable>) {
        lock(&self.0.durables).push(durable);
    }

    /// Makes everything written so far durable, on the blocking pool.
    pub(crate) async fn sync(&self) -> Result<()> {
        self.sync_others(0).await
    }

    /// The same without the one at the address `own`.
    pub(crate) async fn sync_others(&self, own: usize) -> Result<()> {
        let mut durables = lock(&self.0.durables).clone();
        durables.retain(|durable| Arc::as_ptr(durable).cast::<()>().addr() != own);
        if durables.is_empty() {
            return Ok(());
        }
        let synced = tokio::task::spawn_blocking(move || durables.iter().try_for_each(|durable| durable.sync())).await;
        synced.unwrap_or_else(|error| Err(Error::new(Kind::Store, "a sync was interrupted").because(error)))
    }

    /// Something to close at the end of the run; lower `rank` first, all of them whatever fails.
    pub(crate) fn on_close(&self, rank: u8, hook: impl FnOnce() -> BoxFuture<'static, Result<()>> + Send + 'static) {
        lock(&self.0.closers).push((rank, Box::new(hook)));
    }

    /// Runs the closers of up to `rank`; returns what failed.
    pub(crate) async fn close(&self, rank: u8) -> Vec<Error> {
        let mut due = Vec::new();
        {
            let mut closers = lock(&self.0.closers);
            let (now, later) = std::mem::take(&mut *closers).into_iter().partition(|(own, _)| *own <= rank);
            due.extend::<Vec<_>>(now);
            *closers = later;
        }
        due.sort_by_key(|(rank, _)| *rank);
        let mut failed = Vec::new();
        for (_, hook) in due {
            failed.extend(hook().await.err());
        }
        failed
    }

    /// What something other than a source waits for, or what is wrong with it; `None`: all is well again.
    pub(crate) fn set_notice(&self, who: &str, notice: Option<String>) {
        let mut notices = lock(&self.0.notices);
        match notice {
            Some(notice) => notices.insert(who.to_owned(), notice),
            None => notices.remove(who),
        };
    }

    /// All of them, as `who: what`.
    pub(crate) fn notices(&self) -> Vec<String> {
        lock(&self.0.notices).iter().map(|(who, notice)| format!("{who}: {notice}")).collect()
    }

    /// Counters for a source; it appears in `stats()` and `health()` from now on.
    pub(crate) fn add_source(&self, name: &Arc<str>, gate: Gate) -> Arc<SourceStats> {
        let stats = Arc::new(SourceStats::new(Arc::clone(name), gate));
        lock(&self.0.sources).push(Arc::clone(&stats));
        stats
    }

    pub(crate) fn sources(&self) -> Vec<Arc<SourceStats>> {
        lock(&self.0.sources).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
