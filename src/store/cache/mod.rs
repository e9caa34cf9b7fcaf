//! [`Cache`]: rows of `K` and `V` on disk, written from anywhere, at once.

mod access;
mod admin;
mod batch;
mod blocking;
mod clock;
pub(super) mod failure;
mod family;
mod glue;
pub(super) mod iter;
mod locks;
mod manifest;
pub(super) mod open;
pub(super) mod options;
pub(super) mod owner;
mod place;
mod retention;
mod scan;
mod sink;
mod slot;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;
mod transaction;

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use batch::Batch;
pub use glue::{CacheSink, IntoChange};
pub use iter::Iter;
pub use open::Raw;
pub use retention::Retention;
pub use scan::Scan;
pub use snapshot::Snapshot;
pub use stats::{CacheStats, TableFile};
pub use transaction::{Transaction, TransactionBuilder};

use crate::codec::{Codec, MessagePack};
use crate::flow::Gate;
use crate::sink::MapSink;
use crate::util::Name;
use slot::Slot;

/// Rows of `K` and `V` in a RocksDB of their own.
///
/// A cache is **bounded unless told otherwise**: [`Retention::Fifo`] with 25 MiB, where the rows written longest ago
/// go first, whether or not they are still needed. What goes is counted in [`stats`](Self::stats) and the first time
/// is a warning in the log. [`Retention::Keep`] never drops a row.
///
/// A declaration is a plain `static`, or a value with a name made at run time ([`named`](Self::named)); clones are
/// cheap and share what is open. Nothing is opened before first use. An App opens the caches that it uses under its
/// own state directory; outside an App the first use opens under the process's, until [`close`](Self::close).
///
/// Reads and writes are **disk calls**: synchronous, 2–4 µs, less than a tenth of handing them to another thread.
/// Those that may take long (`open`, `flush`, `compact`, `backup`, `scan().stream()`) are async.
///
/// Writes survive a crash of the process at once and a power loss after the next sync. The write-ahead log is always
/// on: there is no way to turn it off.
///
/// ```
/// use slipstream::{Cache, Retention};
///
/// # let dir = tempfile::tempdir().unwrap();
/// static SEEN: Cache<String, u64> = Cache::new("seen").retention(Retention::Keep);
///
/// SEEN.open_in(dir.path())?; // leave it out to use the process's state directory
/// SEEN.put("swift", 1)?;
/// SEEN.update("swift", |n| Some(n.unwrap_or(0) + 1))?;
/// assert_eq!(SEEN.get("swift")?, Some(2));
/// assert_eq!(SEEN.get("swallow")?, None);
/// SEEN.close()?;
/// # Ok::<(), slipstream::Error>(())
/// ```
pub struct Cache<K, V: 'static> {
    name: Name,
    family: Option<Arc<str>>,
    codec: &'static dyn Codec<V>,
    settings: Settings,
    external: bool,
    declared_at: &'static Location<'static>,
    slot: OnceLock<Arc<Slot>>,
    types: PhantomData<fn(K) -> K>,
}

/// What has to be equal for two uses of one open cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `None`: as the store has it, or the default for a new one.
    pub(crate) retention: Option<Retention>,
    pub(crate) access: Access,
}

/// How a cache is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
    Secondary,
}

impl<K, V: Serialize + DeserializeOwned + 'static> Cache<K, V> {
    /// A cache called `name` (`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`), values in MessagePack with named fields: a struct
    /// may gain fields that have a default, and old rows are still read.
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        Self::declare(Name::Fixed(name), &MessagePack)
    }

    /// The same with a name made at run time.
    ///
    /// ```
    /// # use slipstream::Cache;
    /// let cache: Cache<i64, String> = Cache::named(format!("by-id-{}", 7));
    /// assert_eq!(cache.name(), "by-id-7");
    /// ```
    #[track_caller]
    pub fn named(name: impl Into<String>) -> Self {
        Self::declare(Name::Made(name.into().into()), &MessagePack)
    }
}

impl<K, V: 'static> Cache<K, V> {
    /// A cache whose values `codec` writes.
    #[track_caller]
    pub const fn with_codec(name: &'static str, codec: &'static dyn Codec<V>) -> Self {
        Self::declare(Name::Fixed(name), codec)
    }

    #[track_caller]
    const fn declare(name: Name, codec: &'static dyn Codec<V>) -> Self {
        Self {
            name,
            family: None,
            codec,
            settings: Settings { retention: None, access: Access::ReadWrite },
            external: false,
            declared_at: Location::caller(),
            slot: OnceLock::new(),
            types: PhantomData,
        }
    }

    /// What may be dropped, and when; the default is [`Retention::Fifo`] with 25 MiB.
    ///
    /// It is kept with the store. Left unsaid, a reopened store keeps what it has. Said and different, the new limit
    /// is taken for a `Fifo` or `Ttl` store (a WARN when it shrinks) and a `Fifo` store can become `Keep`; any other
    /// change is refused when opened, since it would drop rows or misread them.
    #[must_use]
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.settings.retention = Some(retention);
        self
    }

    /// How values are written, in place of MessagePack. Not recorded in the store.
    #[must_use]
    pub const fn codec(mut self, codec: &'static dyn Codec<V>) -> Self {
        self.codec = codec;
        self
    }

    /// Opens without the right to write; sees what was there when it was opened. Works beside a writer.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.settings.access = Access::ReadOnly;
        self
    }

    /// Opens as a follower of the process that writes; [`catch_up`](Self::catch_up) shows what it wrote meanwhile.
    /// Its own few files lie in the system's temporary directory.
    #[must_use]
    pub const fn secondary(mut self) -> Self {
        self.settings.access = Access::Secondary;
        self
    }

    /// Its changes are also published from outside the handlers, by [`send`](Self::send): as a source it stays open until
    /// the app shuts down, instead of ending with the handlers that write to it.
    #[must_use]
    pub const fn external(mut self) -> Self {
        self.external = true;
        self
    }

    /// A function in front of it, as a sink.
    pub fn map<T, U, F: Fn(T) -> U>(&self, map: F) -> MapSink<Self, F> {
        crate::sink::map(self.clone(), map)
    }

    /// Pauses the readers of its changes; see [`Gate`].
    pub fn gate(&self) -> &Gate {
        &self.slot().gate
    }

    pub(crate) fn is_external(&self) -> bool {
        self.external
    }

    /// The name it was declared with.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The name of the family that this value stands for; `None` for the cache itself.
    pub fn family_name(&self) -> Option<&str> {
        self.family.as_deref()
    }

    /// How errors and logs call it.
    pub(crate) fn label(&self) -> String {
        match &self.family {
            Some(family) => format!("cache {}/{family}", self.name()),
            None => format!("cache {}", self.name()),
        }
    }

    fn slot(&self) -> &Arc<Slot> {
        self.slot.get_or_init(Arc::default)
    }
}

impl<K, V: 'static> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            family: self.family.clone(),
            codec: self.codec,
            settings: self.settings,
            external: self.external,
            declared_at: self.declared_at,
            slot: OnceLock::from(Arc::clone(self.slot())),
            types: PhantomData,
        }
    }
}

impl<K, V: 'static> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("name", &self.name())
            .field("family", &self.family)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
