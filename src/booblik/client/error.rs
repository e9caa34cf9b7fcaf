//! What can go wrong, told apart so that a program can act on it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::booblik::wire::{Damage, ErrorCode, WireError};
use crate::error::{Error, Kind};

/// A topic, and a partition of it where one was named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: Option<i32>,
}

impl Place {
    pub(super) fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition: Some(partition) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Some(partition) => write!(f, "{}/{partition}", self.topic),
            None => f.write_str(&self.topic),
        }
    }
}

/// Whether a request that got no answer can have reached the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// No byte of it was sent.
    NotSent,
    /// It was sent, at least in part: what it asked for may have been done.
    Unknown,
}

/// Why a connection ended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The broker closed it.
    #[error("the broker closed the connection")]
    ByBroker,
    /// This client closed it: its handle was closed or dropped.
    #[error("the connection was closed")]
    ByClient,
    /// An answer did not come in time, so that what comes next cannot be told from it.
    #[error("an answer was overdue")]
    Overdue,
    /// An answer was not the one that was due.
    #[error("the answer to request {found} came out of turn")]
    OutOfTurn {
        /// Its correlation id.
        found: i32,
    },
    /// The bytes were no answer.
    #[error("the broker sent {0}")]
    Malformed(WireError),
    /// The network failed.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
}

/// Why a call of the client failed.
///
/// It is cheap to clone: all records of a batch share the one that the batch got. It turns into the crate's
/// [`Error`] with `?`.
///
/// ```
/// use slipstream::booblik::client::ClientError;
/// use slipstream::booblik::wire::ErrorCode;
///
/// let error = ClientError::Refused { code: ErrorCode::PartitionUnavailable, place: None };
/// assert!(error.is_retryable());
/// assert_eq!(error.to_string(), "the broker refused: PARTITION_UNAVAILABLE, it cannot write there now");
/// assert_eq!(slipstream::Error::from(error).kind(), slipstream::Kind::Broker);
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The broker answered with an error code. The connection stays usable.
    #[error("the broker refused: {code}{}", hint(*code))]
    Refused {
        /// The code; one that this crate does not know keeps its number.
        code: ErrorCode,
        /// What the request was about, where it was about one topic.
        place: Option<Place>,
    },
    /// A position outside of the log: below its start when retention has overtaken it, above its end when the log is
    /// another one than it was.
    #[error("offset {offset} is outside of the log, which has {log_start_offset} to {high_watermark}")]
    OutOfRange {
        /// The partition.
        place: Place,
        /// The position.
        offset: i64,
        /// The first offset that is stored.
        log_start_offset: i64,
        /// The offset after the last one.
        high_watermark: i64,
    },
    /// Records that the broker has lost, in the middle of the log: damage that it was told to live with.
    #[error(
        "{}; `skip_damaged`, or another out-of-range policy than to stop, goes on behind them",
        lost(*offset, *next)
    )]
    Gap {
        /// The partition.
        place: Place,
        /// The first of them.
        offset: i64,
        /// The first record behind them, or the end of the log; `None` from a broker that does not say.
        next: Option<i64>,
    },
    /// A stored record is damaged. The records before it were given out.
    #[error("the record at offset {offset} is damaged: {damage}")]
    Corrupt {
        /// The partition.
        place: Place,
        /// The offset of the record.
        offset: i64,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A record is larger than the bytes that were asked for: it can never arrive that way.
    #[error("the record at offset {offset} has {record_bytes} bytes and does not fit a fetch of {max_bytes}")]
    ExceedsMaxBytes {
        /// The partition.
        place: Place,
        /// The offset of the record.
        offset: i64,
        /// Its size; 0 when not even that fits.
        record_bytes: u32,
        /// What was asked for.
        max_bytes: u32,
    },
    /// No broker has a topic with that name. Nothing was sent.
    #[error("`{name}` can be no topic's name, which is 1 to 249 letters, digits, `.`, `_` and `-`")]
    TopicName {
        /// The name, or how it begins.
        name: String,
    },
    /// A record without bytes: a log cannot store it. Nothing was sent.
    #[error("an empty record cannot be stored")]
    EmptyRecord,
    /// A record that no request, or no answer, can hold. Nothing was sent.
    #[error("a record of {bytes} bytes is too large")]
    RecordTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A request that cannot be written. Nothing was sent.
    #[error("the request cannot be written: {0}")]
    Request(WireError),
    /// The body of an answer does not decode; the connection was closed.
    #[error("the answer cannot be read: {0}")]
    Answer(WireError),
    /// A topic without partitions.
    #[error("topic {topic} has no partitions")]
    NoPartitions {
        /// Its name.
        topic: Arc<str>,
    },
    /// The connection ended before the answer came.
    #[error("{ended}")]
    Lost {
        /// Why.
        ended: Ended,
        /// Whether the request can have reached the broker.
        fate: Fate,
    },
    /// The deadline passed.
    #[error("no answer from {broker} within {after:?}")]
    Timeout {
        /// Its address.
        broker: Arc<str>,
        /// The time that the call had.
        after: Duration,
        /// Whether the request can have reached the broker.
        fate: Fate,
    },
    /// No connection could be made.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The broker.
        address: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The text is no address.
    #[error("`{text}` is no address: host:port, or [address]:port for IPv6")]
    Address {
        /// The text.
        text: String,
    },
    /// A setting that cannot be used.
    #[error("{0}")]
    Setting(&'static str),
    /// The producer has no room; [`Producer::send`](super::Producer::send) waits for some.
    #[error("the producer's buffer is full")]
    Full,
    /// The client or the producer was closed.
    #[error("used after it was closed")]
    Closed,
}

impl ClientError {
    /// The code with which the broker refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::OutOfRange { .. } | Self::Gap { next: None, .. } => Some(ErrorCode::OffsetOutOfRange),
            _ => None,
        }
    }

    /// The topic and partition that it is about.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Refused { place, .. } => place.as_ref(),
            Self::OutOfRange { place, .. }
            | Self::Gap { place, .. }
            | Self::Corrupt { place, .. }
            | Self::ExceedsMaxBytes { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Whether the same call may succeed later. After a produce that [may have been done](Self::is_ambiguous), another
    /// try may store its records twice.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.is_retryable(),
            Self::Lost { ended, .. } => !matches!(ended, Ended::ByClient),
            Self::Timeout { .. } | Self::Connect { .. } | Self::Full => true,
            _ => false,
        }
    }

    /// Whether the broker may have done what was asked although there was no answer.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Lost { fate, .. } | Self::Timeout { fate, .. } => *fate == Fate::Unknown,
            Self::Answer(_) => true,
            _ => false,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Refused { code, .. } => kind_of(*code),
            Self::OutOfRange { .. } | Self::Gap { .. } => Kind::OutOfRange,
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::ExceedsMaxBytes { .. } | Self::RecordTooLarge { .. } | Self::Request(WireError::TooLarge(_)) => {
                Kind::TooLarge
            }
            Self::EmptyRecord | Self::Request(_) => Kind::Encode,
            Self::Answer(_) => Kind::Decode,
            Self::NoPartitions { .. } => Kind::UnknownTopic,
            Self::Lost { .. } | Self::Connect { .. } => Kind::Broker,
            Self::Timeout { .. } | Self::Full => Kind::Timeout,
            Self::TopicName { .. } | Self::Address { .. } | Self::Setting(_) => Kind::Config,
            Self::Closed => Kind::Closed,
        }
    }
}

