//! Requests as a broker reads them.

use std::time::Duration;

use bytes::Bytes;

use super::batch::Batch;
use super::cursor::Cursor;
use super::{Acks, ErrorCode, MAX_FETCH_BYTES, MAX_WAIT_MILLIS, REQUEST_HEADER_BYTES, api};

/// A request that keeps all the rules of the protocol. Whether its topic exists is another matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// To be echoed in the response.
    pub correlation_id: i32,
    /// What is asked for.
    pub call: Call<'a>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call<'a> {
    /// Append records.
    Produce(Produce<'a>),
    /// Read records, of either version.
    Fetch(Fetch<'a>),
    /// Describe the topics with these names; all topics when there are none.
    Metadata(Names<'a>),
}

/// Records to append to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produce<'a> {
    /// A valid name.
    pub topic: &'a str,
    /// Not negative.
    pub partition: i32,
    /// When to answer; never for [`Acks::None`], not even with a refusal.
    pub acks: Acks,
    /// At least one record.
    pub records: Batch,
}

/// Where to read from, how much, and how long to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// A valid name.
    pub topic: &'a str,
    /// Not negative.
    pub partition: i32,
    /// Not negative.
    pub offset: i64,
    /// As asked for, at least 1; [`payload_limit`](Self::payload_limit) is what an answer can hold of it.
    pub max_bytes: u32,
    /// As asked for; 0 in version 1. [`wait`](Self::wait) is what a broker grants of it.
    pub max_wait_millis: u32,
    /// As asked for, at most `max_bytes`; 0 in version 1.
    pub min_bytes: u32,
}

impl Fetch<'_> {
    /// The bytes that an answer may have, so that its frame is one that clients accept.
    pub fn payload_limit(&self) -> u32 {
        self.max_bytes.min(MAX_FETCH_BYTES)
    }

    /// How long to wait for records: at most 60 s.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.max_wait_millis.min(MAX_WAIT_MILLIS).into())
    }

    /// The bytes that end a wait early: at least 1, and never more than an answer can hold.
    pub fn wanted_bytes(&self) -> u32 {
        self.min_bytes.min(self.payload_limit()).max(1)
    }
}

/// Names of topics in a request: a part of its frame, checked when it was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Names<'a> {
    /// How many there are; a name that is written twice counts twice.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none, which asks for all topics.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names as they were written.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        (0..self.count).map_while(move |_| cursor.name())
    }
}

/// A request that cannot be served, and what to do about it.
///
/// ```
/// use bytes::Bytes;
/// use slipstream::booblik::wire::{self, ErrorCode};
///
/// let refusal = wire::decode_request(&Bytes::from_static(b"\0\x09\0\x01\0\0\0\x2a")).unwrap_err();
/// assert_eq!((refusal.correlation_id, refusal.code), (42, ErrorCode::UnsupportedVersion));
/// assert!(!refusal.is_silent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// To be echoed; 0 for a request that is too short to have one.
    pub correlation_id: i32,
    /// The code to answer with.
    pub code: ErrorCode,
    /// It is known already that the client wants no acknowledgement: send nothing, since clients do not expect it.
    pub is_silent: bool,
    /// What is wrong, for a log.
    pub reason: &'static str,
}

/// Reads one request from a frame without its length.
///
/// Records and names are parts of `frame`; nothing is copied. Bytes after the request are ignored.
///
/// # Errors
///
/// A [`Refusal`] to answer with; the connection stays usable. They are found in the order of the reference: a header that
/// is too short, an unknown key or version, a body that breaks a rule.
pub fn decode_request(frame: &Bytes) -> Result<Request<'_>, Refusal> {
    let mut cursor = Cursor::new(frame);
    let Some((key, version, correlation_id)) = header(&mut cursor) else {
        let reason = "a request without a whole header";
        return Err(Refusal { correlation_id: 0, code: ErrorCode::CorruptRequest, is_silent: false, reason });
    };
    let refuse = |code, is_silent, reason| Refusal { correlation_id, code, is_silent, reason };
    let call = match (key, version) {
        (api::PRODUCE, api::VERSION) => produce(frame, cursor).map(Call::Produce),
        (api::FETCH, api::VERSION | api::FETCH_VERSION) => fetch(cursor, version).map(Call::Fetch).map_err(Fault::from),
        (api::METADATA, api::VERSION) => names(cursor).map(Call::Metadata).map_err(Fault::from),
        _ => return Err(refuse(ErrorCode::UnsupportedVersion, false, "an unknown key or version")),
    };
    let call = call.map_err(|fault| refuse(ErrorCode::CorruptRequest, fault.is_silent, fault.reason))?;
    Ok(Request { correlation_id, call })
}

/// Why a body is refused.
struct Fault {
    reason: &'static str,
    is_silent: bool,
}

impl From<&'static str> for Fault {
    fn from(reason: &'static str) -> Self {
        Self { reason, is_silent: false }
    }
}

fn header(cursor: &mut Cursor<'_>) -> Option<(i16, i16, i32)> {
    if cursor.remaining() < REQUEST_HEADER_BYTES {
        return None;
    }
    Some((cursor.i16()?, cursor.i16()?, cursor.i32()?))
}

/// Topic and partition, with which a produce and a fetch begin.
fn place<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, i32), &'static str> {
    let topic = cursor.name().ok_or("a topic name that cannot be one")?;
    let partition = cursor.i32().filter(|partition| *partition >= 0).ok_or("no partition, or a negative one")?;
    Ok((topic, partition))
}

fn produce<'a>(frame: &Bytes, mut cursor: Cursor<'a>) -> Result<Produce<'a>, Fault> {
    let (topic, partition) = place(&mut cursor)?;
    let acks = cursor.u8().and_then(Acks::from_wire).ok_or("no acknowledgement policy, or an unknown one")?;
    let records = records(frame, cursor).map_err(|reason| Fault { reason, is_silent: acks == Acks::None })?;
    Ok(Produce { topic, partition, acks, records })
}

fn records(frame: &Bytes, mut cursor: Cursor<'_>) -> Result<Batch, &'static str> {
    let count = cursor.size().ok_or("no record count, or a negative one")?;
    Batch::check(frame, cursor.rest(), count)
}

fn fetch(mut cursor: Cursor<'_>, version: i16) -> Result<Fetch<'_>, &'static str> {
    let (topic, partition) = place(&mut cursor)?;
    let offset = cursor.i64().filter(|offset| *offset >= 0).ok_or("no offset, or a negative one")?;
    let max_bytes = cursor.size().filter(|bytes| *bytes > 0).ok_or("no maximum of bytes, or none above 0")?;
    let (max_wait_millis, min_bytes) = if version == api::FETCH_VERSION {
        let wait = cursor.size().ok_or("no wait, or a negative one")?;
        let min_bytes = cursor.size().filter(|bytes| *bytes <= max_bytes);
        (wait, min_bytes.ok_or("no minimum of bytes, or one outside of 0 to the maximum")?)
    } else {
        (0, 0)
    };
    Ok(Fetch { topic, partition, offset, max_bytes, max_wait_millis, min_bytes })
}

fn names(mut cursor: Cursor<'_>) -> Result<Names<'_>, &'static str> {
    let count = cursor.size().ok_or("no topic count, or a negative one")?;
    if u64::from(count) * 2 > cursor.remaining() as u64 {
        return Err("more topics than bytes");
    }
    let bytes = cursor.rest();
    for _ in 0..count {
        cursor.name().ok_or("a topic name that cannot be one")?;
    }
    let used = bytes.len() - cursor.remaining();
    Ok(Names { bytes: bytes.get(..used).unwrap_or_default(), count })
}
