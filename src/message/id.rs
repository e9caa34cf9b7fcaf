//! The identity of an output, by which a repetition of it is known.

use std::fmt;
use std::str::FromStr;

use super::Headers;
use crate::error::{Error, Kind, Result};

/// Which output of which message a record is: what a topic declared with
/// [`stable_ids`](crate::Topic::stable_ids) writes into the header [`StableId::HEADER`], as
/// `handler/topic-partition-offset-n-outage`. A message that is handled again gives equal ids.
///
/// ```
/// use slipstream::{Headers, StableId};
///
/// let headers = Headers::new().with(StableId::HEADER, "shop::price/orders-3-1042-0-0");
/// let id = StableId::of(&headers)?.expect("it has one");
/// assert_eq!((id.origin.as_str(), id.partition, id.offset, id.n), ("shop::price/orders", 3, 1042, 0));
/// assert_eq!(id.to_string(), "shop::price/orders-3-1042-0-0");
/// assert_eq!(StableId::of(&Headers::new())?, None);
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct StableId {
    /// The handler's name, a `/`, and the name of the topic that it read.
    pub origin: String,
    /// The partition of the message that it read.
    pub partition: i32,
    /// The offset of that message.
    pub offset: i64,
    /// Which output of the handler for that message, from 0.
    pub n: u32,
    /// How often the partition was rewound after an outage before; 0 without a checkpoint.
    pub outage: u64,
}

impl StableId {
    /// The header that has it, as text.
    pub const HEADER: &str = "slipstream-id";

    /// The id of a record with these headers, if it has one.
    ///
    /// # Errors
    /// [`Kind::Decode`] for a header of that name which is not an id.
    pub fn of(headers: &Headers) -> Result<Option<Self>> {
        headers.get(Self::HEADER).map(|text| std::str::from_utf8(text).map_err(|_| wrong(text))?.parse()).transpose()
    }
}

impl fmt::Display for StableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, partition, offset, n, outage } = self;
        write!(f, "{origin}-{partition}-{offset}-{n}-{outage}")
    }
}

impl FromStr for StableId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| wrong(text.as_bytes()))
    }
}

/// From the end, since names may have a `-` in them.
fn parse(text: &str) -> Option<StableId> {
    let mut parts = text.rsplitn(5, '-');
    let (outage, n, offset, partition) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let id = StableId {
        origin: parts.next().filter(|origin| origin.contains('/'))?.to_owned(),
        partition: partition.parse().ok()?,
        offset: offset.parse().ok()?,
        n: n.parse().ok()?,
        outage: outage.parse().ok()?,
    };
    Some(id)
}

fn wrong(text: &[u8]) -> Error {
    let text = String::from_utf8_lossy(text);
    let wanted = "`handler/topic-partition-offset-n-outage`";
    Error::new(Kind::Decode, format!("header {} is {wanted}, not {text:?}", StableId::HEADER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dashes_are_read_back() {
        let id = StableId { origin: "my-app::f-2/t-1-2-3-4-5".into(), partition: 7, offset: i64::MAX, n: 3, outage: 9 };
        assert_eq!(id.to_string().parse::<StableId>().unwrap(), id);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "f/t", "f/t-1-2-3", "t-1-2-3-4", "f/t-1-2-3-x", "f/t-1--2-3-4-", "f/t-1-2-99999999999-4"] {
            assert_eq!(text.parse::<StableId>().unwrap_err().kind(), Kind::Decode, "{text}");
        }
        assert!(StableId::of(&Headers::new().with(StableId::HEADER, &b"f/t-1-2-3-\xff"[..])).is_err());
        assert_eq!(StableId::of(&Headers::new().with_null(StableId::HEADER)).unwrap(), None);
    }
}
