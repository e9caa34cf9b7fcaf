//! The stored form of a record: `i32` length of the payload, `u32` CRC-32C of the payload, the payload. Integers are
//! big-endian. A length of 0 says that the log ends here.

use bytes::Bytes;
use crc32c::crc32c;

pub(crate) use crate::booblik::wire::{Front, front};
use crate::booblik::wire::{RECORD_HEADER_BYTES, stored_header};
use crate::error::{Error, Kind, Result};

/// Bytes in front of each payload: its length and its checksum.
pub const HEADER_BYTES: usize = RECORD_HEADER_BYTES;

/// Appends the stored form of `payload` to `out`. The payload has at least one byte and fewer than 2³¹.
#[inline]
pub(crate) fn encode(payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&stored_header(payload));
    out.extend_from_slice(payload);
}

/// The whole records at the front of `stored`, in bytes and in number.
pub(crate) fn whole(stored: &[u8]) -> (usize, u64) {
    let (mut bytes, mut records) = (0, 0);
    while let Front::Whole { payload, .. } = front(stored.get(bytes..).unwrap_or_default()) {
        bytes += HEADER_BYTES + payload.len();
        records += 1;
    }
    (bytes, records)
}

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number in the partition.
    pub offset: i64,
    /// What was appended.
    pub payload: Bytes,
    /// The CRC-32C that was stored with it.
    pub crc: u32,
}

impl Record {
    /// Compares the payload with its checksum.
    ///
    /// # Errors
    ///
    /// `Kind::Corrupt` when they do not belong together.
    pub fn check(&self) -> Result<()> {
        let computed = crc32c(&self.payload);
        if computed == self.crc {
            return Ok(());
        }
        let text = format!("record {}: its checksum is {:08x}, stored is {:08x}", self.offset, computed, self.crc);
        Err(Error::new(Kind::Corrupt, text))
    }
}

/// The records of a [`Batch`](super::Batch), first to last. They share its memory.
#[derive(Debug, Clone)]
pub struct Records {
    pub(super) offset: i64,
    pub(super) stored: Bytes,
}

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let Front::Whole { payload, crc } = front(&self.stored) else { return None };
        let end = HEADER_BYTES + payload.len();
        let record = Record { offset: self.offset, payload: self.stored.slice(HEADER_BYTES..end), crc };
        bytes::Buf::advance(&mut self.stored, end);
        self.offset += 1;
        Some(record)
    }
}
