//! Payloads one after the other, each with its size in front.

use bytes::Bytes;

use super::cursor::Cursor;
use super::{MAX_RECORD_BYTES, RECORD_HEADER_BYTES};

/// What a size takes in a produce.
pub(super) const SIZE_BYTES: usize = 4;

/// The records of a produce: a slice of its frame, checked when it was decoded.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use slipstream::booblik::wire::{self, Acks, Call};
///
/// let mut sent = BytesMut::new();
/// wire::encode_produce(&mut sent, 1, "words", 0, Acks::Forced, &["one", "three"])?;
/// let frame = sent.freeze().slice(4..);
/// let Ok(Call::Produce(produce)) = wire::decode_request(&frame).map(|request| request.call) else { panic!() };
/// let batch = produce.records;
/// assert_eq!((batch.len(), batch.payload_bytes(), batch.largest_bytes(), batch.stored_bytes()), (2, 8, 5, 24));
/// # Ok::<(), wire::WireError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    bytes: Bytes,
    count: usize,
    largest: usize,
}

impl Batch {
    /// Checks `count` records at the front of `bytes`, which is a part of `frame`. What follows them is left out.
    pub(super) fn check(frame: &Bytes, bytes: &[u8], count: u32) -> Result<Self, &'static str> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 {
            return Err("no records");
        }
        if count.saturating_mul(SIZE_BYTES) > bytes.len() {
            return Err("more records than bytes");
        }
        let (mut cursor, mut largest) = (Cursor::new(bytes), 0);
        for _ in 0..count {
            let size = cursor.size().ok_or("a record without a size, or with a negative one")?;
            if size == 0 {
                return Err("an empty record");
            }
            let payload = cursor.take(size as usize).ok_or("a record that is longer than the request")?;
            largest = largest.max(payload.len());
        }
        let used = bytes.len() - cursor.remaining();
        Ok(Self { bytes: frame.slice_ref(bytes.get(..used).unwrap_or_default()), count, largest })
    }

    /// How many records there are; never 0.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The payloads in order. None is empty.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        Payloads::new(&self.bytes, SIZE_BYTES)
    }

    /// The sum of the payloads.
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len() - self.count * SIZE_BYTES
    }

    /// The size of the largest payload.
    pub fn largest_bytes(&self) -> usize {
        self.largest
    }

    /// What they take in a segment: each has a size and a checksum in front.
    pub fn stored_bytes(&self) -> usize {
        self.payload_bytes() + self.count * RECORD_HEADER_BYTES
    }

    /// Whether a client could read all of them back; the protocol lets records of up to two bytes more be written to
    /// topics with the shortest names.
    pub fn is_readable(&self) -> bool {
        self.largest <= MAX_RECORD_BYTES
    }
}

/// Payloads of a region that was checked, with `header` bytes in front of each, the first four of which are its size.
#[derive(Debug, Clone)]
pub(super) struct Payloads<'a> {
    rest: &'a [u8],
    header: usize,
}

impl<'a> Payloads<'a> {
    pub(super) fn new(checked: &'a [u8], header: usize) -> Self {
        Self { rest: checked, header }
    }
}

impl<'a> Iterator for Payloads<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let size = u32::from_be_bytes(*self.rest.first_chunk()?) as usize;
        let (record, rest) = self.rest.split_at_checked(self.header + size)?;
        self.rest = rest;
        record.get(self.header..)
    }
}
