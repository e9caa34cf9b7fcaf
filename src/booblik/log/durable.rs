//! What still has to reach the disk.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::segment::Segment;

/// The segments of a log that were written to and not synced since. Syncs come one after another; one that waited and
/// finds its records synced by the one before has nothing to do.
#[derive(Debug)]
pub(crate) struct Durable {
    directory: PathBuf,
    directory_changed: AtomicBool,
    written: Mutex<Vec<Arc<Segment>>>,
    turn: Mutex<()>,
    appended: AtomicI64,
    synced: AtomicI64,
    barriers: AtomicU64,
}

impl Durable {
    /// Everything up to `end` is on stable storage.
    pub(super) fn new(directory: &Path, end: i64) -> Self {
        Self {
            directory: directory.to_owned(),
            directory_changed: true.into(),
            written: Mutex::default(),
            turn: Mutex::default(),
            appended: end.into(),
            synced: end.into(),
            barriers: 0.into(),
        }
    }

    /// The offset up to which everything is on stable storage.
    pub(crate) fn synced(&self) -> i64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Records that are written and not on stable storage.
    pub(crate) fn unsynced(&self) -> i64 {
        (self.appended.load(Ordering::Acquire) - self.synced()).max(0)
    }

    /// How often the disk was asked to catch up.
    pub(crate) fn barriers(&self) -> u64 {
        self.barriers.load(Ordering::Relaxed)
    }

    /// A segment was written to. Said after the write: a sync that takes the segment off the list comes after it.
    pub(super) fn list(&self, segment: &Arc<Segment>) {
        if !segment.listed.swap(true, Ordering::AcqRel) {
            self.written().push(Arc::clone(segment));
        }
    }

    /// A file was created in the directory, or removed from it.
    pub(super) fn directory_changed(&self) {
        self.directory_changed.store(true, Ordering::Release);
    }

    /// The log ends at `end` now, in memory.
    pub(super) fn appended(&self, end: i64) {
        self.appended.store(end, Ordering::Release);
    }

    /// Keeps syncs away while the log is cut back.
    pub(super) fn cutting(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log was cut back to `end`.
    pub(super) fn cut(&self, end: i64) {
        self.appended.store(end, Ordering::Release);
        self.synced.fetch_min(end, Ordering::AcqRel);
    }

    /// Brings everything that was appended before this call to stable storage. Returns the offset behind it.
    ///
    /// # Errors
    ///
    /// What the operating system says; then nothing more counts as synced than before.
    pub(crate) fn sync(&self) -> io::Result<i64> {
        let wanted = self.appended.load(Ordering::Acquire);
        if self.is_settled(wanted) {
            return Ok(wanted);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_settled(wanted) {
            return Ok(wanted);
        }
        let end = self.appended.load(Ordering::Acquire);
        self.sync_written()?;
        self.synced.store(end, Ordering::Release);
        Ok(end)
    }

    fn is_settled(&self, end: i64) -> bool {
        self.synced() >= end
    }

    fn sync_written(&self) -> io::Result<()> {
        let mut segments = std::mem::take(&mut *self.written());
        let synced = self.sync_each(&segments);
        if synced.is_err() {
            for segment in segments.drain(..) {
                self.list(&segment);
            }
        }
        synced
    }

    fn sync_each(&self, segments: &[Arc<Segment>]) -> io::Result<()> {
        segments.iter().for_each(|segment| segment.listed.store(false, Ordering::Release));
        self.barriers.fetch_add(1, Ordering::Relaxed);
        if self.directory_changed.swap(false, Ordering::AcqRel) {
            File::open(&self.directory).and_then(|directory| directory.sync_all()).inspect_err(|_| {
                self.directory_changed();
            })?;
        }
        for segment in segments {
            let full = segment.is_sealed();
            segment.sync()?;
            if full {
                segment.settle()?;
            }
        }
        Ok(())
    }

    fn written(&self) -> MutexGuard<'_, Vec<Arc<Segment>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
