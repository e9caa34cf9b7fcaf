//! The numbers with a meaning: error codes and acknowledgements.

use std::fmt;

/// Why a broker refused a request; the connection stays usable.
///
/// ```
/// use slipstream::booblik::wire::ErrorCode;
///
/// assert_eq!(ErrorCode::from_wire(0), None);
/// assert_eq!(ErrorCode::from_wire(2), Some(ErrorCode::OffsetOutOfRange));
/// assert_eq!(ErrorCode::from_wire(77).map(|code| (code.to_wire(), code.to_string())), Some((77, "UNKNOWN(77)".into())));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The broker does not serve this topic or partition.
    UnknownTopicOrPartition,
    /// A fetch below the start of the log or above its high watermark.
    OffsetOutOfRange,
    /// A record that the broker cannot store.
    RecordTooLarge,
    /// An api key or a version that the broker does not know.
    UnsupportedVersion,
    /// A request that does not decode, or breaks a rule of the protocol.
    CorruptRequest,
    /// Nothing can be written to the partition at present, for example because the disk is full.
    PartitionUnavailable,
    /// A code that is newer than this crate.
    Unknown(i16),
}

impl ErrorCode {
    /// The code of a response; `None` for 0, which is success.
    pub fn from_wire(code: i16) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Self::UnknownTopicOrPartition),
            2 => Some(Self::OffsetOutOfRange),
            3 => Some(Self::RecordTooLarge),
            4 => Some(Self::UnsupportedVersion),
            5 => Some(Self::CorruptRequest),
            6 => Some(Self::PartitionUnavailable),
            other => Some(Self::Unknown(other)),
        }
    }

    /// The number on the wire.
    pub fn to_wire(self) -> i16 {
        match self {
            Self::UnknownTopicOrPartition => 1,
            Self::OffsetOutOfRange => 2,
            Self::RecordTooLarge => 3,
            Self::UnsupportedVersion => 4,
            Self::CorruptRequest => 5,
            Self::PartitionUnavailable => 6,
            Self::Unknown(code) => code,
        }
    }

    /// Whether the same request may be answered differently later. An unknown code counts as final.
    pub fn is_retryable(self) -> bool {
        self == Self::PartitionUnavailable
    }
}

impl fmt::Display for ErrorCode {
    /// The name that the other clients print.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::UnknownTopicOrPartition => "UNKNOWN_TOPIC_OR_PARTITION",
            Self::OffsetOutOfRange => "OFFSET_OUT_OF_RANGE",
            Self::RecordTooLarge => "RECORD_TOO_LARGE",
            Self::UnsupportedVersion => "UNSUPPORTED_VERSION",
            Self::CorruptRequest => "CORRUPT_REQUEST",
            Self::PartitionUnavailable => "PARTITION_UNAVAILABLE",
            Self::Unknown(code) => return write!(f, "UNKNOWN({code})"),
        };
        f.write_str(name)
    }
}

/// When a broker answers a produce.
///
/// ```
/// use slipstream::booblik::wire::Acks;
///
/// assert_eq!(Acks::default(), Acks::Written);
/// assert_eq!(Acks::from_wire(2), Some(Acks::Forced));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Acks {
    /// Never: the records may be lost, and nobody learns of it.
    None,
    /// When they are appended: they survive the end of the broker's process, not a power loss.
    #[default]
    Written,
    /// When they are on the disk.
    Forced,
}

impl Acks {
    /// The policy with this number.
    pub fn from_wire(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Written),
            2 => Some(Self::Forced),
            _ => None,
        }
    }

    /// The number on the wire.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Written => 1,
            Self::Forced => 2,
        }
    }
}
