//! The re-openable place in a declaration: what is open, who holds it, and whether it was closed.
//!
//! An App holds what it uses until it ends; a use outside an App opens and holds until `close`.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};

use super::open::{Declared, Open};
use super::{Cache, Settings};
use crate::conf::Conf;
use crate::error::{Error, Kind, Result};
use crate::flow::Gate;

#[derive(Default)]
pub(crate) struct Slot {
    /// Each call reads it: threads that call at the same time must not write to one cache line.
    state: ShardedLock<State>,
    pub(super) gate: Gate,
    /// The channel of its changes in the app that has it open; a `Channel` of the cache's types.
    pub(super) changes: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

#[derive(Default)]
enum State {
    /// Never used, or the last App that used it has ended: the next use opens.
    #[default]
    Free,
    Open(Lease),
    /// Closed by the user: uses are errors until it is opened again.
    Closed,
}

struct Lease {
    open: Arc<Open>,
    /// Apps that hold it.
    holders: usize,
    /// Whether it also stays open without one.
    until_closed: bool,
}

/// Whether an opening lasts as long as its [`Hold`], or until `close`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasting {
    WhileHeld,
    UntilClosed,
}

/// Keeps a cache open; the store is closed when the last one is dropped, unless it was opened outside an App too.
#[must_use]
pub(crate) struct Hold {
    slot: Arc<Slot>,
    /// Which opening; a later one is not ours to end.
    open: Weak<Open>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.slot.write();
        if let State::Open(lease) = &mut *state
            && std::ptr::eq(Arc::as_ptr(&lease.open), self.open.as_ptr())
        {
            lease.holders = lease.holders.saturating_sub(1);
            if lease.holders == 0 && !lease.until_closed {
                *state = State::Free;
            }
        }
    }
}

impl Slot {
    fn read(&self) -> ShardedLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> ShardedLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, dir: &Path, declared: Declared<'_>, lasting: Lasting) -> Result<Arc<Open>> {
        let mut state = self.write();
        if let State::Open(lease) = &mut *state {
            same_settings(&lease.open, declared.settings)?;
            same_dir(&lease.open, &dir.join(declared.name))?;
            lease.take(lasting);
            return Ok(Arc::clone(&lease.open));
        }
        let open = Arc::new(Open::open_at(dir, declared)?);
        let mut lease = Lease { open: Arc::clone(&open), holders: 0, until_closed: false };
        lease.take(lasting);
        *state = State::Open(lease);
        Ok(open)
    }
}

impl Lease {
    fn take(&mut self, lasting: Lasting) {
        match lasting {
            Lasting::WhileHeld => self.holders += 1,
            Lasting::UntilClosed => self.until_closed = true,
        }
    }
}

fn same_settings(open: &Open, settings: Settings) -> Result<()> {
    if open.settings == settings {
        return Ok(());
    }
    let (own, asked) = (open.settings, settings);
    let message = format!("open already with {own:?}, asked for with {asked:?}");
    Err(Error::new(Kind::AlreadyOpen, message).at(open.dir().display().to_string()))
}

fn same_dir(open: &Open, asked: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if open.dir() == asked || real(open.dir()) == real(asked) {
        return Ok(());
    }
    let (own, asked) = (open.dir().display(), asked.display());
    Err(Error::new(Kind::AlreadyOpen, format!("open already in {own}, asked for in {asked}")))
}

fn closed(label: &str) -> Error {
    Error::new(Kind::Closed, "used after it was closed").at(label)
}

