//! Opening in the background, flushing, merging, copies, and the care of files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rocksdb::backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use rocksdb::{DB, Env, Options, WaitForCompactOptions};

use super::blocking::blocking;
use super::failure::failure;
use super::manifest::{self, Manifest};
use super::open::{Raw, check_name, db_dir};
use super::retention::Retention;
use super::{Access, Cache};
use crate::error::{Error, Kind, Result};

impl<K: 'static, V: 'static> Cache<K, V> {
    /// Opens under the process's state directory (`state/<binary name>/caches/<name>`), as the first use outside an
    /// App would, but without blocking the thread.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    ///
    /// # Cancel safety
    /// Dropped half-way, it may be open or not.
    ///
    /// ```standalone_crate
    /// use slipstream::{Cache, Conf};
    ///
    /// static SEEN: Cache<String, u64> = Cache::new("seen");
    ///
    /// #[tokio::main]
    /// async fn main() -> slipstream::Result<()> {
    ///     # let dir = tempfile::tempdir()?;
    ///     # let state = dir.path().display().to_string();
    ///     Conf::set("state.dir", state)?;
    ///     SEEN.open().await?;
    ///     SEEN.put("swift", 1)?;
    ///     SEEN.close()
    /// }
    /// ```
    pub async fn open(&self) -> Result<()> {
        let cache = self.clone();
        blocking(move || cache.open_in(cache.default_dir()?)).await
    }

    /// Writes what is only in memory and in the log to table files, of all families, and waits for it. Not needed for
    /// safety.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// # Cancel safety
    /// Dropped half-way, it goes on in the background.
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> slipstream::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("flushed");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 1)?;
    /// cache.flush().await?;
    /// assert_eq!(cache.live_files()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn flush(&self) -> Result<()> {
        let open = self.opened()?;
        blocking(move || {
            for family in open.manifest().families.keys() {
                let handle = open.place(Some(family))?.handle()?;
                open.db.flush_cf(&handle).map_err(|error| open.failed(error))?;
            }
            open.watch_evictions();
            Ok(())
        })
        .await
    }

    /// Merges the table files of this family now, and waits for it: deleted and overwritten rows give their space back.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// # Cancel safety
    /// Dropped half-way, it goes on in the background.
    ///
    /// ```
    /// # slipstream::testing::block_on(async {
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("compacted");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 1)?;
    /// cache.compact().await?;
    /// assert_eq!(cache.live_files()?.len(), 1);
    /// # Ok::<(), slipstream::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn compact(&self) -> Result<()> {
        let (open, family) = (self.opened()?, self.family.clone());
        blocking(move || {
            let handle = open.place(family.as_deref())?.handle()?;
            open.db.flush_cf(&handle).map_err(|error| open.failed(error))?;
            open.db.compact_range_cf(&handle, None::<&[u8]>, None::<&[u8]>);
            // The call above keeps its errors to itself.
            let ended = open.db.wait_for_compact(&WaitForCompactOptions::default());
            ended.map_err(|error| open.failed(error))
        })
        .await
    }

    /// Copies the whole cache, all families, into the directory `to`. Done again with the same directory it copies
    /// only what is new and keeps the earlier copies. The cache stays in use meanwhile.
    ///
    /// # Errors
    /// As [`put`](Cache::put), and [`Kind::Io`].
    ///
    /// # Cancel safety
    /// Dropped half-way, it goes on in the background.
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> slipstream::Result<()> {
    /// # let (dir, backups, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// # let cache: Cache<u32, u32> = Cache::named("kept");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 10)?;
    /// cache.backup(backups.path()).await?;
    /// cache.close()?;
    /// cache.restore(backups.path(), elsewhere.path()).await?;
    /// cache.open_in(elsewhere.path())?;
    /// assert_eq!(cache.get(1)?, Some(10));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        let (open, to) = (self.opened()?, to.as_ref().to_path_buf());
        blocking(move || {
            fs::create_dir_all(&to).map_err(|error| at(error, &to))?;
            let mut engine = engine(&to)?;
            engine.create_new_backup_flush(&open.db, true).map_err(|error| failure(error, &to))?;
            open.manifest().write(&to)
        })
        .await
    }

    /// Puts the latest copy in `from` into `dir/<name>`, where nothing may be yet. The cache must not be open.
    ///
    /// # Errors
    /// [`Kind::AlreadyOpen`] while it is open or when there is a store in `dir` already, [`Kind::Store`] when `from`
    /// holds no copy, [`Kind::Corrupt`], [`Kind::DiskFull`], [`Kind::Io`].
    ///
    /// # Cancel safety
    /// Dropped half-way, it goes on in the background.
    pub async fn restore(&self, from: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<()> {
        self.must_not_be_open()?;
        check_name(self.name())?;
        let (from, dir) = (from.as_ref().to_path_buf(), dir.as_ref().join(self.name()));
        blocking(move || {
            let (path, to) = (dir.display().to_string(), db_dir(&dir));
            if to.exists() {
                return Err(Error::new(Kind::AlreadyOpen, "there is a store already: destroy it first").at(path));
            }
            let Some(manifest) = Manifest::read(&from)? else {
                return Err(Error::new(Kind::Store, "no copy of a cache").at(from.display().to_string()));
            };
            fs::create_dir_all(&dir).map_err(|error| at(error, &dir))?;
            let restored = engine(&from)?.restore_from_latest_backup(&to, &to, &RestoreOptions::default());
            restored.map_err(|error| failure(error, &from))?;
            manifest.write(&dir)
        })
        .await
    }
}

