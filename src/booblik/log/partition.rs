//! The writing side of a log. There is one per partition, and one thread at a time that uses it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::ftruncate;

use crate::error::{Error, Result};

use super::durable::Durable;
use super::options::LogOptions;
use super::record::{Front, HEADER_BYTES, front};
use super::retain::{Age, Retention, expired};
use super::segment::Segment;
use super::view::View;

/// Zeros that a probe for room writes at most.
const PROBE_BYTES: usize = 256 << 10;

/// A log and the place where it grows.
///
/// What is appended stays unseen until [`publish`](Self::publish), and can be taken back until then.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    directory: PathBuf,
    options: LogOptions,
    view: Arc<View>,
    durable: Arc<Durable>,
    active: Arc<Segment>,
    /// What began since the last `publish`.
    begun: Vec<Begun>,
    /// Records and bytes of the active segment, published or not.
    records: u64,
    position: u64,
    /// An append failed and its remains could not be cut off.
    ragged: bool,
}

/// A new segment, and how far the one before it was filled.
#[derive(Debug)]
struct Begun {
    segment: Arc<Segment>,
    full: Arc<Segment>,
    full_records: u64,
    full_bytes: u64,
}

impl PartitionLog {
    /// The log of recovered segments, of which there is at least one.
    pub(super) fn new(
        directory: &Path,
        options: LogOptions,
        segments: Vec<Arc<Segment>>,
        active: Arc<Segment>,
    ) -> Self {
        let (records, position) = (active.records(), active.bytes());
        let durable = Arc::new(Durable::new(directory, active.end()));
        let view = Arc::new(View::new(segments));
        let directory = directory.to_owned();
        Self { directory, options, view, durable, active, begun: Vec::new(), records, position, ragged: false }
    }

    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    pub(crate) fn durable(&self) -> &Arc<Durable> {
        &self.durable
    }

    /// The offset that the next record gets.
    pub(crate) fn next(&self) -> i64 {
        self.active.base().saturating_add_unsigned(self.records)
    }

    /// Writes records, given back to back in their stored form and each small enough for a segment. One system call,
    /// or one per segment where the capacity ends in between. Returns the offsets that they got.
    ///
    /// # Errors
    ///
    /// `Kind::DiskFull`, `Kind::Io`. Then nothing of it is in the log: what was written is taken back, together with
    /// everything else since the last `publish`.
    pub(crate) fn append(&mut self, stored: &[u8]) -> Result<Range<i64>> {
        let base = self.next();
        match self.try_append(stored) {
            Ok(()) => Ok(base..self.next()),
            Err(error) => {
                self.take_back();
                Err(Error::from(error).at(self.directory.display().to_string()))
            }
        }
    }

    fn try_append(&mut self, mut stored: &[u8]) -> io::Result<()> {
        if self.ragged && !self.take_back() {
            return Err(io::Error::other("the remains of a failed write are still there"));
        }
        while !stored.is_empty() {
            let room = self.options.segment_bytes.saturating_sub(self.position);
            let (bytes, records) = self.note_what_fits(stored, room);
            if bytes == 0 {
                self.roll()?;
                continue;
            }
            let (run, rest) = stored.split_at(bytes);
            self.active.write_at(run, self.position)?;
            self.position += run.len() as u64;
            self.active.set_written(self.position);
            self.durable.list(&self.active);
            self.records += records;
            stored = rest;
        }
        self.durable.appended(self.next());
        Ok(())
    }

    /// The records at the front that fit into `room`, in bytes and in number; into an empty segment at least one.
    fn note_what_fits(&self, stored: &[u8], room: u64) -> (usize, u64) {
        let mut index = self.active.index();
        let (mut bytes, mut records) = (0, 0);
        while let Front::Whole { payload, .. } = front(stored.get(bytes..).unwrap_or_default()) {
            let after = bytes + HEADER_BYTES + payload.len();
            let position = self.position + bytes as u64;
            if after as u64 > room && position > 0 {
                break;
            }
            index.note(self.records + records, position);
            bytes = after;
            records += 1;
        }
        (bytes, records)
    }