impl<K, V: 'static> Cache<K, V> {
    /// Opens in `dir/<name>` and stays open until [`close`](Self::close). Directories are made for their owner only.
    ///
    /// # Errors
    /// [`Kind::AlreadyOpen`] when it is open elsewhere or under other settings, [`Kind::Locked`] when another process
    /// or another declaration holds the directory (it says which), [`Kind::Config`] for a wrong name or a retention
    /// that the store cannot have, [`Kind::Corrupt`], [`Kind::DiskFull`], [`Kind::Unsupported`] for a newer format.
    ///
    /// ```
    /// # use slipstream::{Cache, Kind};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let (one, two): (Cache<u8, u8>, Cache<u8, u8>) = (Cache::named("same"), Cache::named("same"));
    /// one.open_in(dir.path())?;
    /// let error = two.open_in(dir.path()).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Locked);
    /// assert!(error.report().contains("held by this process, declared at"));
    /// one.close()?;
    /// two.open_in(dir.path())?;
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn open_in(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.slot().open(dir.as_ref(), self.declared(), Lasting::UntilClosed).map(drop)
    }

    /// Opens in `dir/<name>` for as long as what is returned lives: what an App does with the caches it uses.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    pub(crate) fn hold_in(&self, dir: &Path) -> Result<Hold> {
        let open = self.slot().open(dir, self.declared(), Lasting::WhileHeld)?;
        Ok(Hold { slot: Arc::clone(self.slot()), open: Arc::downgrade(&open) })
    }

    /// Closes the store; until it is opened again every use is a [`Kind::Closed`] error, for all clones and families.
    /// Waits for calls that are under way. Scans, snapshots and transactions that still live keep the files open
    /// until they are dropped.
    ///
    /// # Errors
    /// [`Kind::Closed`] when it is closed already.
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("closed");
    /// # cache.open_in(dir.path())?;
    /// assert!(cache.is_open());
    /// assert!(cache.path()?.ends_with("closed"));
    /// cache.close()?;
    /// assert_eq!(cache.get(1).unwrap_err().kind(), slipstream::Kind::Closed);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        match std::mem::replace(&mut *self.slot().write(), State::Closed) {
            State::Closed => Err(closed(&self.label())),
            State::Free | State::Open(_) => Ok(()),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(&*self.slot().read(), State::Open(_))
    }

    /// The directory of the cache that is open: `<caches>/<name>`.
    ///
    /// # Errors
    /// As any first use: see [`open_in`](Self::open_in).
    pub fn path(&self) -> Result<PathBuf> {
        self.with_open(|open| Ok(open.dir().to_path_buf()))
    }

    fn declared(&self) -> Declared<'_> {
        Declared { name: self.name(), settings: self.settings, at: self.declared_at }
    }

    /// Runs a short call on the open store. `close` waits for it, so that no user's code may run inside.
    pub(crate) fn with_open<R>(&self, call: impl FnOnce(&Open) -> Result<R>) -> Result<R> {
        if let State::Open(lease) = &*self.slot().read() {
            same_settings(&lease.open, self.settings)?;
            return call(&lease.open);
        }
        call(&*self.open_on_demand()?)
    }

    /// The open store, for what lasts longer than a call.
    pub(crate) fn opened(&self) -> Result<Arc<Open>> {
        if let State::Open(lease) = &*self.slot().read() {
            same_settings(&lease.open, self.settings)?;
            return Ok(Arc::clone(&lease.open));
        }
        self.open_on_demand()
    }

    /// Where it lives outside an App: the caches of the process-wide configuration's app.
    pub(crate) fn default_dir(&self) -> Result<PathBuf> {
        let settings = Conf::open(&self.label())?;
        Ok(settings.state_dir().join(settings.app_id()).join("caches"))
    }

    fn open_on_demand(&self) -> Result<Arc<Open>> {
        if matches!(&*self.slot().read(), State::Closed) {
            return Err(closed(&self.label()));
        }
        self.slot().open(&self.default_dir()?, self.declared(), Lasting::UntilClosed)
    }

    /// # Errors
    /// [`Kind::AlreadyOpen`] while it is open.
    pub(crate) fn must_not_be_open(&self) -> Result<()> {
        match &*self.slot().read() {
            State::Open(lease) => {
                Err(Error::new(Kind::AlreadyOpen, "close it first").at(lease.open.dir().display().to_string()))
            }
            State::Free | State::Closed => Ok(()),
        }
    }
}