impl<K, V: 'static> Cache<K, V> {
    /// RocksDB itself, for what is not offered here.
    ///
    /// # Errors
    /// [`Kind::Closed`]; on first use also those of [`open_in`](Self::open_in).
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("raw");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 1)?;
    /// assert_eq!(cache.raw()?.latest_sequence_number(), cache.latest_sequence_number()?);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn raw(&self) -> Result<Raw> {
        self.opened().map(Raw)
    }

    /// For one that is [`secondary`](Self::secondary): shows what the writer has written since it was opened or last
    /// caught up. A disk call.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for any other, [`Kind::Corrupt`], [`Kind::Closed`], [`Kind::Store`].
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("followed");
    /// # cache.open_in(dir.path())?;
    /// let follower: Cache<u32, u32> = Cache::named("followed").secondary();
    /// follower.open_in(dir.path())?;
    /// cache.put(1, 10)?;
    /// follower.catch_up()?;
    /// assert_eq!(follower.get(1)?, Some(10));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn catch_up(&self) -> Result<()> {
        if self.settings.access != Access::Secondary {
            return Err(Error::new(Kind::Unsupported, "only a secondary can catch up").at(self.label()));
        }
        self.with_open(|open| open.db.try_catch_up_with_primary().map_err(|error| open.failed(error)))
    }

    /// Changes RocksDB's options of this family by their own names, until it is closed.
    ///
    /// # Errors
    /// [`Kind::Store`] for one that is unknown or cannot be changed while open, [`Kind::Closed`].
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("tuned");
    /// # cache.open_in(dir.path())?;
    /// cache.set_options(&[("write_buffer_size", "4194304")])?;
    /// assert!(cache.set_options(&[("unheard_of", "1")]).is_err());
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn set_options(&self, options: &[(&str, &str)]) -> Result<()> {
        self.with_place(|place| place.set_options(options))
    }

    /// Takes table files that were written elsewhere into this family: keys as [`keys::encode`](crate::keys::encode)
    /// writes them, in order, values as the codec does. A disk call.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] under `Retention::Ttl`, whose rows carry a time; otherwise as [`put`](Cache::put).
    ///
    /// ```
    /// use rocksdb::{Options, SstFileWriter};
    /// # use slipstream::{Cache, keys};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("ingested");
    /// # cache.open_in(dir.path())?;
    /// let (options, file) = (Options::default(), dir.path().join("rows.sst"));
    /// let mut writer = SstFileWriter::create(&options);
    /// writer.open(&file).unwrap();
    /// writer.put(keys::encode::<u32>(123), [45]).unwrap(); // 45 in MessagePack
    /// writer.finish().unwrap();
    /// cache.ingest_external_file([file])?;
    /// assert_eq!(cache.get(123)?, Some(45));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn ingest_external_file<P: AsRef<Path>>(&self, files: impl IntoIterator<Item = P>) -> Result<()> {
        let files: Vec<PathBuf> = files.into_iter().map(|file| file.as_ref().to_path_buf()).collect();
        self.with_place(|place| {
            if matches!(place.retention, Retention::Ttl(_)) {
                return Err(Error::new(Kind::Unsupported, "rows from outside carry no write time").at(self.label()));
            }
            let taken = place.open.db.ingest_external_file_cf(&place.handle()?, files);
            taken.map_err(|error| place.open.failed(error))?;
            place.open.wrote();
            Ok(())
        })
    }

    /// Saves what can be read of a damaged store in `dir/<name>`. What cannot is lost. The cache must not be open. A
    /// disk call that reads everything.
    ///
    /// # Errors
    /// [`Kind::AlreadyOpen`] while it is open, [`Kind::Locked`], [`Kind::Corrupt`], [`Kind::Store`].
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("repaired");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 10)?;
    /// cache.close()?;
    /// cache.repair_in(dir.path())?;
    /// cache.open_in(dir.path())?;
    /// assert_eq!(cache.get(1)?, Some(10));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn repair_in(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = self.closed_dir(dir.as_ref())?;
        let path = db_dir(&dir);
        DB::repair(&Options::default(), &path).map_err(|error| failure(error, &path))
    }

    /// Deletes the store in `dir/<name>` with everything in it; none is fine. The cache must not be open.
    ///
    /// # Errors
    /// [`Kind::AlreadyOpen`] while it is open, [`Kind::Locked`] when another process holds it, [`Kind::Io`],
    /// [`Kind::Store`].
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("destroyed");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, 10)?;
    /// cache.close()?;
    /// cache.destroy_in(dir.path())?;
    /// cache.open_in(dir.path())?;
    /// assert_eq!(cache.get(1)?, None);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn destroy_in(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = self.closed_dir(dir.as_ref())?;
        let path = db_dir(&dir);
        if path.exists() {
            DB::destroy(&Options::default(), &path).map_err(|error| failure(error, &path))?;
        }
        // What is left after RocksDB took its files: logs, and what a repair put aside.
        gone(fs::remove_dir_all(&path), &path)?;
        let description = dir.join(manifest::FILE);
        gone(fs::remove_file(&description), &description)?;
        gone(fs::remove_dir(&dir), &dir)
    }

    fn closed_dir(&self, caches: &Path) -> Result<PathBuf> {
        self.must_not_be_open()?;
        check_name(self.name())?;
        Ok(caches.join(self.name()))
    }
}

/// Removed, or not there in the first place.
fn gone(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(error, path)),
        _ => Ok(()),
    }
}

fn engine(dir: &Path) -> Result<BackupEngine> {
    let open = || BackupEngine::open(&BackupEngineOptions::new(dir)?, &Env::new()?);
    open().map_err(|error| failure(error, dir))
}

fn at(error: io::Error, path: &Path) -> Error {
    Error::from(error).at(path.display().to_string())
}