    /// Begins a new segment.
    fn roll(&mut self) -> io::Result<()> {
        self.active.unsettle()?;
        let segment = Segment::create(&self.directory, self.next(), self.options.index_interval_bytes)?;
        let segment = Arc::new(segment);
        self.durable.directory_changed();
        self.durable.list(&self.active);
        self.active.set_sealed(true);
        self.view.change(|segments| segments.push(Arc::clone(&segment)));
        let full = std::mem::replace(&mut self.active, Arc::clone(&segment));
        self.begun.push(Begun { segment, full, full_records: self.records, full_bytes: self.position });
        (self.records, self.position) = (0, 0);
        Ok(())
    }

    /// Lets readers see what was appended. Returns whether a segment became full.
    pub(crate) fn publish(&mut self) -> bool {
        let rolled = !self.begun.is_empty();
        self.view.publish(self.next(), || {
            for begun in self.begun.drain(..) {
                begun.full.publish(begun.full_records, begun.full_bytes);
            }
            self.active.publish(self.records, self.position);
        });
        rolled
    }

    /// Forgets what was appended since the last `publish`. Returns whether that worked to the end.
    pub(crate) fn take_back(&mut self) -> bool {
        let durable = Arc::clone(&self.durable);
        let _cut = durable.cutting();
        let done = self.try_take_back();
        self.ragged = done.is_err();
        if let Err(error) = done {
            let place = self.directory.display();
            tracing::warn!(%error, "{place}: the remains of a failed write cannot be cut off yet");
        }
        durable.cut(self.next());
        !self.ragged
    }

    fn try_take_back(&mut self) -> io::Result<()> {
        while let Some(begun) = self.begun.last() {
            begun.segment.unlink()?;
            self.view.change(|segments| segments.retain(|other| !Arc::ptr_eq(other, &begun.segment)));
            self.durable.directory_changed();
            begun.full.set_sealed(false);
            self.active = Arc::clone(&begun.full);
            self.begun.pop();
        }
        (self.records, self.position) = (self.active.records(), self.active.bytes());
        self.active.index().cut(self.records);
        self.active.set_written(self.position);
        ftruncate(self.active.file(), self.position)?;
        Ok(())
    }

    /// Finds out, after a failure, whether `bytes` more could be written, by creating a file, and by writing
    /// zeros and cutting them off.
    ///
    /// # Errors
    ///
    /// What still stands in the way.
    pub(crate) fn probe(&mut self, bytes: usize) -> Result<()> {
        if !self.take_back() {
            return Err(io::Error::other("the remains of a failed write are still there").into());
        }
        // The next segment has to be created, too.
        let file = self.directory.join("probe");
        std::fs::File::create(&file).and_then(|_| std::fs::remove_file(&file))?;
        let zeros = vec![0; bytes.clamp(4 << 10, PROBE_BYTES)];
        let written = self.active.write_at(&zeros, self.position);
        self.take_back();
        written.map_err(Error::from)
    }

    /// Removes the segments that may go, oldest first. Returns how many.
    pub(crate) fn retain(&self, retention: &Retention) -> usize {
        let segments = self.view.segments();
        let ages: Vec<Age> = segments.iter().map(|segment| Age::of(segment)).collect();
        let count = expired(&ages, retention, std::time::SystemTime::now());
        if count == 0 {
            return 0;
        }
        // What cannot be removed stays, with all that follows it: there must be no gap when the log is opened again.
        let mut removed = 0;
        for segment in segments.iter().take(count) {
            if let Err(error) = segment.unlink() {
                let place = self.directory.display();
                tracing::warn!(%error, "{place}: segment {} cannot be removed; it is tried again", segment.base());
                break;
            }
            removed += 1;
        }
        // Whoever found one of them before has its file open.
        self.view.change(|segments| drop(segments.drain(..removed)));
        self.durable.directory_changed();
        removed
    }
}
