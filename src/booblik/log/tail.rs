//! What follows the last record of a file: nothing that counts, or records behind damage.

use std::fs::File;
use std::io;

use crc32c::crc32c;
use rustix::fs::{SeekFrom, seek};

use crate::booblik::wire::MAX_RECORD_BYTES;

use super::record::{Front, HEADER_BYTES, front};
use super::segment::read_some;

/// What is looked through at a time; the last record that begins in it can be read whole.
const STEP_BYTES: usize = 8 << 20;
const WINDOW_BYTES: usize = STEP_BYTES + MAX_RECORD_BYTES + HEADER_BYTES;
/// Checksums are computed over so many bytes at most: what looks like the beginning of a record may be anything.
const CHECKSUM_BYTES: usize = 256 << 20;

/// What lies behind the last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// The file ends there.
    Nothing,
    /// Zeros up to the end of the file.
    Padding,
    /// Something, and no good record in it.
    Torn,
    /// A good record at byte `good`: what lies before it was one.
    Damage { good: u64 },
    /// Too much that looks like records to try it all; nothing good as far as it was tried.
    Unclear,
}

/// Looks at what follows the last good record of `file`, which ends at `end`.
pub(super) fn tail(file: &File, end: u64, file_bytes: u64) -> io::Result<Tail> {
    if end >= file_bytes {
        return Ok(Tail::Nothing);
    }
    let (mut window, mut work) = (Vec::new(), CHECKSUM_BYTES);
    let (mut position, mut is_padding) = (end, true);
    while let Some(begin) = data_from(file, position, file_bytes)? {
        window.clear();
        let wanted = usize::try_from(file_bytes - begin).unwrap_or(usize::MAX).min(WINDOW_BYTES);
        window.reserve_exact(wanted);
        while window.len() < wanted && read_some(file, begin + window.len() as u64, &mut window)? > 0 {}
        window.truncate(wanted);
        // The file has become shorter.
        let Some(step) = window.get(..window.len().min(STEP_BYTES)).filter(|step| !step.is_empty()) else { break };
        // With what a record needs that begins at its end.
        if !is_zero(window.get(..step.len() + HEADER_BYTES).unwrap_or(&window)) {
            is_padding = false;
            let skip = usize::from(begin == end);
            match find_record(&window, skip..step.len(), &mut work) {
                Sought::Found(at) => return Ok(Tail::Damage { good: begin + at as u64 }),
                Sought::GivenUp => return Ok(Tail::Unclear),
                Sought::Nothing => {}
            }
        }
        position = begin + step.len() as u64;
    }
    Ok(if is_padding { Tail::Padding } else { Tail::Torn })
}

/// The end of what is not zero behind `end`.
pub(super) fn data_end(file: &File, end: u64, file_bytes: u64) -> io::Result<u64> {
    let mut piece = Vec::with_capacity(STEP_BYTES);
    let mut last = file_bytes;
    while last > end {
        let from = last.saturating_sub(STEP_BYTES as u64).max(end);
        piece.clear();
        while from + (piece.len() as u64) < last && read_some(file, from + piece.len() as u64, &mut piece)? > 0 {}
        piece.truncate(usize::try_from(last - from).unwrap_or(usize::MAX));
        if !is_zero(&piece) {
            let zeros = piece.iter().rev().take_while(|byte| **byte == 0).count();
            return Ok(from + (piece.len() - zeros) as u64);
        }
        last = from;
    }
    Ok(end)
}

enum Sought {
    Found(usize),
    Nothing,
    GivenUp,
}

/// The first good record of `window` that begins in `places`.
fn find_record(window: &[u8], places: std::ops::Range<usize>, work: &mut usize) -> Sought {
    for at in places {
        // Three of four bytes of a length are quickly seen not to be.
        let Some([0, 0..0x80, ..]) = window.get(at..at + HEADER_BYTES) else { continue };
        let Front::Whole { payload, crc } = front(window.get(at..).unwrap_or_default()) else { continue };
        if payload.len() > MAX_RECORD_BYTES {
            continue;
        }
        let Some(left) = work.checked_sub(payload.len()) else { return Sought::GivenUp };
        *work = left;
        if crc32c(payload) == crc {
            return Sought::Found(at);
        }
    }
    Sought::Nothing
}

/// Where at or behind `position` the file has bytes that are stored; what was never written are zeros and takes no time.
fn data_from(file: &File, position: u64, file_bytes: u64) -> io::Result<Option<u64>> {
    if position >= file_bytes {
        return Ok(None);
    }
    match seek(file, SeekFrom::Data(position)) {
        // The first bytes of a length are often zeros.
        Ok(data) if data < file_bytes => Ok(Some(data.saturating_sub(HEADER_BYTES as u64).max(position))),
        Ok(_) | Err(rustix::io::Errno::NXIO) => Ok(None),
        // Not every file system knows.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(position)),
        Err(error) => Err(error.into()),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    bytes.chunks(ZEROS.len()).all(|chunk| ZEROS.starts_with(chunk))
}
