//! What a segment's file holds: one pass over it that compares every checksum.

use std::fs::File;
use std::io;

use crc32c::{crc32c, crc32c_append};

use super::index::Index;
use super::record::{Front, HEADER_BYTES, front};
use super::segment::read_some;

/// Small enough to stay in a core's cache between the copy into it and the checksum.
const READ_BYTES: usize = 256 << 10;

/// What a file holds, from its beginning up to the first thing that is not a record.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) records: u64,
    /// Where the last record ends.
    pub(super) end: u64,
    pub(super) stop: Stop,
    pub(super) index: Index,
}

/// Why a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The file ends with its last record.
    FileEnd,
    /// A length of 0, or one that no record has.
    EndMark,
    /// The file ends inside a record.
    Torn,
    /// A checksum does not match.
    Checksum,
}

/// Reads `file`, which has `file_bytes`, to its end or to the first thing that is not a record.
pub(super) fn scan(file: &File, file_bytes: u64, index_interval: u64) -> io::Result<Scanned> {
    let mut scan = Scan {
        file,
        file_bytes,
        buffer: Vec::with_capacity(READ_BYTES),
        records: 0,
        end: 0,
        index: Index::new(index_interval),
    };
    let stop = loop {
        if let Some(stop) = scan.step()? {
            break stop;
        }
    };
    Ok(Scanned { records: scan.records, end: scan.end, stop, index: scan.index })
}

struct Scan<'a> {
    file: &'a File,
    file_bytes: u64,
    /// What lies behind `end`, as far as it was read.
    buffer: Vec<u8>,
    records: u64,
    end: u64,
    index: Index,
}

impl Scan<'_> {
    /// Fills the buffer and takes all records that it holds. Returns why to stop, if so.
    fn step(&mut self) -> io::Result<Option<Stop>> {
        let before = self.buffer.len();
        read_some(self.file, self.end + before as u64, &mut self.buffer)?;
        let at_file_end = self.end + self.buffer.len() as u64 >= self.file_bytes || self.buffer.len() == before;
        let mut taken = 0;
        let found = loop {
            let rest = self.buffer.get(taken..).unwrap_or_default();
            match front(rest) {
                Front::Whole { payload, crc } if crc32c(payload) == crc => {
                    self.index.note(self.records, self.end);
                    let bytes = HEADER_BYTES + payload.len();
                    taken += bytes;
                    self.end += bytes as u64;
                    self.records += 1;
                }
                Front::Whole { .. } => break Some(Stop::Checksum),
                Front::End => break Some(Stop::EndMark),
                Front::Part { .. } if rest.is_empty() && at_file_end => break Some(Stop::FileEnd),
                Front::Part { bytes } if self.end + bytes > self.file_bytes || at_file_end => break Some(Stop::Torn),
                Front::Part { bytes } if bytes > READ_BYTES as u64 => {
                    let stored = rest.get(4..HEADER_BYTES).and_then(|crc| crc.try_into().ok()).map(u32::from_be_bytes);
                    taken = self.buffer.len();
                    break self.take_large(bytes, stored)?;
                }
                Front::Part { .. } => break None,
            }
        };
        self.buffer.drain(..taken);
        Ok(found)
    }

    /// A record that is larger than the buffer: checked in pieces, so that a damaged length costs no memory.
    fn take_large(&mut self, bytes: u64, stored: Option<u32>) -> io::Result<Option<Stop>> {
        let (mut position, end) = (self.end + HEADER_BYTES as u64, self.end + bytes);
        let mut crc = 0;
        let mut piece = Vec::with_capacity(READ_BYTES);
        while position < end {
            piece.clear();
            read_some(self.file, position, &mut piece)?;
            if piece.is_empty() {
                return Ok(Some(Stop::Torn));
            }
            piece.truncate(usize::try_from(end - position).unwrap_or(usize::MAX));
            crc = crc32c_append(crc, &piece);
            position += piece.len() as u64;
        }
        if stored != Some(crc) {
            return Ok(Some(Stop::Checksum));
        }
        self.index.note(self.records, self.end);
        self.end = end;
        self.records += 1;
        Ok(None)
    }
}
