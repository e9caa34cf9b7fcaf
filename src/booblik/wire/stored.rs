//! Records as they are stored, and as a fetch answers with them.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::batch::Payloads;
use super::cursor::Cursor;
use super::encode::put_size;
use super::gap::gap_end;
use super::{MAX_RECORD_BYTES, RECORD_HEADER_BYTES, WireError, crc32c};

/// The answer to a fetch: records, each of which has the checksum that was stored with it, and why there are no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The first offset that did not exist yet, sampled before the records were: some may lie above it.
    pub high_watermark: i64,
    /// The whole and good records from the offset that was asked for on.
    pub records: Records,
    /// What came after them.
    pub ending: Ending,
}

/// How the records of a fetch end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the last record. There may be more in the log: an answer does not cross segments.
    Whole,
    /// Within a record, because that was all the bytes that were asked for.
    Cut {
        /// The size of the record that was cut; 0 when its header was cut too.
        record_bytes: u32,
    },
    /// With a record that is not as it was written. What follows it was not looked at.
    Damaged(Damage),
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The payload does not match the checksum stored with it.
    #[error("its checksum is {computed:#010x}, and {stored:#010x} was stored")]
    Checksum {
        /// What was stored.
        stored: u32,
        /// What the payload has.
        computed: u32,
    },
    /// The size is one that no record has, so that the next record cannot be found either.
    #[error("its size is said to be {0}")]
    Size(i32),
    /// The broker has lost it, and all others before the offset `next`.
    #[error("the broker has lost it, and all records before {next}")]
    Gap {
        /// Where to go on reading.
        next: i64,
    },
}

/// Records of a fetch: a slice of the answer, checked when it was decoded.
///
/// ```
/// use bytes::{BufMut, BytesMut};
/// use slipstream::booblik::wire;
///
/// let mut body = BytesMut::new();
/// body.put_i64(44);
/// body.put_i32(8 + 3 + 8 + 3);
/// wire::encode_stored(&mut body, b"one");
/// wire::encode_stored(&mut body, b"two");
///
/// let records = wire::decode_fetched(&body.freeze(), 42)?.records;
/// assert_eq!((records.base_offset(), records.len(), records.next_offset()), (42, 2, 44));
/// let last = records.into_iter().last().expect("there are two");
/// assert_eq!((last.offset, &last.value[..]), (43, &b"two"[..]));
/// # Ok::<(), wire::WireError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    bytes: Bytes,
    base_offset: i64,
    count: usize,
}

/// A record and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its offset in the partition.
    pub offset: i64,
    /// Its bytes: a slice of the answer with which it came.
    pub value: Bytes,
}

impl Records {
    /// None, from `base_offset` on.
    pub(crate) fn none(base_offset: i64) -> Self {
        Self { bytes: Bytes::new(), base_offset, count: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The offset of the first one; the one that was asked for when there are none.
    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// The offset after the last one: where to go on.
    pub fn next_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::try_from(self.count).unwrap_or(i64::MAX))
    }

    /// What they take in the log.
    pub fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The payloads in order, borrowed.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        Payloads::new(&self.bytes, RECORD_HEADER_BYTES)
    }

    /// Takes the first record out.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        let size = u32::from_be_bytes(*self.bytes.first_chunk()?) as usize;
        if self.bytes.len() < RECORD_HEADER_BYTES + size {
            return None;
        }
        self.bytes.advance(RECORD_HEADER_BYTES);
        let record = Record { offset: self.base_offset, value: self.bytes.split_to(size) };
        self.base_offset = self.base_offset.saturating_add(1);
        self.count = self.count.saturating_sub(1);
        Some(record)
    }
}

impl IntoIterator for Records {
    type Item = Record;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(self)
    }
}

/// The records of a fetch, one after the other.
#[derive(Debug)]
pub struct IntoIter(Records);

impl Iterator for IntoIter {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.0.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.count, Some(self.0.count))
    }
}

/// Reads the body of the answer to a fetch from `offset` on, and checks every checksum.
///
/// The good records before a damaged one are given out with it.
///
/// # Errors
///
/// [`WireError::Body`] when the body is shorter than its fixed part, or its payload has another length than it says.
pub fn decode_fetched(body: &Bytes, offset: i64) -> Result<Fetched, WireError> {
    let mut cursor = Cursor::new(body);
    let (Some(high_watermark), Some(announced)) = (cursor.i64(), cursor.i32()) else {
        return Err(WireError::Body("fixed part"));
    };
    if usize::try_from(announced) != Ok(cursor.remaining()) {
        return Err(WireError::Body("payload"));
    }
    let (count, used, ending) = scan(cursor.rest());
    let start = body.len() - cursor.remaining();
    let records = Records { bytes: body.slice(start..start + used), base_offset: offset, count };
    Ok(Fetched { high_watermark, records, ending })
}

/// The good records at the front of a payload: how many, how many bytes, and what comes after them.
fn scan(payload: &[u8]) -> (usize, usize, Ending) {
    let (mut cursor, mut count) = (Cursor::new(payload), 0);
    loop {
        let used = payload.len() - cursor.remaining();
        if let Err(ending) = step(&mut cursor) {
            return (count, used, ending);
        }
        count += 1;
    }
}

fn step(cursor: &mut Cursor<'_>) -> Result<(), Ending> {
    if cursor.remaining() == 0 {
        return Err(Ending::Whole);
    }
    let (Some(size), Some(stored)) = (cursor.i32(), cursor.u32()) else {
        return Err(Ending::Cut { record_bytes: 0 });
    };
    let record_bytes = u32::try_from(size).unwrap_or(0);
    if record_bytes == 0 || record_bytes as usize > MAX_RECORD_BYTES {
        return Err(Ending::Damaged(Damage::Size(size)));
    }
    // The length before the checksum: a cut tail is no damage.
    let payload = cursor.take(record_bytes as usize).ok_or(Ending::Cut { record_bytes })?;
    let computed = crc32c(payload);
    if let Some(next) = gap_end(payload, stored, computed) {
        return Err(Ending::Damaged(Damage::Gap { next }));
    }
    if computed != stored {
        return Err(Ending::Damaged(Damage::Checksum { stored, computed }));
    }
    Ok(())
}

/// Writes a record as it is stored: size, checksum, payload.
///
/// ```
/// use bytes::BytesMut;
///
/// let mut out = BytesMut::new();
/// slipstream::booblik::wire::encode_stored(&mut out, b"123456789");
/// assert_eq!(out[..8], [0, 0, 0, 9, 0xe3, 0x06, 0x92, 0x83]);
/// ```
pub fn encode_stored(out: &mut BytesMut, payload: &[u8]) {
    put_size(out, payload.len());
    out.put_u32(crc32c(payload));
    out.put_slice(payload);
}
