//! What a topic gives a handler, and what a sink can be given: [`Message`], [`Headers`], [`Timestamp`].

mod id;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, TimeZone, Utc};

pub use id::StableId;

use crate::error::{Error, Kind, Result};

/// When a record was made or stored, in milliseconds since 1970-01-01 UTC.
///
/// ```
/// use slipstream::{Message, Timestamp};
///
/// let made: Message<&str> = Message::new("hi").with_timestamp(1_700_000_000_000);
/// let kind = match made.timestamp {
///     Timestamp::Created(_) => "by its producer",
///     Timestamp::Appended(_) => "by the broker",
///     Timestamp::None => "never",
/// };
/// assert_eq!((kind, made.timestamp.millis()), ("by its producer", Some(1_700_000_000_000)));
/// assert_eq!(Message::<_>::new("hi").timestamp, Timestamp::None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timestamp {
    /// The record carries none.
    #[default]
    None,
    /// Set by the producer (Kafka's `CreateTime`).
    Created(i64),
    /// Set by the broker (Kafka's `LogAppendTime`).
    Appended(i64),
}

impl Timestamp {
    /// Milliseconds since 1970-01-01 UTC, if there is one.
    pub fn millis(self) -> Option<i64> {
        match self {
            Self::None => None,
            Self::Created(millis) | Self::Appended(millis) => Some(millis),
        }
    }

    /// The same as a UTC time; `None` when there is none or it is out of chrono's range.
    ///
    /// ```
    /// use slipstream::Timestamp;
    /// assert_eq!(Timestamp::Created(0).to_utc().unwrap().to_rfc3339(), "1970-01-01T00:00:00+00:00");
    /// ```
    pub fn to_utc(self) -> Option<DateTime<Utc>> {
        Utc.timestamp_millis_opt(self.millis()?).single()
    }
}

/// Record headers: ordered, a name may repeat, a value may be null. An empty list takes no memory.
///
/// ```
/// use slipstream::Headers;
///
/// let headers = Headers::new().with("trace", "17").with_null("flag").with("trace", "18");
/// assert_eq!(headers.get("trace"), Some(&b"18"[..]));
/// assert_eq!(headers.iter().count(), 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(
    #[expect(clippy::box_collection, reason = "keeps Message small: headers are rare")] Option<Box<Vec<Header>>>,
);

/// A header's name and value.
pub type Header = (String, Option<Bytes>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Adds one at the end.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.push(name.into(), Some(value.into()));
        self
    }

    /// Adds one with a null value at the end.
    #[must_use]
    pub fn with_null(mut self, name: impl Into<String>) -> Self {
        self.push(name.into(), None);
        self
    }

    /// Adds one at the end.
    pub fn push(&mut self, name: String, value: Option<Bytes>) {
        self.0.get_or_insert_default().push((name, value));
    }

    /// The value of the last header called `name`; `None` when it is missing or null.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().rev().find(|(own, _)| own == name).and_then(|(_, value)| value.as_deref())
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.as_deref().map_or(&[][..], Vec::as_slice).iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes that the names and values take together.
    pub fn size_bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len)).sum()
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<N: Into<String>, V: Into<Bytes>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(iter: I) -> Self {
        iter.into_iter().fold(Self::new(), |headers, (name, value)| headers.with(name, value))
    }
}

/// One record of a topic, decoded.
///
/// ```
/// use slipstream::Message;
///
/// let message: Message<u32> = Message::new(7).with_key("seven".to_owned());
/// assert_eq!(message.key().unwrap(), "seven");
/// assert!(Message::<u32>::new(7).key().is_err()); // no key: an error that says which record
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message<V, K = String> {
    /// The key, if the record has one.
    pub key: Option<K>,
    /// The value.
    pub value: V,
    /// Its headers.
    pub headers: Headers,
    /// When it was made or stored.
    pub timestamp: Timestamp,
    /// The topic's name as the broker knows it; empty for one that was not read from a topic.
    pub topic: Arc<str>,
    /// The partition, from 0.
    pub partition: i32,
    /// The offset in the partition, from 0; -1 for one that was not read from a topic.
    pub offset: i64,
}

impl<V, K> Message<V, K> {
    /// A message to be sent: no key, no headers, no timestamp.
    pub fn new(value: V) -> Self {
        Self {
            key: None,
            value,
            headers: Headers::new(),
            timestamp: Timestamp::None,
            topic: Arc::from(""),
            partition: 0,
            offset: -1,
        }
    }

    /// The same with a key.
    #[must_use]
    pub fn with_key(mut self, key: K) -> Self {
        self.key = Some(key);
        self
    }

    /// The same with these headers.
    #[must_use]
    pub fn with_headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// The same with this time of making, in milliseconds since 1970-01-01 UTC. A topic takes 0 for "now".
    #[must_use]
    pub fn with_timestamp(mut self, millis: i64) -> Self {
        self.timestamp = Timestamp::Created(millis);
        self
    }

    /// The key.
    ///
    /// # Errors
    /// [`Kind::Decode`] naming topic, partition and offset when the record has no key.
    pub fn key(&self) -> Result<&K> {
        self.key.as_ref().ok_or_else(|| Error::new(Kind::Decode, "the record has no key").at(self.place()))
    }

    /// The same coordinates with another value.
    pub fn map<T>(self, f: impl FnOnce(V) -> T) -> Message<T, K> {
        Message {
            key: self.key,
            value: f(self.value),
            headers: self.headers,
            timestamp: self.timestamp,
            topic: self.topic,
            partition: self.partition,
            offset: self.offset,
        }
    }

    /// `topic[partition]@offset`, for errors and logs.
    pub fn place(&self) -> String {
        place(&self.topic, self.partition, self.offset)
    }
}

/// How a record is named in errors and logs.
pub(crate) fn place(topic: impl fmt::Display, partition: i32, offset: i64) -> String {
    format!("{topic}[{partition}]@{offset}")
}

/// A record as a backend carries it: bytes only. Null and empty are different things for keys and values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Headers,
    pub timestamp: Timestamp,
    pub offset: i64,
}

impl Record {
    /// What it counts for in byte budgets: its payload and a fixed part for the rest.
    pub(crate) fn size_bytes(&self) -> usize {
        const FIXED: usize = 64;
        FIXED
            + self.key.as_ref().map_or(0, Bytes::len)
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.headers.size_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_stays_small() {
        assert!(size_of::<Message<String>>() <= 128, "{}", size_of::<Message<String>>());
    }

    #[test]
    fn headers_keep_order_duplicates_and_nulls() {
        let headers = Headers::new().with("a", "1").with_null("b").with("a", "2");
        let names: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.is_some())).collect();
        assert_eq!(names, [("a", true), ("b", false), ("a", true)]);
        assert_eq!(headers.get("b"), None);
    }
}
