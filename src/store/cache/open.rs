//! A store that is open.

use std::fs::DirBuilder;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rocksdb::{ColumnFamilyDescriptor, DB, Options, ReadOptions, WriteBatch, WriteOptions};

use super::clock::Clock;
use super::failure::failure;
use super::locks::KeyLocks;
use super::manifest::{DEFAULT_FAMILY, Manifest};
use super::options::{self, Expiry};
use super::owner::{Owner, locked};
use super::place::Place;
use super::retention::Retention;
use super::stats::Evictions;
use super::{Access, Settings};
use crate::error::{Error, Kind, Result};

const OWNER_ONLY: u32 = 0o700;
const MAX_NAME_BYTES: usize = 64;

/// What opening needs to know of a declaration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    pub(crate) settings: Settings,
    pub(crate) at: &'static Location<'static>,
}

/// One open RocksDB and what belongs to it. Fields are dropped in this order: our name goes before the lock does, and
/// a follower's files go after it has closed them.
pub(crate) struct Open {
    _owner: Option<Owner>,
    pub(crate) db: DB,
    _scratch: Option<Scratch>,
    options: Options,
    dir: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) retention: Retention,
    manifest: RwLock<Manifest>,
    pub(crate) reads: ReadOptions,
    pub(crate) writes: WriteOptions,
    pub(crate) sink_writes: WriteOptions,
    dirty: AtomicBool,
    /// A write found the disk full.
    full: AtomicBool,
    pub(crate) locks: Arc<KeyLocks>,
    pub(crate) expiry: Expiry,
    pub(crate) evictions: Evictions,
}

impl Open {
    /// Opens, or makes, the store of a cache below `caches`, the directory of an App's caches.
    ///
    /// # Errors
    /// [`Kind::Config`] for a name or retention that cannot be, [`Kind::Locked`], [`Kind::Corrupt`],
    /// [`Kind::DiskFull`], [`Kind::Unsupported`] for a newer format, [`Kind::Io`], [`Kind::Store`].
    pub(crate) fn open_at(caches: &Path, declared: Declared<'_>) -> Result<Self> {
        let named = |error: Error| match error.place() {
            Some(_) => error,
            None => error.at(format!("cache {}", declared.name)),
        };
        check_name(declared.name)?;
        Self::open_dir(&caches.join(declared.name), declared).map_err(named)
    }

    fn open_dir(dir: &Path, declared: Declared<'_>) -> Result<Self> {
        let writer = declared.settings.access == Access::ReadWrite;
        if writer {
            let made = DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(dir);
            made.map_err(|error| Error::from(error).at(dir.display().to_string()))?;
        }
        let stored = Manifest::read(dir)?;
        let manifest = settle(dir, stored.clone(), declared)?;
        let (expiry, options) = (Expiry::default(), options::database());
        let scratch = (declared.settings.access == Access::Secondary).then(Scratch::create).transpose()?;
        let db = open_db(dir, &options, &manifest, &expiry, declared.settings.access, scratch.as_ref())?;
        let open = Self {
            _owner: writer.then(|| Owner::write(dir, declared.at)),
            retention: manifest.families.get(DEFAULT_FAMILY).copied().unwrap_or_default(),
            db,
            _scratch: scratch,
            evictions: Evictions::new(declared.name, &options),
            options,
            dir: dir.to_path_buf(),
            settings: declared.settings,
            manifest: RwLock::default(),
            reads: ReadOptions::default(),
            writes: WriteOptions::default(),
            sink_writes: options::without_waiting(),
            dirty: AtomicBool::new(false),
            full: AtomicBool::new(false),
            locks: Arc::default(),
            expiry,
        };
        if writer {
            open.prepare(&manifest, stored.as_ref() == Some(&manifest))?;
        }
        *open.manifest.write().unwrap_or_else(PoisonError::into_inner) = manifest;
        Ok(open)
    }

    /// What only a writer does after opening.
    fn prepare(&self, manifest: &Manifest, unchanged: bool) -> Result<()> {
        if !unchanged {
            manifest.write(&self.dir)?;
        }
        for (family, retention) in &manifest.families {
            self.tune(family, *retention)?;
        }
        Ok(())
    }

    /// Sets what RocksDB takes only from an open store.
    pub(crate) fn tune(&self, family: &str, retention: Retention) -> Result<()> {
        let options = options::at_run_time(retention);
        let options: Vec<_> = options.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.place(Some(family))?.set_options(&options)
    }

