//! The state behind its lock, and who is woken when it changes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::limits::MemoryLimits;
use super::scratch::Scratch;
use super::state::State;
use crate::error::{Error, Kind, Result};
use crate::flow::WakerSet;
use crate::flow::fold::FoldHome;
use crate::topic::driver::KeptHere;
use crate::topic::room::Room;

/// What all handles and connections of one broker share.
pub(super) struct Broker {
    name: Option<String>,
    state: Mutex<State>,
    /// Members that wait for something to do.
    pub(super) steps: WakerSet,
    /// Members that wait for records.
    pub(super) data: WakerSet,
    pub(super) room: Room,
    /// Positions of what apps read without a group.
    pub(super) kept: Arc<KeptHere>,
    /// Directories for rows that are made of its topics, by app.
    scratch: Mutex<BTreeMap<PathBuf, Arc<Scratch>>>,
    /// How many questions are still to fail.
    silent_for: AtomicU32,
}

impl Broker {
    fn new(name: Option<String>, limits: MemoryLimits) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: Mutex::new(State::new(limits)),
            steps: WakerSet::default(),
            data: WakerSet::default(),
            room: Room::default(),
            kept: Arc::default(),
            scratch: Mutex::default(),
            silent_for: AtomicU32::new(0),
        })
    }

    /// Whether it answers, as [`Memory::be_silent`] has it.
    pub(super) fn answers(&self) -> Result<()> {
        let left = self.silent_for.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        left.map_or(Ok(()), |_| Err(Error::new(Kind::Timeout, "the broker does not answer").retryable()))
    }

    /// Where an app keeps rows of these topics: as long as the broker lives.
    pub(super) fn tables_home(&self, app: &Path) -> Result<FoldHome> {
        let mut all = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let own = match all.get(app) {
            Some(own) => Arc::clone(own),
            None => Arc::new(Scratch::create()?),
        };
        all.insert(app.to_owned(), Arc::clone(&own));
        Ok(FoldHome { dir: own.path().to_owned(), keep: Some(own) })
    }

    /// Calls `f` with the state, and afterwards, without the lock, wakes whom the change concerns.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let (result, news) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let result = f(&mut state);
            let news = std::mem::take(&mut state.news);
            (result, news)
        };
        if news.steps {
            self.steps.wake_all();
        }
        if news.data {
            self.data.wake_all();
        }
        if news.room {
            self.room.made();
        }
        result
    }
}

/// A broker in the memory of this process: topics with partitions, offsets, groups and their positions, for tests and
/// for apps whose data need not outlive the process.
///
/// Cloning gives another handle on the same broker. It lives, with all records and positions, as long as any handle or
/// any app that uses it. Topics are created by their first use, with 4 partitions. Each is bounded by
/// [`MemoryLimits::topic_bytes`]: when it is full, it first drops the records that all groups that ever read it have
/// committed past, and otherwise makes its writers wait. Apps that read it whole, without a group, count as groups as
/// long as they run.
///
/// ```
/// use slipstream::topic::Memory;
///
/// let orders = Memory::named("orders");          // what `memory:orders` means in this process
/// assert_eq!(Memory::named("orders"), orders);   // the same broker
/// assert_ne!(Memory::named("bills"), orders);    // another one
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Broker>);

/// The named brokers that are alive.
static NAMED: Mutex<BTreeMap<String, Weak<Broker>>> = Mutex::new(BTreeMap::new());

impl Memory {
    /// A broker that nobody else can name: what `memory:` is to one run.
    pub(crate) fn unnamed(limits: MemoryLimits) -> Self {
        Self(Broker::new(None, limits))
    }

    /// The next `questions` of what topics there are and where their logs begin and end fail, as those to a broker that is
    /// away: for tests of what waits for one.
    #[doc(hidden)]
    pub fn be_silent(&self, questions: u32) {
        self.0.silent_for.store(questions, Ordering::Release);
    }

    /// The broker that all of this process share by `name`; made when there is none. Keep the handle as long as the
    /// records and positions are to stay when no app is running.
    pub fn named(name: &str) -> Self {
        Self::found_or_made(name, MemoryLimits::default())
    }

    /// The same with other bounds.
    ///
    /// # Errors
    /// [`Kind::AlreadyOpen`] when there is a broker of that name with bounds other than these.
    ///
    /// ```
    /// use slipstream::topic::{Memory, MemoryLimits};
    ///
    /// let small = Memory::named_with("small", MemoryLimits::default().topic_bytes(1024 * 1024).partitions(1))?;
    /// assert_eq!(small, Memory::named("small"));
    /// assert!(Memory::named_with("small", MemoryLimits::default()).is_err());
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn named_with(name: &str, limits: MemoryLimits) -> Result<Self> {
        let memory = Self::found_or_made(name, limits);
        let own = memory.0.with(|state| state.limits);
        if own == limits {
            return Ok(memory);
        }
        let message = format!("open already with {own:?}, asked for with {limits:?}");
        Err(Error::new(Kind::AlreadyOpen, message).at(format!("memory:{name}")))
    }

    fn found_or_made(name: &str, limits: MemoryLimits) -> Self {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(broker) = named.get(name).and_then(Weak::upgrade) {
            return Self(broker);
        }
        named.retain(|_, broker| broker.strong_count() > 0);
        let broker = Broker::new(Some(name.to_owned()), limits);
        named.insert(name.to_owned(), Arc::downgrade(&broker));
        Self(broker)
    }

    /// The name that it is shared by, if any.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Bytes that the records of all topics take: payload and 64 bytes for each record.
    pub fn size_bytes(&self) -> usize {
        self.0.with(|state| state.size_bytes())
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        &self.0
    }
}

/// Whether both are handles on one broker.
impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("name", &self.0.name).finish_non_exhaustive()
    }
}
