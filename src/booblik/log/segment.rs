//! One open file of a log.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::buffer::spare_capacity;
use rustix::fs::fdatasync;
use rustix::io::{pread, pwrite};

use super::index::Index;
use super::name::{segment_path, unsettled_path};
use super::record::{Front, HEADER_BYTES, front};

/// What is written again at a time after a failed sync.
const AGAIN_BYTES: usize = 256 << 10;

/// A file with records back to back. The writer adds at its end; readers see what was published. The file is closed
/// when the last of them lets go, which may be after it was removed from the log.
#[derive(Debug)]
pub(crate) struct Segment {
    base: i64,
    directory: PathBuf,
    file: File,
    index: Mutex<Index>,
    records: AtomicU64,
    bytes: AtomicU64,
    sealed: AtomicBool,
    /// Bytes that are written, seen by readers or not, and how many of them are on stable storage.
    written: AtomicU64,
    synced: AtomicU64,
    /// A sync failed. The operating system may take what it could not write for written.
    suspect: AtomicBool,
    /// It is on the list of those that were written to since they were last synced.
    pub(super) listed: AtomicBool,
}

impl Segment {
    /// Creates an empty file. One that is there already is an error.
    pub(super) fn create(directory: &Path, base: i64, index_interval: u64) -> io::Result<Self> {
        let path = segment_path(directory, base);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Self::new(directory, base, file, Index::new(index_interval), 0, 0))
    }

    pub(super) fn new(directory: &Path, base: i64, file: File, index: Index, records: u64, bytes: u64) -> Self {
        Self {
            base,
            directory: directory.to_owned(),
            file,
            index: Mutex::new(index),
            records: records.into(),
            bytes: bytes.into(),
            sealed: false.into(),
            written: bytes.into(),
            synced: bytes.into(),
            suspect: false.into(),
            listed: false.into(),
        }
    }

    /// The offset of its first record.
    pub(crate) fn base(&self) -> i64 {
        self.base
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Records that readers may see.
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Acquire)
    }

    /// Bytes that readers may see.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// The offset behind its last record that readers may see.
    pub(super) fn end(&self) -> i64 {
        self.base.saturating_add_unsigned(self.records())
    }

    /// Whether nothing will be added any more.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(super) fn set_sealed(&self, sealed: bool) {
        self.sealed.store(sealed, Ordering::Release);
    }

    /// Lets readers see what was written up to here.
    pub(super) fn publish(&self, records: u64, bytes: u64) {
        // In this order: whoever sees a record sees its bytes.
        self.bytes.store(bytes, Ordering::Release);
        self.records.store(records, Ordering::Release);
    }

    /// The file has this many bytes now.
    pub(super) fn set_written(&self, bytes: u64) {
        self.written.store(bytes, Ordering::Release);
        self.synced.fetch_min(bytes, Ordering::AcqRel);
    }

    /// Brings what is written to stable storage. The file must not be cut meanwhile.
    pub(super) fn sync(&self) -> io::Result<()> {
        let written = self.written.load(Ordering::Acquire);
        if self.suspect.load(Ordering::Acquire) {
            self.write_again(self.synced.load(Ordering::Acquire), written)?;
        }
        let synced = fdatasync(&self.file);
        self.suspect.store(synced.is_err(), Ordering::Release);
        synced?;
        self.synced.store(written, Ordering::Release);
        Ok(())
    }

    /// Writes what lies between `from` and `end` once more: after a failed sync the next one says nothing about it.
    fn write_again(&self, from: u64, end: u64) -> io::Result<()> {
        let (mut position, mut piece) = (from, Vec::with_capacity(AGAIN_BYTES));
        while position < end {
            piece.clear();
            if read_some(&self.file, position, &mut piece)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.truncate(usize::try_from(end - position).unwrap_or(usize::MAX));
            self.write_at(&piece, position)?;
            position += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes all of `bytes` at `position`: one system call unless the operating system takes less.
    pub(super) fn write_at(&self, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match pwrite(&self.file, bytes, position) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                other => other?,
            };
            bytes = bytes.get(written..).unwrap_or_default();
            position += written as u64;
        }
        Ok(())
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it was last written to.
    pub(super) fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    /// Where the record with this number, counted from the segment's first, begins. It must be published. Asks the
    /// operating system for what lies between the nearest known place and it; for nothing, if the place itself is known.
    pub(super) fn position_of(&self, record: u64) -> io::Result<u64> {
        let floor = self.index().floor(record);
        let (mut at, mut position) = (u64::from(floor.record), u64::from(floor.position));
        if at == record {
            return Ok(position);
        }
        let mut piece = Vec::with_capacity(8 << 10);
        while at < record {
            piece.clear();
            read_some(&self.file, position, &mut piece)?;
            let moved = walk(&piece, record - at);
            if moved.0 == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the file changed while it was open"));
            }
            at += moved.0;
            position += moved.1;
        }
        self.index().hint(record, position);
        Ok(position)
    }

    /// Removes the file's name. Readers that hold the segment go on reading.
    pub(super) fn unlink(&self) -> io::Result<()> {
        self.settle()?;
        std::fs::remove_file(segment_path(&self.directory, self.base))
    }

    /// Says on disk that the segment is full and not yet on stable storage: if the machine loses power now, what
    /// follows a gap in it was never promised to anyone.
    pub(super) fn unsettle(&self) -> io::Result<()> {
        File::create(unsettled_path(&self.directory, self.base)).map(drop)
    }

    pub(super) fn settle(&self) -> io::Result<()> {
        match std::fs::remove_file(unsettled_path(&self.directory, self.base)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Records and bytes from the front of `stored` that can be stepped over; the last payload need not be whole.
fn walk(stored: &[u8], records: u64) -> (u64, u64) {
    let (mut seen, mut bytes) = (0, 0);
    while seen < records {
        let rest = usize::try_from(bytes).ok().and_then(|bytes| stored.get(bytes..)).unwrap_or_default();
        let size = match front(rest) {
            Front::Whole { payload, .. } => (payload.len() + HEADER_BYTES) as u64,
            Front::Part { bytes } if rest.len() >= HEADER_BYTES => bytes,
            Front::Part { .. } | Front::End => break,
        };
        seen += 1;
        bytes += size;
    }
    (seen, bytes)
}

/// One read into the free part of `buffer`, which may add less than fits and nothing at the end of the file.
pub(super) fn read_some(file: &File, position: u64, buffer: &mut Vec<u8>) -> io::Result<usize> {
    if buffer.len() == buffer.capacity() {
        return Ok(0);
    }
    loop {
        match pread(file, spare_capacity(buffer), position) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_sync_what_is_not_on_disk_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let segment = Segment::create(directory.path(), 0, 4096).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        segment.write_at(&bytes, 0).unwrap();
        segment.set_written(1_000_000);
        segment.suspect.store(true, Ordering::Release);
        segment.sync().unwrap();
        assert_eq!(std::fs::read(segment_path(directory.path(), 0)).unwrap(), bytes);
        assert!(!segment.suspect.load(Ordering::Acquire));
        assert_eq!(segment.synced.load(Ordering::Acquire), 1_000_000);
        segment.set_written(10);
        assert_eq!(segment.synced.load(Ordering::Acquire), 10);
    }
}
