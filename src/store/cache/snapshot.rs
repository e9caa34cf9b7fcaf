//! A cache as it was at one moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocksdb::{DB, ReadOptions, SnapshotWithThreadMode};

use super::Cache;
use super::open::Open;
use crate::codec;
use crate::error::Result;
use crate::keys::{self, AsKey, Key};

/// A RocksDB snapshot with the store that it is of. The snapshot is dropped first.
pub(crate) struct Pin {
    snapshot: SnapshotWithThreadMode<'static, DB>,
    open: Arc<Open>,
}

impl Pin {
    fn new(open: Arc<Open>) -> Self {
        let snapshot = open.db.snapshot();
        // SAFETY: `snapshot` borrows the `DB` inside the `Arc<Open>`, whose address does not change and which `open`
        // keeps alive; `snapshot` is declared before `open` and so dropped before it, and it is private.
        #[expect(unsafe_code, reason = "a snapshot that owns its store cannot be written without")]
        let snapshot = unsafe {
            std::mem::transmute::<SnapshotWithThreadMode<'_, DB>, SnapshotWithThreadMode<'static, DB>>(snapshot)
        };
        Self { snapshot, open }
    }

    pub(crate) fn open(&self) -> &Arc<Open> {
        &self.open
    }

    /// Makes reads see the snapshot.
    pub(crate) fn apply(&self, reads: &mut ReadOptions) {
        reads.set_snapshot(&self.snapshot);
    }

    fn get(&self, family: Option<&str>, key: &[u8]) -> Result<Option<Bytes>> {
        let place = self.open.place(family)?;
        let row = match &place.family {
            None => self.snapshot.get_pinned(key),
            Some(family) => self.snapshot.get_pinned_cf(family, key),
        };
        let row = row.map_err(|error| self.open.failed(error))?;
        Ok(place.living(row.as_deref()).map(codec::copied))
    }
}

/// A cache as it was when the snapshot was taken; later writes do not show. The store keeps what it shows while it
/// lives, so that an old one costs disk space: [`stats`](Cache::stats) has the age of the oldest.
///
/// ```
/// use slipstream::Cache;
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let cache: Cache<String, u32> = Cache::named("snapshot");
/// # cache.open_in(dir.path())?;
/// cache.put("a", 1)?;
/// let before = cache.snapshot()?;
/// cache.put("a", 2)?;
/// cache.put("b", 3)?;
/// assert_eq!(before.get("a")?, Some(1));
/// assert_eq!(before.keys().iter().count(), 1);
/// # Ok::<(), slipstream::Error>(())
/// ```
pub struct Snapshot<K, V: 'static> {
    pub(crate) cache: Cache<K, V>,
    pub(crate) pin: Arc<Pin>,
    taken: Instant,
}

impl<K: Key, V: 'static> Cache<K, V> {
    /// A view that stays as the cache is now.
    ///
    /// # Errors
    /// [`Kind::Closed`](crate::Kind::Closed); on first use also those of [`open_in`](Self::open_in).
    pub fn snapshot(&self) -> Result<Snapshot<K, V>> {
        let pin = Arc::new(Pin::new(self.opened()?));
        Ok(Snapshot { cache: self.clone(), pin, taken: Instant::now() })
    }
}

impl<K: Key, V: 'static> Snapshot<K, V> {
    /// The value that `key` had. A disk call.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        let row = keys::with_bytes(&key, |key| self.pin.get(self.cache.family_name(), key))?;
        row.map(|row| self.cache.decode(row)).transpose()
    }

    /// Whether `key` had a row. A disk call.
    ///
    /// # Errors
    /// As [`Cache::contains`].
    pub fn contains(&self, key: impl AsKey<K>) -> Result<bool> {
        keys::with_bytes(&key, |key| self.pin.get(self.cache.family_name(), key)).map(|row| row.is_some())
    }

    /// How long ago it was taken.
    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }
}

impl<K, V: 'static> std::fmt::Debug for Snapshot<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("cache", &self.cache).field("taken", &self.taken).finish_non_exhaustive()
    }
}
