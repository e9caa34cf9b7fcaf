//! The reading side of a log. Readers share it; none of them waits for the writer.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::watch;

use crate::error::{Error, Kind, Result};

use super::record::{Front, HEADER_BYTES, Records, front, whole};
use super::segment::{Segment, read_some};

/// What readers see of a log: its segments, oldest first, and the offset behind the last record.
#[derive(Debug)]
pub(crate) struct View {
    segments: RwLock<Arc<[Arc<Segment>]>>,
    end: watch::Sender<i64>,
}

/// What lies at an offset.
#[derive(Debug)]
pub(crate) enum Found {
    /// The next record will be appended here.
    CaughtUp,
    Slice(Slice),
    /// Damage has left nothing up to `next`.
    Gap {
        next: i64,
    },
    /// Never written, or removed.
    OutOfRange,
}

/// What a segment holds from a record on. The segment's file stays readable while this is held.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    pub(crate) segment: Arc<Segment>,
    /// Where in the file it begins.
    pub(crate) position: u64,
    /// Its bytes, up to the end of what is published of the segment.
    pub(crate) bytes: u64,
    /// The segment was full when this was taken: more will not come.
    pub(crate) sealed: bool,
}

impl View {
    pub(super) fn new(segments: Vec<Arc<Segment>>) -> Self {
        let end = segments.last().map_or(0, |last| last.end());
        Self { segments: RwLock::new(segments.into()), end: watch::Sender::new(end) }
    }

    pub(crate) fn segments(&self) -> Arc<[Arc<Segment>]> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the list of segments by what `change` makes of it, in one step.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = segments.to_vec();
        change(&mut changed);
        *segments = changed.into();
    }

    /// The first offset that is still here.
    pub(crate) fn start(&self) -> i64 {
        self.segments().first().map_or(0, |first| first.base())
    }

    /// The offset behind the last record.
    pub(crate) fn end(&self) -> i64 {
        *self.end.borrow()
    }

    /// Follows [`end`](Self::end).
    pub(crate) fn watch(&self) -> watch::Receiver<i64> {
        self.end.subscribe()
    }

    /// Moves the end there, and shows what lies before it, by `show`: readers see both or neither.
    pub(super) fn publish(&self, end: i64, show: impl FnOnce()) {
        self.end.send_modify(|own| {
            show();
            *own = end;
        });
    }

    /// What lies at `offset`, and the end as of then, behind which nothing of it lies.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn find(&self, offset: i64) -> io::Result<(i64, Found)> {
        // Not published meanwhile: who was given a record behind the end would ask for what is behind that.
        let published = self.end.borrow();
        let end = *published;
        if offset == end {
            return Ok((end, Found::CaughtUp));
        }
        let segments = self.segments();
        let after = segments.partition_point(|segment| segment.base() <= offset);
        let Some(segment) = after.checked_sub(1).and_then(|at| segments.get(at)).filter(|_| offset < end) else {
            return Ok((end, Found::OutOfRange));
        };
        let (records, bytes, sealed) = (segment.records(), segment.bytes(), segment.is_sealed());
        drop(published);
        let record = u64::try_from(offset - segment.base()).unwrap_or(u64::MAX);
        if record >= records {
            return Ok((end, Found::Gap { next: self.next_readable(offset) }));
        }
        let position = segment.position_of(record)?;
        let bytes = bytes - position;
        Ok((end, Found::Slice(Slice { segment: Arc::clone(segment), position, bytes, sealed })))
    }

    /// The whole records from `offset` on, as many as fit into `max_bytes` and lie in one segment; one larger record
    /// comes alone.
    ///
    /// # Errors
    ///
    /// `Kind::OutOfRange` for an offset that is not here, `Kind::Io` when the file cannot be read.
    pub(crate) fn read(&self, offset: i64, max_bytes: usize) -> Result<Batch> {
        let (high_watermark, found) = self.find(offset)?;
        let slice = match found {
            Found::CaughtUp => return Ok(Batch::empty(offset, high_watermark)),
            Found::Gap { next } => return Err(missing(offset, next)),
            Found::OutOfRange => return Err(self.out_of_range(offset)),
            Found::Slice(slice) => slice,
        };
        let (stored, records) = slice.read_whole(max_bytes)?;
        let next_offset = offset.saturating_add_unsigned(records);
        let read = slice.position + stored.len() as u64;
        if let Ok(record) = u64::try_from(next_offset - slice.segment.base()) {
            slice.segment.index().hint(record, read);
        }
        Ok(Batch { first_offset: offset, next_offset, high_watermark, stored })
    }

    /// The first offset at or behind `offset` that can be read or will be written.
    pub(crate) fn next_readable(&self, offset: i64) -> i64 {
        let end = self.end();
        let segments = self.segments();
        let holding = segments.iter().find(|segment| offset < segment.end());
        holding.map_or(end, |segment| segment.base().max(offset)).min(end)
    }

    fn out_of_range(&self, offset: i64) -> Error {
        let text = format!("offset {offset} is not in the log, which has {} to {}", self.start(), self.end());
        Error::new(Kind::OutOfRange, text)
    }
}

impl Slice {
    /// The whole records at the front, by one read if a record fits into `max_bytes`, and how many they are.
    fn read_whole(&self, max_bytes: usize) -> Result<(Bytes, u64)> {
        let wanted = usize::try_from(self.bytes).unwrap_or(usize::MAX).min(max_bytes.max(HEADER_BYTES));
        let mut stored = self.read(wanted)?;
        let (mut bytes, mut records) = whole(&stored);
        if records == 0
            && let Front::Part { bytes: needed } = front(&stored)
            && needed <= self.bytes
        {
            stored = self.read(usize::try_from(needed).unwrap_or(usize::MAX))?;
            (bytes, records) = whole(&stored);
        }
        if records == 0 {
            return Err(Error::new(Kind::Corrupt, format!("no record at byte {} of the segment", self.position)));
        }
        stored.truncate(bytes);
        Ok((stored.into(), records))
    }

    /// The first `bytes` of it.
    fn read(&self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut stored = Vec::with_capacity(bytes);
        while stored.len() < bytes {
            let position = self.position + stored.len() as u64;
            if read_some(self.segment.file(), position, &mut stored)? == 0 {
                break;
            }
        }
        stored.truncate(bytes);
        Ok(stored)
    }
}

fn missing(offset: i64, next: i64) -> Error {
    Error::new(Kind::OutOfRange, format!("records {offset} to {} are missing: the log is damaged there", next - 1))
}

/// Records that follow each other, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The offset of the first record.
    pub first_offset: i64,
    /// Where to go on reading.
    pub next_offset: i64,
    /// The offset behind the last record of the partition when this was read.
    pub high_watermark: i64,
    /// The records in their stored form, back to back, whole.
    pub stored: Bytes,
}

impl Batch {
    fn empty(offset: i64, high_watermark: i64) -> Self {
        Self { first_offset: offset, next_offset: offset, high_watermark, stored: Bytes::new() }
    }

    /// Whether there is no record: the reader has caught up.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// The records, first to last. Checksums are not compared: see [`Record::check`](super::Record::check).
    pub fn records(&self) -> Records {
        Records { offset: self.first_offset, stored: self.stored.clone() }
    }
}
