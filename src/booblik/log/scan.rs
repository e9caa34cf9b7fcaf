//! What a segment's file holds: one pass over it that compares every checksum.
//!
//! The file is read in chunks, several at a time. Where a record begins is known only from the one before; so the chunks
//! take turns in stepping over their records, which is quick, and those are compared beside each other again. One thread
//! alone steps and compares at once.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crc32c::{crc32c, crc32c_append};

use super::index::Index;
use super::parallel::{Company, together};
use super::record::{Front, HEADER_BYTES, front};
use super::segment::read_some;

/// Small enough to stay in a core's cache between the copy into it and the checksum; whole pages, which are copied
/// faster.
const CHUNK_BYTES: u64 = 256 << 10;
/// What is read beyond a chunk, for the record that begins in it and ends in the next one.
const BEYOND_BYTES: usize = 4 << 10;

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
    let walk = Walk { chunk: 0, records: 0, end: 0, index: Index::new(index_interval), stop: None, bad: None };
    let scan = Scan {
        file,
        file_bytes,
        next: AtomicU64::new(0),
        walk: Mutex::new(walk),
        turn: Condvar::new(),
        buffers: Mutex::default(),
    };
    together(0, &|company| scan.step(company));
    scan.into_scanned()
}

struct Scan<'a> {
    file: &'a File,
    file_bytes: u64,
    /// The chunk that nobody has taken yet.
    next: AtomicU64,
    walk: Mutex<Walk>,
    /// Another chunk has its turn.
    turn: Condvar,
    buffers: Mutex<Vec<Vec<u8>>>,
}

/// How far the records were stepped over.
struct Walk {
    /// The chunk that has its turn.
    chunk: u64,
    records: u64,
    end: u64,
    index: Index,
    /// Why there is no more.
    stop: Option<io::Result<Stop>>,
    /// The first record whose checksum does not match.
    bad: Option<Place>,
}

/// A record, by its number and by where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    record: u64,
    position: u64,
}

/// Records to compare.
struct Piece {
    first: Place,
    /// Where they are in the buffer.
    buffered: Range<usize>,
    /// One more that does not fit the buffer.
    large: Option<Large>,
}

/// A record with its header, and the checksum that was stored.
struct Large {
    place: Place,
    bytes: u64,
    crc: u32,
}

