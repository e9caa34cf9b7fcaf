//! [`Table`]: rows that are a fold over a topic, each record counted once, whatever happens to the process.

mod group;
mod hot;
mod lane;
#[doc(hidden)]
pub mod mistake;
mod open;
mod page;
mod read;
mod record;
mod rows;
mod scan;
mod seen;
mod source;
mod start;
mod stats;

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use read::{PartitionRows, TableIter, TableScan};
pub use rows::{Entry, Rows};
pub use scan::{RowsIter, RowsScan};
pub use seen::SeenIds;
pub use stats::TableStats;

use crate::codec::{Codec, MessagePack};
use crate::error::{Error, Kind, Result};
use crate::flow::fold::{Outputs, TableOf, TableRef};
use crate::keys::Key;
use crate::util::Name;
use lane::LaneRows;
use open::Family;
use rows::LaneTable;
use source::{OnRefusal, OpenTable, SourceTables};

/// Rows of `K` and `V` that handlers keep, **exactly right after any crash**: a table equals a fold over its topic with
/// each message once, across SIGKILL at any moment.
///
/// It is written by the handlers that declare it (`table = T` in the attribute, or `.table(&T)` behind `App::handle`),
/// through `&mut Rows<K, V>`, and by nobody else. It never evicts. What a handler wrote is stored in one batch with the
/// position in the topic, when all outputs of the messages up to there were acknowledged.
///
/// * A table has **one source topic**, and its rows live under the topic's partitions: `key by` what you count, else
///   several partitions have rows of one key, and reading it needs [`merge`](Self::merge).
/// * [`get`](Self::get) and scans, from anywhere, see what is **stored**: some hundred milliseconds behind the handler
///   (`table.generation.time`).
/// * Outputs of a handler with a table are delivered at least once, as everybody's.
/// * Rows are rebuilt from the log where they are not there: on a member that a partition moves to, or after the store
///   was deleted. The handler should be **deterministic**, and the topic's **retention must cover the fold**: a log that
///   no longer has what is missing is refused ([`Kind::OutOfRange`]) unless the table is declared with
///   [`rebuild`](Self::rebuild).
///
/// ```
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// static WORDS: Topic<u32> = Topic::new("words");
/// static COUNTS: Table<String, u64> = Table::new("counts");
///
/// fn count(word: Message<u32>, counts: &mut Rows<String, u64>) -> Result<()> {
///     counts.update(word.key()?, |n| n.unwrap_or(0) + 1)
/// }
///
/// let run = App::new()
///     .conf(Conf::isolated().with("broker", "memory:"))
///     .handle(stream::iter(["a", "b", "a"]), |word: &'static str| (word.to_owned(), 1), &WORDS)
///     .handle(&WORDS, count, ())
///     .table(&COUNTS)
///     .run();
/// let handle = run.handle();
/// let look = async move |_stop| {
///     slipstream::testing::until(|| matches!(COUNTS.get("a"), Ok(Some(2)))).await;
///     Ok(handle.trigger())
/// };
/// run.beside(look).await
/// # }).unwrap();
/// ```
pub struct Table<K, V: 'static> {
    name: Name,
    codec: &'static dyn Codec<V>,
    merge: Option<fn(V, V) -> V>,
    hot_bytes: Option<u64>,
    on_refusal: OnRefusal,
    outputs: Outputs,
    declared_at: &'static Location<'static>,
    slot: OnceLock<Arc<Slot>>,
    types: PhantomData<fn(K) -> K>,
}

/// What all clones of a declaration share: what a running app has open of it.
#[derive(Default)]
struct Slot(RwLock<Weak<OpenTable>>);

impl<K, V: Serialize + DeserializeOwned + 'static> Table<K, V> {
    /// A table called `name` (`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`), values in MessagePack with named fields: a struct may
    /// gain fields that have a default, and old rows are still read.
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        Self::declare(Name::Fixed(name), &MessagePack)
    }

    /// The same with a name made at run time.
    ///
    /// ```
    /// # use slipstream::Table;
    /// let table: Table<i64, String> = Table::named(format!("by-id-{}", 7));
    /// assert_eq!(table.name(), "by-id-7");
    /// ```
    #[track_caller]
    pub fn named(name: impl Into<String>) -> Self {
        Self::declare(Name::Made(name.into().into()), &MessagePack)
    }
}

