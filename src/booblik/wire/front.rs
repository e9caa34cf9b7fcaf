//! The stored form of one record: how it is written, and how it is read. In files and in answers it is the same.

use super::{RECORD_HEADER_BYTES, crc32c};

/// What stands in front of `payload`, which has at least one byte and fewer than 2³¹.
#[inline]
pub(crate) fn stored_header(payload: &[u8]) -> [u8; RECORD_HEADER_BYTES] {
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut header = [0; RECORD_HEADER_BYTES];
    let (length, checksum) = header.split_at_mut(4);
    length.copy_from_slice(&size.to_be_bytes());
    checksum.copy_from_slice(&crc32c(payload).to_be_bytes());
    header
}

/// What lies at the front of stored bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front<'a> {
    /// A whole record.
    Whole { payload: &'a [u8], crc: u32 },
    /// A record, of which only part is here. It has `bytes` with its header, 8 if not even the header is whole.
    Part { bytes: u64 },
    /// The mark behind the last record, or a length that none has.
    End,
}

/// Looks at the front of `stored`. The checksum is not compared.
#[inline]
pub(crate) fn front(stored: &[u8]) -> Front<'_> {
    let Some((length, rest)) = stored.split_first_chunk::<4>() else {
        return Front::Part { bytes: RECORD_HEADER_BYTES as u64 };
    };
    let Some((crc, rest)) = rest.split_first_chunk::<4>() else {
        return Front::Part { bytes: RECORD_HEADER_BYTES as u64 };
    };
    let Ok(size @ 1..) = u32::try_from(i32::from_be_bytes(*length)) else { return Front::End };
    match rest.get(..size as usize) {
        Some(payload) => Front::Whole { payload, crc: u32::from_be_bytes(*crc) },
        None => Front::Part { bytes: u64::from(size) + RECORD_HEADER_BYTES as u64 },
    }
}