impl Scan<'_> {
    /// Takes the next chunk and compares the records that begin in it. Whether there are more.
    fn step(&self, company: Company) -> bool {
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        let capacity = usize::try_from(CHUNK_BYTES).unwrap_or_default() + BEYOND_BYTES;
        let mut buffer = self.buffers().pop().unwrap_or_else(|| Vec::with_capacity(capacity));
        let compared = self.chunk(chunk, &mut buffer, company);
        self.buffers().push(buffer);
        let mut walk = self.walk();
        match compared {
            Ok(Some(bad)) => walk.bad = Some(walk.bad.map_or(bad, |known| known.min(bad))),
            Ok(None) => {}
            Err(error) => walk.stop = Some(Err(error)),
        }
        if !walk.goes_on() {
            self.turn.notify_all();
        }
        walk.goes_on()
    }

    /// The first record that begins in the chunk and whose checksum does not match.
    fn chunk(&self, chunk: u64, buffer: &mut Vec<u8>, company: Company) -> io::Result<Option<Place>> {
        let begin = chunk * CHUNK_BYTES;
        buffer.clear();
        // Not if a large record covers all of it.
        if self.walk().end < begin + CHUNK_BYTES {
            while read_some(self.file, begin + buffer.len() as u64, buffer)? > 0 {}
        }
        let mut walk = self.walk();
        while walk.chunk != chunk && walk.goes_on() {
            walk = self.turn.wait(walk).unwrap_or_else(PoisonError::into_inner);
        }
        if !walk.goes_on() {
            return Ok(None);
        }
        let at_file_end = begin + buffer.len() as u64 >= self.file_bytes || buffer.len() < buffer.capacity();
        let piece = walk.step_through(begin, buffer, self.file_bytes, at_file_end, company);
        walk.chunk += 1;
        drop(walk);
        if company == Company::Several {
            self.turn.notify_all();
        }
        self.compare(&piece, buffer)
    }

    fn compare(&self, piece: &Piece, buffer: &mut Vec<u8>) -> io::Result<Option<Place>> {
        if let Some((records, bytes)) = first_bad(buffer.get(piece.buffered.clone()).unwrap_or_default()) {
            let Place { record, position } = piece.first;
            return Ok(Some(Place { record: record + records, position: position + bytes }));
        }
        let Some(Large { place, bytes, crc }) = piece.large else { return Ok(None) };
        let begin = place.position + HEADER_BYTES as u64;
        let good = self.checksum(begin, place.position + bytes, buffer)? == Some(crc);
        Ok((!good).then_some(place))
    }

    /// The checksum of a part of the file, made of small pieces, so that a damaged length costs no memory; `None` if the
    /// file is shorter.
    fn checksum(&self, begin: u64, end: u64, buffer: &mut Vec<u8>) -> io::Result<Option<u32>> {
        let (mut position, mut crc) = (begin, 0);
        while position < end {
            buffer.clear();
            if read_some(self.file, position, buffer)? == 0 {
                return Ok(None);
            }
            buffer.truncate(usize::try_from(end - position).unwrap_or(usize::MAX));
            crc = crc32c_append(crc, buffer);
            position += buffer.len() as u64;
        }
        Ok(Some(crc))
    }

    fn into_scanned(self) -> io::Result<Scanned> {
        let Walk { records, end, mut index, stop, bad, .. } =
            self.walk.into_inner().unwrap_or_else(PoisonError::into_inner);
        let stop = stop.transpose()?;
        if let Some(Place { record, position }) = bad {
            index.cut(record);
            return Ok(Scanned { records: record, end: position, stop: Stop::Checksum, index });
        }
        Ok(Scanned { records, end, stop: stop.unwrap_or(Stop::FileEnd), index })
    }

    fn walk(&self) -> MutexGuard<'_, Walk> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Walk {
    fn goes_on(&self) -> bool {
        self.stop.is_none() && self.bad.is_none()
    }

    /// Steps over the records that begin in the chunk at `begin`, whose bytes `buffer` has, and finds out why there are
    /// no more behind them, if so. Alone it compares them too.
    fn step_through(
        &mut self,
        begin: u64,
        buffer: &[u8],
        file_bytes: u64,
        at_file_end: bool,
        company: Company,
    ) -> Piece {
        let first = Place { record: self.records, position: self.end };
        let from = usize::try_from(self.end - begin).unwrap_or(usize::MAX);
        let stored = buffer.get(from..).unwrap_or_default();
        let bytes = self.pass(stored, begin + CHUNK_BYTES, company);
        let to_compare = if company == Company::Several { bytes } else { 0 };
        let mut piece = Piece { first, buffered: from..from.saturating_add(to_compare), large: None };
        if !self.goes_on() || self.end >= begin + CHUNK_BYTES {
            return piece;
        }
        let rest = stored.get(bytes..).unwrap_or_default();
        match front(rest) {
            Front::End => self.stop = Some(Ok(Stop::EndMark)),
            Front::Part { .. } if rest.is_empty() && at_file_end => self.stop = Some(Ok(Stop::FileEnd)),
            Front::Part { bytes } if self.end + bytes > file_bytes || at_file_end => self.stop = Some(Ok(Stop::Torn)),
            Front::Part { bytes } => {
                let place = Place { record: self.records, position: self.end };
                let crc = rest.get(4..HEADER_BYTES).and_then(|crc| crc.try_into().ok()).map(u32::from_be_bytes);
                piece.large = Some(Large { place, bytes, crc: crc.unwrap_or_default() });
                self.step_over(bytes);
            }
            Front::Whole { .. } => {}
        }
        piece
    }

    /// Steps over the whole records at the front of `stored` that begin before `limit`, as long as they are good if they
    /// are compared. Returns their bytes.
    fn pass(&mut self, stored: &[u8], limit: u64, company: Company) -> usize {
        let mut bytes = 0;
        while let Front::Whole { payload, crc } = front(stored.get(bytes..).unwrap_or_default())
            && self.end < limit
        {
            if company == Company::Alone && crc32c(payload) != crc {
                self.stop = Some(Ok(Stop::Checksum));
                break;
            }
            bytes += HEADER_BYTES + payload.len();
            self.step_over((HEADER_BYTES + payload.len()) as u64);
        }
        bytes
    }

    #[inline]
    fn step_over(&mut self, bytes: u64) {
        self.index.note(self.records, self.end);
        self.end += bytes;
        self.records += 1;
    }
}

/// Records and bytes in front of the first record of `stored` whose checksum does not match.
fn first_bad(stored: &[u8]) -> Option<(u64, u64)> {
    let (mut records, mut bytes) = (0, 0);
    while let Front::Whole { payload, crc } = front(stored.get(bytes..).unwrap_or_default()) {
        if crc32c(payload) != crc {
            return Some((records, bytes as u64));
        }
        bytes += HEADER_BYTES + payload.len();
        records += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::record::encode;
    use super::*;

    /// Records of `bytes` each, with one more at the end that is larger than what is read at once.
    fn file_of(count: usize, bytes: usize) -> (File, Vec<u8>) {
        let mut stored = Vec::new();
        (0..count).for_each(|at| encode(&vec![at.to_le_bytes()[0] | 1; bytes], &mut stored));
        encode(&vec![7; 1_000_000], &mut stored);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&stored).unwrap();
        (file, stored)
    }

    #[test]
    fn many_pieces_are_one_sequence() {
        let (file, stored) = file_of(50_000, 100);
        let scanned = scan(&file, stored.len() as u64, 4096).unwrap();
        assert_eq!((scanned.records, scanned.end, scanned.stop), (50_001, stored.len() as u64, Stop::FileEnd));
        let place = scanned.index.floor(40_000);
        assert_eq!(u64::from(place.position), u64::from(place.record) * 108);
        assert!(place.record > 39_900);
    }

    #[test]
    fn the_first_of_several_damaged_records_ends_it_whoever_finds_which_first() {
        use std::os::unix::fs::FileExt as _;
        for first in [0_u64, 3, 2_500, 30_000, 49_999, 50_000] {
            let (file, stored) = file_of(50_000, 100);
            for bad in [first, first + 1, first + 5_000, first + 12_000].into_iter().filter(|bad| *bad <= 50_000) {
                file.write_all_at(&[0], bad * 108 + 20).unwrap();
            }
            let scanned = scan(&file, stored.len() as u64, 64).unwrap();
            assert_eq!((scanned.records, scanned.end, scanned.stop), (first, first * 108, Stop::Checksum));
            assert!(u64::from(scanned.index.floor(u64::MAX).record) < first.max(1));
        }
    }
}
