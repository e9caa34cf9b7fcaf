//! Responses as a client reads them.

use bytes::{Buf as _, Bytes};

use super::cursor::Cursor;
use super::{ErrorCode, RESPONSE_HEADER_BYTES, WireError};

/// A topic with an empty name and no partitions.
const MIN_TOPIC_BYTES: usize = 6;

/// A response of any kind: what its body means depends on the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// That of the request.
    pub correlation_id: i32,
    /// The body, or why there is none.
    pub result: Result<Bytes, ErrorCode>,
}

/// Where the records of a produce went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Produced {
    /// The offset of the first record; the others follow without a gap.
    pub base_offset: i64,
    /// The offset of the next record to come, when the broker answered; others may have written by then.
    pub log_end_offset: i64,
}

/// A topic of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionInfo>,
}

/// A partition and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionInfo {
    /// Its number.
    pub partition: i32,
    /// The first offset that is still stored.
    pub log_start_offset: i64,
    /// The first offset that does not exist yet.
    pub high_watermark: i64,
}

/// Reads the header of a response from a frame without its length.
///
/// ```
/// use bytes::Bytes;
/// use slipstream::booblik::wire::{self, ErrorCode};
///
/// let response = wire::decode_response(Bytes::from_static(&[0, 0, 0, 5, 0, 1]))?;
/// assert_eq!((response.correlation_id, response.result), (5, Err(ErrorCode::UnknownTopicOrPartition)));
/// # Ok::<(), wire::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError::Body`] when there are less than six bytes.
pub fn decode_response(mut frame: Bytes) -> Result<Response, WireError> {
    let mut cursor = Cursor::new(&frame);
    let (Some(correlation_id), Some(code)) = (cursor.i32(), cursor.i16()) else {
        return Err(WireError::Body("header"));
    };
    frame.advance(RESPONSE_HEADER_BYTES);
    Ok(Response { correlation_id, result: ErrorCode::from_wire(code).map_or(Ok(frame), Err) })
}

/// Reads the body of the answer to a produce.
///
/// ```
/// use slipstream::booblik::wire;
///
/// let produced = wire::decode_produced(&[0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 44])?;
/// assert_eq!((produced.base_offset, produced.log_end_offset), (42, 44));
/// # Ok::<(), wire::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError::Body`] when it has not exactly 16 bytes.
pub fn decode_produced(body: &[u8]) -> Result<Produced, WireError> {
    let mut cursor = Cursor::new(body);
    match (cursor.i64(), cursor.i64(), cursor.remaining()) {
        (Some(base_offset), Some(log_end_offset), 0) => Ok(Produced { base_offset, log_end_offset }),
        _ => Err(WireError::Body("offsets")),
    }
}

/// Reads the body of the answer to a metadata request. What it allocates grows with the bytes that are there, whatever
/// the counts say.
///
/// ```
/// use slipstream::booblik::wire;
///
/// let topics = wire::decode_described(&[0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 0])?;
/// assert_eq!(topics[0].name, "ab");
/// assert!(wire::decode_described(&[0x7f, 0xff, 0xff, 0xff]).is_err());
/// # Ok::<(), wire::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError::Body`] when it ends early or goes on after the last topic, [`WireError::Name`] when a name is none.
pub fn decode_described(body: &[u8]) -> Result<Vec<TopicInfo>, WireError> {
    let mut cursor = Cursor::new(body);
    let count = cursor.size().ok_or(WireError::Body("topic count"))?;
    let mut topics = Vec::with_capacity(cursor.remaining().div_euclid(MIN_TOPIC_BYTES).min(count as usize));
    for _ in 0..count {
        topics.push(topic(&mut cursor)?);
    }
    if cursor.remaining() > 0 {
        return Err(WireError::Body("list of topics"));
    }
    Ok(topics)
}

fn topic(cursor: &mut Cursor<'_>) -> Result<TopicInfo, WireError> {
    let length = cursor.u16().ok_or(WireError::Body("topic name"))?;
    let name = cursor.take(length.into()).ok_or(WireError::Body("topic name"))?;
    // A broker of the reference may have names that are not ASCII: they can be looked at, if not used.
    let name = std::str::from_utf8(name).map_err(|_| WireError::Name)?;
    let count = cursor.size().ok_or(WireError::Body("partition count"))? as usize;
    if count.saturating_mul(20) > cursor.remaining() {
        return Err(WireError::Body("list of partitions"));
    }
    let mut partitions = Vec::with_capacity(count);
    for _ in 0..count {
        partitions.push(partition(cursor).ok_or(WireError::Body("list of partitions"))?);
    }
    Ok(TopicInfo { name: name.to_owned(), partitions })
}

fn partition(cursor: &mut Cursor<'_>) -> Option<PartitionInfo> {
    Some(PartitionInfo { partition: cursor.i32()?, log_start_offset: cursor.i64()?, high_watermark: cursor.i64()? })
}
