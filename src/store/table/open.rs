//! The store of an app's tables on one broker: a RocksDB with a family for each table, and one for positions and what
//! belongs together.

use std::any::Any;
use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{BoundColumnFamily, ColumnFamilyDescriptor, DB, WriteBatch, WriteOptions};

use crate::codec;
use crate::error::{Error, Kind, Result};
use crate::flow::durable::Durable;
use crate::flow::fold::FoldHome;
use crate::store::cache::Retention;
use crate::store::cache::failure::failure;
use crate::store::cache::open::db_dir;
use crate::store::cache::options::{self, Expiry};
use crate::store::cache::owner::{Owner, locked};

const OWNER_ONLY: u32 = 0o700;
/// Positions, and which handlers and tables belong together.
pub(super) const META: &str = "positions";
/// In front of a table's name, which then is no name that RocksDB or this file uses.
const TABLE: &str = "t.";
const FORMAT_KEY: &[u8] = b"format";
/// Raised with every change that older versions would misread.
const FORMAT: &[u8] = b"1";

/// Sorts behind the keys of all partitions, whose numbers are not negative.
const BEHIND_ALL: &[u8] = &[0xFF];

/// How long a run of this process that has just ended may take to let go of its store.
const LET_GO: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An open store. Fields are dropped in this order: our name goes before the lock does.
pub(crate) struct TableStore {
    _owner: Owner,
    db: DB,
    dir: PathBuf,
    writes: WriteOptions,
    state: Mutex<WalState>,
    turns: Mutex<Turns>,
    /// A directory that goes when the last one who needs it has gone.
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// What is known of RocksDB's log. It is not synced after a write that failed: RocksDB takes a failed sync for worse than
/// a full disk, and would no longer go on by itself when there is room.
#[derive(Default)]
struct WalState {
    is_dirty: bool,
    /// The last write's failure.
    failed: Option<Error>,
}

type Turns = HashMap<(Arc<str>, i32), Arc<Turn>>;

/// Which assignment of a partition may write: a write of an earlier one, late in its thread, must not.
#[derive(Default)]
pub(super) struct Turn(Mutex<u64>);

impl TableStore {
    /// Opens, or makes, the store in `home`. Blocks.
    ///
    /// # Errors
    /// [`Kind::Locked`], [`Kind::Corrupt`], [`Kind::DiskFull`], [`Kind::Unsupported`] for a newer format, [`Kind::Io`],
    /// [`Kind::Store`].
    pub(super) fn open(home: FoldHome, declared_at: &'static Location<'static>) -> Result<Self> {
        let dir = home.dir;
        let made = DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(&dir);
        made.map_err(|error| Error::from(error).at(dir.display().to_string()))?;
        let db = open_db(&dir)?;
        let store = Self {
            _owner: Owner::write(&dir, declared_at),
            db,
            dir,
            writes: WriteOptions::default(),
            state: Mutex::default(),
            turns: Mutex::default(),
            _keep: home.keep,
        };
        store.tune(META)?;
        store.check_format()?;
        Ok(store)
    }

    /// Sets what RocksDB takes only from an open store.
    fn tune(&self, family: &str) -> Result<()> {
        let options = options::at_run_time(Retention::Keep);
        let options: Vec<_> = options.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.db.set_options_cf(&self.handle(family)?, &options).map_err(|error| self.failed(error))
    }

    fn check_format(&self) -> Result<()> {
        match self.meta(FORMAT_KEY)? {
            None => {
                let mut batch = WriteBatch::new();
                batch.put_cf(&self.handle(META)?, FORMAT_KEY, FORMAT);
                self.write(batch)
            }
            Some(own) if own == FORMAT => Ok(()),
            Some(own) => {
                let own = String::from_utf8_lossy(&own).into_owned();
                let message = format!(
                    "the tables have format {own}, this version reads {}: use the version of the library that wrote \
                     them, or move the directory away and have them built again",
                    String::from_utf8_lossy(FORMAT)
                );
                Err(Error::new(Kind::Unsupported, message).at(self.dir.display().to_string()))
            }
        }
    }

    /// The rows of a table, whose family is made if it is not there.
    pub(super) fn family(self: &Arc<Self>, table: &str) -> Result<Family> {
        let name = format!("{TABLE}{table}");
        if self.db.cf_handle(&name).is_none() {
            let options = options::family(Retention::Keep, &Expiry::default());
            self.db.create_cf(&name, &options).map_err(|error| self.failed(error))?;
        }
        self.tune(&name)?;
        Ok(Family { store: Arc::clone(self), name: name.into(), label: format!("table {table}").into() })
    }

    pub(super) fn handle(&self, family: &str) -> Result<Arc<BoundColumnFamily<'_>>> {
        let missing = || Error::new(Kind::Store, format!("there is no family {family}"));
        self.db.cf_handle(family).ok_or_else(|| missing().at(self.dir.display().to_string()))
    }

    /// What is kept under `key` beside the rows.
    pub(super) fn meta(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.db.get_pinned_cf(&self.handle(META)?, key).map_err(|error| self.failed(error))?;
        Ok(found.map(|bytes| codec::copied(&bytes)))
    }

