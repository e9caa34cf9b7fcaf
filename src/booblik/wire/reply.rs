//! Responses as a broker writes them.

use bytes::{BufMut as _, BytesMut};

use super::encode::put_size;
use super::{ErrorCode, MAX_FRAME_BYTES, Produced, RESPONSE_HEADER_BYTES, TopicInfo, WireError};

/// What stands in front of the records in the answer to a fetch: length, header, high watermark and payload size.
pub const FETCHED_HEAD_BYTES: usize = 22;
/// What of it counts in `frameLength`.
const FETCHED_HEAD_LENGTH: u32 = 18;

/// Writes a refusal: ten bytes, its length included.
///
/// ```
/// use bytes::BytesMut;
/// use slipstream::booblik::wire::{self, ErrorCode};
///
/// let mut out = BytesMut::new();
/// wire::encode_refusal(&mut out, 5, ErrorCode::UnknownTopicOrPartition);
/// assert_eq!(out[..], [0, 0, 0, 6, 0, 0, 0, 5, 0, 1]);
/// ```
pub fn encode_refusal(out: &mut BytesMut, correlation_id: i32, code: ErrorCode) {
    put_size(out, RESPONSE_HEADER_BYTES);
    out.put_i32(correlation_id);
    out.put_i16(code.to_wire());
}

/// Writes the answer to a produce.
///
/// ```
/// use bytes::BytesMut;
/// use slipstream::booblik::wire::{self, Produced};
///
/// let mut out = BytesMut::new();
/// wire::encode_produced(&mut out, 11, Produced { base_offset: 42, log_end_offset: 44 });
/// assert_eq!(out.len(), 4 + 22);
/// ```
pub fn encode_produced(out: &mut BytesMut, correlation_id: i32, produced: Produced) {
    put_size(out, RESPONSE_HEADER_BYTES + 16);
    put_ok(out, correlation_id);
    out.put_i64(produced.base_offset);
    out.put_i64(produced.log_end_offset);
}

/// What to send in front of `payload_bytes` of a segment, which then follow as they are stored.
///
/// The caller keeps `payload_bytes` at or below [`MAX_FETCH_BYTES`](super::MAX_FETCH_BYTES), as
/// [`Fetch::payload_limit`](super::Fetch::payload_limit) does.
///
/// ```
/// let head = slipstream::booblik::wire::fetched_head(9, 43, 0);
/// assert_eq!(head[..4], [0, 0, 0, 0x12]);
/// ```
pub fn fetched_head(correlation_id: i32, high_watermark: i64, payload_bytes: u32) -> [u8; FETCHED_HEAD_BYTES] {
    let mut head = [0; FETCHED_HEAD_BYTES];
    let mut out = head.as_mut_slice();
    out.put_u32(payload_bytes.saturating_add(FETCHED_HEAD_LENGTH));
    out.put_i32(correlation_id);
    out.put_i16(0);
    out.put_i64(high_watermark);
    out.put_u32(payload_bytes);
    head
}

/// Writes the answer to a metadata request, in the order given: it should be by name, then by number.
///
/// ```
/// use bytes::BytesMut;
/// use slipstream::booblik::wire::{self, PartitionInfo, TopicInfo};
///
/// let partitions = vec![PartitionInfo { partition: 0, log_start_offset: 5, high_watermark: 10 }];
/// let mut out = BytesMut::new();
/// wire::encode_described(&mut out, 2, &[TopicInfo { name: "ab".into(), partitions }])?;
/// assert_eq!(out.len(), 4 + 6 + 4 + 2 + 2 + 4 + 20);
/// # Ok::<(), wire::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError::TooLarge`] when it does not fit a frame: about 400,000 partitions. Nothing is written then.
pub fn encode_described(out: &mut BytesMut, correlation_id: i32, topics: &[TopicInfo]) -> Result<(), WireError> {
    let length = RESPONSE_HEADER_BYTES + 4 + topics.iter().map(topic_bytes).sum::<usize>();
    if length > MAX_FRAME_BYTES {
        return Err(WireError::TooLarge(length));
    }
    out.reserve(4 + length);
    put_size(out, length);
    put_ok(out, correlation_id);
    put_size(out, topics.len());
    for topic in topics {
        put_topic(out, topic)?;
    }
    Ok(())
}

fn topic_bytes(topic: &TopicInfo) -> usize {
    2 + topic.name.len() + 4 + topic.partitions.len() * 20
}

fn put_topic(out: &mut BytesMut, topic: &TopicInfo) -> Result<(), WireError> {
    out.put_u16(u16::try_from(topic.name.len()).map_err(|_| WireError::Name)?);
    out.put_slice(topic.name.as_bytes());
    put_size(out, topic.partitions.len());
    for partition in &topic.partitions {
        out.put_i32(partition.partition);
        out.put_i64(partition.log_start_offset);
        out.put_i64(partition.high_watermark);
    }
    Ok(())
}

fn put_ok(out: &mut BytesMut, correlation_id: i32) {
    out.put_i32(correlation_id);
    out.put_i16(0);
}