/// What a code means to whoever reads it.
fn hint(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UnknownTopicOrPartition => {
            ", it has no such topic or partition, and nobody can create one from here"
        }
        ErrorCode::PartitionUnavailable => ", it cannot write there now",
        _ => "",
    }
}

/// Characters of a name that are repeated.
const NAME_MAX_CHARS: usize = 64;
/// UTF-16 code units that a name has at most.
const NAME_MAX_UNITS: usize = 249;

/// Refuses what no broker takes: some take letters beyond ASCII.
pub(super) fn check_name(name: &str) -> Result<(), ClientError> {
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=NAME_MAX_UNITS).contains(&name.encode_utf16().count()) && name.chars().all(is_fine) {
        return Ok(());
    }
    Err(ClientError::TopicName { name: name.chars().take(NAME_MAX_CHARS).collect() })
}

fn lost(offset: i64, next: Option<i64>) -> String {
    match next {
        Some(next) => format!("the broker has lost records {offset} to {}", next.saturating_sub(1)),
        None => format!("the broker has lost record {offset}, and does not say how many more"),
    }
}

fn kind_of(code: ErrorCode) -> Kind {
    match code {
        ErrorCode::UnknownTopicOrPartition => Kind::UnknownTopic,
        ErrorCode::OffsetOutOfRange => Kind::OutOfRange,
        ErrorCode::RecordTooLarge => Kind::TooLarge,
        ErrorCode::UnsupportedVersion => Kind::Unsupported,
        ErrorCode::CorruptRequest | ErrorCode::PartitionUnavailable | ErrorCode::Unknown(_) => Kind::Broker,
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        let (retryable, place) = (error.is_retryable(), error.place().map(ToString::to_string));
        let mut out = Self::new(error.kind(), error.to_string());
        if let Some(place) = place {
            out = out.at(place);
        }
        if retryable { out.retryable() } else { out }
    }
}
