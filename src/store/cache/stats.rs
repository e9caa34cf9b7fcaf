//! Figures, and the watch over evictions.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocksdb::Options;
use rocksdb::statistics::Ticker;
use serde::Serialize;

use super::Cache;
use super::manifest::Manifest;
use super::open::Open;
use super::place::Place;
use super::retention::Retention;
use crate::error::Result;

/// Writes of one thread between two looks at the counter.
const WRITES_BETWEEN_LOOKS: u8 = u8::MAX;

/// The figures of a cache, or of one family of it where that is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// What may be dropped (of this family).
    pub retention: Retention,
    /// How often old table files were dropped to keep a `Fifo` window since the store was opened, all families. Each
    /// time rows were lost.
    pub evictions: u64,
    /// Rows whose `Ttl` was over and that were taken off the disk since the store was opened, all families.
    pub expired_rows: u64,
    /// Bytes of the table files (of this family): what a `Fifo` window limits.
    pub table_bytes: u64,
    /// Number of the table files (of this family).
    pub table_files: usize,
    /// Bytes in memory that are not yet in table files (of this family).
    pub memory_bytes: u64,
    /// Rows, roughly: rewritten and deleted ones may be counted (of this family).
    pub estimated_rows: u64,
    /// Snapshots that live.
    pub snapshots: u64,
    /// Age of the oldest of them, in whole seconds.
    pub oldest_snapshot_age: Option<Duration>,
    /// Errors of flushes and merges since the store was opened, a full disk for one.
    pub background_errors: u64,
    /// Whether the store makes writers wait at the moment (of this family).
    pub writes_stopped: bool,
    /// The number of the last write.
    pub last_sequence_number: u64,
}

/// One table file of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableFile {
    /// The name of its family.
    pub family: String,
    /// Its file name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: usize,
    /// Its level; 0 holds the newest.
    pub level: i32,
    /// Rows in it, deletions included.
    pub entries: u64,
    /// Deletions in it.
    pub deletions: u64,
}

impl<K, V: 'static> Cache<K, V> {
    /// The figures of now.
    ///
    /// # Errors
    /// [`Kind::Closed`](crate::Kind::Closed); on first use also those of [`open_in`](Self::open_in).
    ///
    /// ```
    /// # use slipstream::{Cache, Retention};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("figures");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 1)?;
    /// let stats = cache.stats()?;
    /// assert_eq!(stats.retention, Retention::Fifo { bytes: 25 * 1024 * 1024 });
    /// assert_eq!((stats.evictions, stats.estimated_rows), (0, 1));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn stats(&self) -> Result<CacheStats> {
        self.with_place(|place| {
            let open = place.open;
            open.watch_evictions();
            let files = open.live_files()?;
            let own = self.family_name().unwrap_or(super::manifest::DEFAULT_FAMILY);
            let table_files = files.iter().filter(|file| file.family == own).count();
            let snapshots = place.figure("rocksdb.num-snapshots")?;
            let oldest = place.figure("rocksdb.oldest-snapshot-time")?;
            Ok(CacheStats {
                retention: place.retention,
                evictions: open.evictions.count(),
                expired_rows: open.expiry.expired.load(Ordering::Relaxed),
                table_bytes: place.figure("rocksdb.total-sst-files-size")?,
                table_files,
                memory_bytes: place.figure("rocksdb.cur-size-all-mem-tables")?,
                estimated_rows: place.figure("rocksdb.estimate-num-keys")?,
                snapshots,
                oldest_snapshot_age: (snapshots > 0).then(|| since_unix_seconds(oldest)),
                background_errors: place.figure("rocksdb.background-errors")?,
                writes_stopped: place.figure("rocksdb.is-write-stopped")? != 0,
                last_sequence_number: open.db.latest_sequence_number(),
            })
        })
    }

    /// A property of RocksDB by its own name, such as `rocksdb.stats` (of this family); `None` when it has none of
    /// that name.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn property(&self, name: &str) -> Result<Option<String>> {
        self.with_place(|place| {
            let value = match &place.family {
                None => place.open.db.property_value(name),
                Some(family) => place.open.db.property_value_cf(family, name),
            };
            value.map_err(|error| place.open.failed(error))
        })
    }

    /// A property of RocksDB that is a number; `None` when it has none of that name.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("property");
    /// # cache.open_in(dir.path())?;
    /// assert_eq!(cache.property_int("rocksdb.background-errors")?, Some(0));
    /// assert_eq!(cache.property_int("rocksdb.unheard-of")?, None);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn property_int(&self, name: &str) -> Result<Option<u64>> {
        self.with_place(|place| place.property_int(name))
    }

    /// The number of the last write; it grows with each.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn latest_sequence_number(&self) -> Result<u64> {
        self.with_open(|open| Ok(open.db.latest_sequence_number()))
    }

    /// The table files of all families.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn live_files(&self) -> Result<Vec<TableFile>> {
        self.with_open(Open::live_files)
    }
}

impl Open {
    fn live_files(&self) -> Result<Vec<TableFile>> {
        let files = self.db.live_files().map_err(|error| self.failed(error))?;
        let files = files.into_iter().map(|file| TableFile {
            family: file.column_family_name,
            name: file.name.trim_start_matches('/').to_owned(),
            size_bytes: file.size,
            level: file.level,
            entries: file.num_entries,
            deletions: file.num_deletions,
        });
        Ok(files.collect())
    }
}

impl Place<'_> {
    fn property_int(&self, name: &str) -> Result<Option<u64>> {
        let value = match &self.family {
            None => self.open.db.property_int_value(name),
            Some(family) => self.open.db.property_int_value_cf(family, name),
        };
        value.map_err(|error| self.open.failed(error))
    }

    fn figure(&self, name: &str) -> Result<u64> {
        Ok(self.property_int(name)?.unwrap_or_default())
    }
}

fn since_unix_seconds(seconds: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(now.as_secs().saturating_sub(seconds))
}

/// Counts how often table files were dropped, and says so the first time.
pub(crate) struct Evictions {
    cache: String,
    /// Counts belong to the options object, which is new with every opening.
    seen: AtomicU64,
}

thread_local! {
    static WRITES: Cell<u8> = const { Cell::new(0) };
}

impl Evictions {
    pub(crate) fn new(cache: &str, options: &Options) -> Self {
        Self { cache: cache.to_owned(), seen: AtomicU64::new(dropped(options)) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Calls `look` once in a while, so that a program that only writes is told as well.
    pub(crate) fn count_write(look: impl FnOnce()) {
        let writes = WRITES.try_with(|writes| writes.replace(writes.get().wrapping_add(1))).unwrap_or_default();
        if writes == WRITES_BETWEEN_LOOKS {
            look();
        }
    }

    pub(crate) fn poll(&self, options: &Options, manifest: &RwLock<Manifest>) {
        let count = dropped(options);
        if self.seen.fetch_max(count, Ordering::Relaxed) == 0 && count > 0 {
            let manifest = manifest.read().unwrap_or_else(PoisonError::into_inner);
            let windows: Vec<_> = manifest.families.iter().map(|(name, own)| format!("{name}: {own}")).collect();
            tracing::warn!(
                cache = self.cache,
                retention = windows.join(", "),
                "old rows are being dropped to keep the window, whether or not they are still needed; \
                 `.retention(Retention::Keep)` keeps every row, `Retention::Fifo` with more bytes keeps more"
            );
        }
    }
}

fn dropped(options: &Options) -> u64 {
    options.get_ticker_count(Ticker::FifoMaxSizeCompactions) + options.get_ticker_count(Ticker::FifoTtlCompactions)
}