    /// All that is kept under keys that start with `prefix`.
    pub(super) fn metas(&self, prefix: &[u8]) -> Result<Vec<(Box<[u8]>, Bytes)>> {
        let mut rows = self.db.raw_iterator_cf(&self.handle(META)?);
        rows.seek(prefix);
        let mut found = Vec::new();
        while let Some((key, value)) = rows.item().filter(|(key, _)| key.starts_with(prefix)) {
            found.push((Box::from(key), codec::copied(value)));
            rows.next();
        }
        rows.status().map_err(|error| self.failed(error))?;
        Ok(found)
    }

    /// Writes a batch: all of it or nothing.
    pub(super) fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.db.write_opt(batch, &self.writes).map_err(|error| self.failed(error));
        state.failed = written.as_ref().err().map(Error::copy);
        state.is_dirty |= written.is_ok();
        written
    }

    /// Deletes the rows of a table from `from` up to `to`, or to the end.
    pub(super) fn delete_rows(&self, batch: &mut WriteBatch, table: &str, from: &[u8], to: Option<&[u8]>) {
        // A table that is not there has no rows.
        if let Some(rows) = self.db.cf_handle(&format!("{TABLE}{table}")) {
            batch.delete_range_cf(&rows, from, to.unwrap_or(BEHIND_ALL));
        }
    }

    /// Whose turn it is to write a partition.
    pub(super) fn turn(&self, topic: &Arc<str>, partition: i32) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry((Arc::clone(topic), partition)).or_default())
    }

    /// A copy of the store as it is, beside it: hard links, which take no room until the files are gone here.
    pub(super) fn keep(&self) -> Result<PathBuf> {
        let name = format!("kept-{}", chrono::Utc::now().format("%Y%m%dT%H%M%S%.3fZ"));
        let path = self.dir.join(name);
        let made = Checkpoint::new(&self.db).and_then(|checkpoint| checkpoint.create_checkpoint(&path));
        made.map_err(|error| self.failed(error))?;
        Ok(path)
    }

    pub(super) fn db(&self) -> &DB {
        &self.db
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn failed(&self, error: rocksdb::Error) -> Error {
        failure(error, self.db.path())
    }
}

impl Durable for TableStore {
    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = &state.failed {
            return Err(failed.copy());
        }
        if state.is_dirty {
            self.db.flush_wal(true).map_err(|error| self.failed(error))?;
            state.is_dirty = false;
        }
        Ok(())
    }
}

impl Turn {
    /// Begins a turn: from here on nobody of an earlier one writes. Waits for a write that is under way.
    pub(super) fn begin(&self) -> u64 {
        let mut turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *turn += 1;
        *turn
    }

    /// Calls `write` if it is still the turn `own`.
    pub(super) fn during(&self, own: u64, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *turn == own {
            return write();
        }
        Err(Error::new(Kind::Abandoned, "the partition has been given up and taken anew meanwhile"))
    }
}

/// Opens RocksDB. A run of this process that has just ended is waited for.
fn open_db(dir: &Path) -> Result<DB> {
    let until = Instant::now() + LET_GO;
    loop {
        match try_open(dir) {
            Err(error) if error.kind() == Kind::Locked => {
                // In RocksDB's words.
                let is_ours = error.report().contains("lock hold by current process");
                if !is_ours || Instant::now() >= until {
                    return Err(locked(dir, error));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            other => return other,
        }
    }
}

fn try_open(dir: &Path) -> Result<DB> {
    let (path, options) = (db_dir(dir), options::database());
    let typed = |error| failure(error, &path);
    let mut names = vec![rocksdb::DEFAULT_COLUMN_FAMILY_NAME.to_owned(), META.to_owned()];
    if path.join("CURRENT").exists() {
        let listed = DB::list_cf(&options, &path).map_err(typed)?;
        let others: Vec<_> = listed.into_iter().filter(|name| !names.contains(name)).collect();
        names.extend(others);
    }
    let family = || options::family(Retention::Keep, &Expiry::default());
    let described = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, family()));
    DB::open_cf_descriptors(&options, &path, described).map_err(typed)
}

/// The rows of one table in the store.
#[derive(Clone)]
pub(super) struct Family {
    store: Arc<TableStore>,
    name: Arc<str>,
    label: Arc<str>,
}

impl Family {
    pub(super) fn handle(&self) -> Result<Arc<BoundColumnFamily<'_>>> {
        self.store.handle(&self.name)
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.store.db.get_pinned_cf(&self.handle()?, key).map_err(|error| self.store.failed(error))?;
        Ok(found.map(|bytes| codec::copied(&bytes)))
    }

    /// One of RocksDB's numbers.
    pub(super) fn number(&self, property: &str) -> Result<u64> {
        let number = self.store.db.property_int_value_cf(&self.handle()?, property);
        Ok(number.map_err(|error| self.store.failed(error))?.unwrap_or(0))
    }

    pub(super) fn store(&self) -> &Arc<TableStore> {
        &self.store
    }

    pub(super) fn here(&self, error: Error) -> Error {
        if error.place().is_some() { error } else { error.at(&*self.label) }
    }
}

/// In front of the keys of one partition.
pub(super) fn partition_prefix(partition: i32) -> [u8; 4] {
    partition.to_be_bytes()
}
