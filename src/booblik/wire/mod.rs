//! Bytes ↔ requests and responses, without I/O.
//!
//! The format is the one of booblik 0.3.0. Everything is big-endian; a frame is a length of four bytes and as many bytes
//! as it says.
//!
//! | for a broker | for a client |
//! |---|---|
//! | [`Frames::of_requests`] cuts a stream into frames | [`Frames::of_responses`] |
//! | [`decode_request`] gives a [`Request`] or the [`Refusal`] to answer with | [`encode_produce`], [`encode_fetch`], [`encode_metadata`] |
//! | [`encode_refusal`], [`encode_produced`], [`fetched_head`], [`encode_described`] | [`decode_response`], then [`decode_produced`], [`decode_fetched`], [`decode_described`] |
//!
//! No decoder panics, whatever the bytes are. None copies a payload: records are slices of the frame. None allocates for
//! a count that the bytes at hand do not bear out.
//!
//! ```
//! use bytes::BytesMut;
//! use slipstream::booblik::wire::{self, Acks, Call, Frames};
//!
//! let mut sent = BytesMut::new();
//! wire::encode_produce(&mut sent, 7, "words", 3, Acks::Written, &["hello", "world"])?;
//!
//! let mut frames = Frames::of_requests();
//! frames.feed(&sent);
//! let frame = frames.next()?.expect("the whole frame is here");
//! let request = wire::decode_request(&frame).expect("a good request");
//! let Call::Produce(produce) = request.call else { panic!("it was a produce") };
//! assert_eq!((request.correlation_id, produce.topic, produce.partition), (7, "words", 3));
//! assert_eq!(produce.records.iter().collect::<Vec<_>>(), [b"hello", b"world"]);
//! # Ok::<(), wire::WireError>(())
//! ```

mod batch;
mod code;
mod cursor;
mod encode;
mod error;
mod frames;
mod gap;
mod hash;
mod name;
mod reply;
mod request;
mod response;
mod stored;

pub use batch::Batch;
pub use code::{Acks, ErrorCode};
pub use encode::{encode_fetch, encode_metadata, encode_produce, produce_frame_bytes};
pub use error::WireError;
pub use frames::Frames;
pub use gap::{GAP_RECORD_BYTES, gap_record};
pub use hash::{Partitioner, crc32c, fnv1a};
pub use name::is_topic_name;
pub use reply::{FETCHED_HEAD_BYTES, encode_described, encode_produced, encode_refusal, fetched_head};
pub use request::{Call, Fetch, Names, Produce, Refusal, Request, decode_request};
pub use response::{PartitionInfo, Produced, Response, TopicInfo, decode_described, decode_produced, decode_response};
pub use stored::{Damage, Ending, Fetched, Record, Records, decode_fetched, encode_stored};

/// The largest `frameLength`, of requests and responses: what follows the length itself.
pub const MAX_FRAME_BYTES: usize = 8 << 20;
/// The length in front of each frame.
pub const LENGTH_BYTES: usize = 4;
/// Key, version and correlation id at the start of a request.
pub const REQUEST_HEADER_BYTES: usize = 8;
/// Correlation id and error code at the start of a response.
pub const RESPONSE_HEADER_BYTES: usize = 6;
/// Size and checksum in front of each stored record.
pub const RECORD_HEADER_BYTES: usize = 8;
/// The most payload that fits the answer to a fetch; a larger `maxBytes` is as good as this.
pub const MAX_FETCH_BYTES: u32 = 8_388_590;
/// The largest record that can be fetched back; a broker refuses a larger one.
pub const MAX_RECORD_BYTES: usize = MAX_FRAME_BYTES - 26;
/// The longest that a broker holds a fetch, whatever it was asked for.
pub const MAX_WAIT_MILLIS: u32 = 60_000;
/// The longest topic name.
pub const MAX_NAME_BYTES: usize = 249;

/// `apiKey` and the versions of it.
mod api {
    pub(super) const PRODUCE: i16 = 1;
    pub(super) const FETCH: i16 = 2;
    pub(super) const METADATA: i16 = 3;
    pub(super) const VERSION: i16 = 1;
    /// The version of FETCH that can wait.
    pub(super) const FETCH_VERSION: i16 = 2;
}

#[cfg(test)]
mod tests;
