//! Requests as a client writes them. Each is written whole or not at all.

use bytes::{BufMut, BytesMut};

use super::batch::SIZE_BYTES;
use super::{Acks, Fetch, LENGTH_BYTES, MAX_FRAME_BYTES, REQUEST_HEADER_BYTES, WireError, api};

/// Writes a request to append `records` to a partition, with its length in front.
///
/// Empty records and empty lists are written as they are, and refused by the broker.
///
/// # Errors
///
/// [`WireError::TooLarge`], [`WireError::Count`] and, for more than 65,535 bytes, [`WireError::Name`]; nothing is
/// written then.
pub fn encode_produce<R: AsRef<[u8]>>(
    out: &mut BytesMut,
    correlation_id: i32,
    topic: &str,
    partition: i32,
    acks: Acks,
    records: &[R],
) -> Result<(), WireError> {
    let payload_bytes = records.iter().map(|record| record.as_ref().len()).sum();
    let length = checked_length(produce_frame_bytes(topic, records.len(), payload_bytes))?;
    let count = i32::try_from(records.len()).map_err(|_| WireError::Count(records.len()))?;
    let name_length = name_length(topic)?;
    out.reserve(LENGTH_BYTES + length as usize);
    put_header(out, length, api::PRODUCE, api::VERSION, correlation_id);
    put_place(out, name_length, topic, partition);
    out.put_u8(acks.to_wire());
    out.put_i32(count);
    for record in records {
        put_size(out, record.as_ref().len());
        out.put_slice(record.as_ref());
    }
    Ok(())
}

/// The `frameLength` of a produce of `count` records with `payload_bytes` together: at most
/// [`MAX_FRAME_BYTES`](super::MAX_FRAME_BYTES).
///
/// ```
/// assert_eq!(slipstream::booblik::wire::produce_frame_bytes("ab", 2, 4), 0x21);
/// ```
pub fn produce_frame_bytes(topic: &str, count: usize, payload_bytes: usize) -> usize {
    const FIXED_BYTES: usize = 19;
    count.saturating_mul(SIZE_BYTES).saturating_add(payload_bytes).saturating_add(FIXED_BYTES + topic.len())
}

/// Writes a request to read (version 2, with which all clients ask), with its length in front.
///
/// ```
/// use bytes::BytesMut;
/// use slipstream::booblik::wire::{self, Fetch};
///
/// let fetch = Fetch { topic: "ab", partition: 3, offset: 42, max_bytes: 1 << 20, max_wait_millis: 5000, min_bytes: 1 };
/// let mut sent = BytesMut::new();
/// wire::encode_fetch(&mut sent, 9, &fetch)?;
/// assert_eq!(sent.len(), 4 + 0x24);
/// # Ok::<(), wire::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError::Name`] when the name has more than 65,535 bytes, [`WireError::Count`] when a number of bytes or
/// milliseconds is above 2^31 - 1; nothing is written then.
pub fn encode_fetch(out: &mut BytesMut, correlation_id: i32, fetch: &Fetch<'_>) -> Result<(), WireError> {
    const FIXED_BYTES: usize = 34;
    let name_length = name_length(fetch.topic)?;
    let length = checked_length(FIXED_BYTES + fetch.topic.len())?;
    let (max_bytes, min_bytes) = (number(fetch.max_bytes)?, number(fetch.min_bytes)?);
    let max_wait_millis = number(fetch.max_wait_millis)?;
    put_header(out, length, api::FETCH, api::FETCH_VERSION, correlation_id);
    put_place(out, name_length, fetch.topic, fetch.partition);
    out.put_i64(fetch.offset);
    out.put_i32(max_bytes);
    out.put_i32(max_wait_millis);
    out.put_i32(min_bytes);
    Ok(())
}

/// Writes a request to describe topics, all of them for an empty list, with its length in front.
///
/// ```
/// use bytes::BytesMut;
///
/// let mut sent = BytesMut::new();
/// slipstream::booblik::wire::encode_metadata(&mut sent, 1, &["words"])?;
/// assert_eq!(sent.len(), 4 + 8 + 4 + 2 + 5);
/// # Ok::<(), slipstream::booblik::wire::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError::TooLarge`], [`WireError::Count`] and, for more than 65,535 bytes, [`WireError::Name`]; nothing is
/// written then.
pub fn encode_metadata<N: AsRef<str>>(out: &mut BytesMut, correlation_id: i32, topics: &[N]) -> Result<(), WireError> {
    let count = i32::try_from(topics.len()).map_err(|_| WireError::Count(topics.len()))?;
    let mut names_bytes = 0;
    for topic in topics {
        names_bytes += 2 + usize::from(name_length(topic.as_ref())?);
    }
    let length = checked_length(REQUEST_HEADER_BYTES + 4 + names_bytes)?;
    put_header(out, length, api::METADATA, api::VERSION, correlation_id);
    out.put_i32(count);
    for topic in topics {
        out.put_u16(name_length(topic.as_ref())?);
        out.put_slice(topic.as_ref().as_bytes());
    }
    Ok(())
}

fn checked_length(bytes: usize) -> Result<u32, WireError> {
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_FRAME_BYTES);
    length.ok_or(WireError::TooLarge(bytes))
}

fn name_length(name: &str) -> Result<u16, WireError> {
    u16::try_from(name.len()).map_err(|_| WireError::Name)
}

fn number(value: u32) -> Result<i32, WireError> {
    i32::try_from(value).map_err(|_| WireError::Count(value as usize))
}

fn put_header(out: &mut BytesMut, length: u32, key: i16, version: i16, correlation_id: i32) {
    out.put_u32(length);
    out.put_i16(key);
    out.put_i16(version);
    out.put_i32(correlation_id);
}

fn put_place(out: &mut BytesMut, name_length: u16, topic: &str, partition: i32) {
    out.put_u16(name_length);
    out.put_slice(topic.as_bytes());
    out.put_i32(partition);
}

/// Writes the size of something that fits a frame, so that it fits a number too.
pub(super) fn put_size(out: &mut impl BufMut, size: usize) {
    out.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
}