    /// The rows of one family; `None` is the cache itself.
    pub(crate) fn place(&self, family: Option<&str>) -> Result<Place<'_>> {
        let Some(family) = family else { return Ok(Place { open: self, family: None, retention: self.retention }) };
        let handle = self.db.cf_handle(family).ok_or_else(|| {
            Error::new(Kind::Closed, format!("there is no family {family}")).at(self.dir.display().to_string())
        })?;
        let retention = self.manifest.read().unwrap_or_else(PoisonError::into_inner).families.get(family).copied();
        Ok(Place { open: self, family: Some(handle), retention: retention.unwrap_or(Retention::Keep) })
    }

    /// Names and retentions of the families, the cache itself included.
    pub(crate) fn manifest(&self) -> Manifest {
        self.manifest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes families: `change` edits the description and does the same to the store.
    pub(crate) fn change_families<R>(&self, change: impl FnOnce(&mut Manifest) -> Result<R>) -> Result<R> {
        let mut current = self.manifest.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = current.clone();
        let result = change(&mut next)?;
        *current = next;
        Ok(result)
    }

    /// The directory that holds everything of this cache.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn failed(&self, error: rocksdb::Error) -> Error {
        let error = failure(error, self.db.path());
        if error.kind() == Kind::DiskFull {
            self.full.store(true, Ordering::Release);
        }
        error
    }

    /// Remembers that something was written since the last sync.
    pub(crate) fn wrote(&self) {
        // Mostly it is set already: a load keeps the line shared between the writing threads.
        if !self.dirty.load(Ordering::Relaxed) {
            self.dirty.store(true, Ordering::Release);
        }
    }

    /// Makes everything written so far survive a power loss; without a write since the last time, nothing is done.
    pub(crate) fn sync(&self) -> Result<()> {
        // RocksDB takes a failed sync for worse than a full disk, and would no longer go on by itself when there is room.
        if self.full.load(Ordering::Acquire) {
            let nothing = self.db.write_opt(WriteBatch::default(), &self.writes);
            nothing.map_err(|error| self.failed(error))?;
            self.full.store(false, Ordering::Release);
        }
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.db.flush_wal(true).map_err(|error| {
            self.dirty.store(true, Ordering::Release);
            self.failed(error)
        })
    }

    /// Notices evictions; cheap enough to be called where a reader is about to be told that there is no row.
    pub(crate) fn watch_evictions(&self) {
        self.evictions.poll(&self.options, &self.manifest);
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.expiry.clock
    }
}

/// Where RocksDB lies in a cache's directory.
pub(crate) fn db_dir(dir: &Path) -> PathBuf {
    dir.join("db")
}

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Config,
        format!(
            "{name:?} cannot name a cache or a family: letters, digits, `.`, `_`, `-`, at most {MAX_NAME_BYTES}, the first a letter or digit"
        ),
    ))
}

/// What the store will be: what it says of itself, and what the declaration says.
fn settle(dir: &Path, stored: Option<Manifest>, declared: Declared<'_>) -> Result<Manifest> {
    let mut manifest = stored.unwrap_or_default();
    let said = declared.settings.retention.map(Retention::checked).transpose()?;
    let retention = match manifest.families.get(DEFAULT_FAMILY) {
        None => said.unwrap_or_default(),
        Some(own) => {
            let new = own.change_to(said).map_err(|error| error.at(dir.display().to_string()))?;
            if own.shrinks_to(new) {
                tracing::warn!(cache = declared.name, from = %own, to = %new, "the retention shrinks: rows will go");
            }
            new
        }
    };
    manifest.families.insert(DEFAULT_FAMILY.to_owned(), retention);
    Ok(manifest)
}

fn open_db(
    dir: &Path,
    options: &Options,
    manifest: &Manifest,
    expiry: &Expiry,
    access: Access,
    scratch: Option<&Scratch>,
) -> Result<DB> {
    let path = db_dir(dir);
    let exists = path.join("CURRENT").exists();
    if access != Access::ReadWrite && !exists {
        return Err(Error::new(Kind::Store, "there is no store to read yet").at(path.display().to_string()));
    }
    let typed = |error| match failure(error, &path) {
        error if error.kind() == Kind::Locked => locked(dir, error),
        error => error,
    };
    let mut families: Vec<_> = manifest.families.iter().map(|(name, retention)| (name.clone(), *retention)).collect();
    if exists {
        // Those that we do not know of belong to someone else: they are opened, since RocksDB wants it, and kept.
        let listed = DB::list_cf(options, &path).map_err(typed)?;
        let unknown = listed.into_iter().filter(|name| !manifest.families.contains_key(name));
        families.extend(unknown.map(|name| (name, Retention::Keep)));
    }
    let described = families
        .into_iter()
        .map(|(name, retention)| ColumnFamilyDescriptor::new(name, options::family(retention, expiry)));
    match (access, scratch) {
        (Access::ReadOnly, _) => DB::open_cf_descriptors_read_only(options, &path, described, false),
        (Access::Secondary, Some(scratch)) => {
            DB::open_cf_descriptors_as_secondary(options, &path, &scratch.path, described)
        }
        _ => DB::open_cf_descriptors(options, &path, described),
    }
    .map_err(typed)
}

/// The directory in which a follower keeps its few own files.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn create() -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("slipstream-secondary-{}-{number}", std::process::id()));
        // Of an earlier process with our id; a foreign one that we may not remove makes the next step fail.
        let _ = std::fs::remove_dir_all(&path);
        DirBuilder::new().mode(OWNER_ONLY).create(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// RocksDB itself, for what [`Cache`](super::Cache) does not offer; keeps the store open.
///
/// Keys are those of [`keys::encode`](crate::keys::encode), values those of the codec (with 8 bytes of write time
/// behind them under `Retention::Ttl`).
///
/// ```
/// use slipstream::{Cache, keys};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let cache: Cache<u32, String> = Cache::named("raw");
/// cache.open_in(dir.path())?;
/// cache.put(7, "seven".to_owned())?;
/// let raw = cache.raw()?;
/// assert!(raw.get(keys::encode::<u32>(7)).unwrap().is_some());
/// # Ok::<(), slipstream::Error>(())
/// ```
pub struct Raw(pub(crate) Arc<Open>);

impl Deref for Raw {
    type Target = DB;
    fn deref(&self) -> &DB {
        &self.0.db
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Raw").field(&self.0.dir).finish()
    }
}