impl<K, V: 'static> Table<K, V> {
    /// A table whose values `codec` writes.
    #[track_caller]
    pub const fn with_codec(name: &'static str, codec: &'static dyn Codec<V>) -> Self {
        Self::declare(Name::Fixed(name), codec)
    }

    #[track_caller]
    const fn declare(name: Name, codec: &'static dyn Codec<V>) -> Self {
        Self {
            name,
            codec,
            merge: None,
            hot_bytes: None,
            on_refusal: OnRefusal::Stop,
            outputs: Outputs::Muted,
            declared_at: Location::caller(),
            slot: OnceLock::new(),
            types: PhantomData,
        }
    }

    /// How values are written, in place of MessagePack. Not recorded in the store.
    #[must_use]
    pub const fn codec(mut self, codec: &'static dyn Codec<V>) -> Self {
        self.codec = codec;
        self
    }

    /// How the rows that several partitions have under one key become one when they are read. Without it such a key is a
    /// [`Kind::SeveralPartitions`] error.
    #[must_use]
    pub const fn merge(mut self, merge: fn(V, V) -> V) -> Self {
        self.merge = Some(merge);
        self
    }

    /// Bytes that decoded rows may take in memory, over all partitions, in place of `table.hot.bytes` (64 MiB). Rows that
    /// are not stored yet are kept whatever they take; `table.generation.bytes` bounds those.
    #[must_use]
    pub const fn hot_bytes(mut self, bytes: u64) -> Self {
        self.hot_bytes = Some(bytes);
        self
    }

    /// Where the rows cannot go on (the log was replaced or no longer has what they need, the number of partitions or the
    /// handlers and tables that belong together have changed), they are built again from what the log has, instead of
    /// ending the run. A copy of the store as it was is kept beside it first, as `kept-<time>`.
    #[must_use]
    pub const fn rebuild(mut self) -> Self {
        self.on_refusal = OnRefusal::Rebuild;
        self
    }

    /// While rows are brought up to date from records that the group has committed, outputs go out once more. Without it
    /// they are muted, since the sinks have acknowledged them.
    #[must_use]
    pub const fn replay_outputs(mut self) -> Self {
        self.outputs = Outputs::Repeated;
        self
    }

    /// The name it was declared with.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    fn label(&self) -> String {
        format!("table {}", self.name())
    }

    fn slot(&self) -> &Arc<Slot> {
        self.slot.get_or_init(Arc::default)
    }

    fn id(&self) -> usize {
        Arc::as_ptr(self.slot()) as usize
    }

    /// What a running app has open.
    fn opened(&self) -> Result<Arc<OpenTable>> {
        let open = self.slot().0.read().unwrap_or_else(PoisonError::into_inner).upgrade();
        open.ok_or_else(|| Error::new(Kind::Closed, "no running app has it").at(self.label()))
    }
}

impl<K, V: 'static> Clone for Table<K, V> {
    /// The same table: clones share what is open of it.
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), slot: OnceLock::from(Arc::clone(self.slot())), ..*self }
    }
}

impl<K, V: 'static> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A table without its types.
trait StoredTable: Send + Sync {
    /// Of key and value.
    fn types(&self) -> TypeId;
    fn declared_at(&self) -> &'static Location<'static>;
    fn hot_bytes(&self) -> Option<u64>;
    fn on_refusal(&self) -> OnRefusal;
    fn outputs(&self) -> Outputs;

    /// Errors: `Kind::AlreadyOpen` while another app has it.
    fn set_open(&self, open: &Arc<OpenTable>) -> Result<()>;

    /// The rows of one partition, as handlers borrow them and as their lane drives them.
    fn lane(&self, rows: Family, partition: i32, max_bytes: usize) -> (Arc<dyn Any + Send + Sync>, Arc<dyn LaneRows>);
}

/// What a [`TableRef`] holds.
struct AnyTable(Box<dyn StoredTable>);

impl AnyTable {
    fn of(table: &TableRef) -> Result<&dyn StoredTable> {
        let own = table.table.downcast_ref::<Self>().map(|any| &*any.0);
        own.ok_or_else(|| Error::new(Kind::Build, "not a table").at(&*table.name))
    }
}

impl<K: Key, V: Clone + Send + 'static> StoredTable for Table<K, V> {
    fn types(&self) -> TypeId {
        TypeId::of::<(K, V)>()
    }

    fn declared_at(&self) -> &'static Location<'static> {
        self.declared_at
    }

    fn hot_bytes(&self) -> Option<u64> {
        self.hot_bytes
    }

    fn on_refusal(&self) -> OnRefusal {
        self.on_refusal
    }

    fn outputs(&self) -> Outputs {
        self.outputs
    }

    fn set_open(&self, open: &Arc<OpenTable>) -> Result<()> {
        let mut slot = self.slot().0.write().unwrap_or_else(PoisonError::into_inner);
        if slot.strong_count() > 0 {
            return Err(Error::new(Kind::AlreadyOpen, "another running app has it").at(self.label()));
        }
        *slot = Arc::downgrade(open);
        Ok(())
    }

    fn lane(&self, rows: Family, partition: i32, max_bytes: usize) -> (Arc<dyn Any + Send + Sync>, Arc<dyn LaneRows>) {
        let lane = LaneTable::<K, V>::new(Some(rows), self.codec, partition, max_bytes);
        (Arc::clone(&lane) as _, lane)
    }
}

impl<K: Key, V: Clone + Send + 'static> TableOf<Rows<K, V>> for Table<K, V> {
    fn table_ref(&self) -> TableRef {
        TableRef {
            name: self.name().into(),
            id: self.id(),
            table: Arc::new(AnyTable(Box::new(self.clone()))),
            fold: SourceTables::make,
        }
    }
}
