//! How a topic's records are written, and what that leaves out.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::conf::Encoding;
use crate::error::{Error, Kind, Result};
use crate::topic::driver::Outgoing;

/// The encoding of one topic.
pub(super) struct Format {
    pub encoding: Encoding,
    /// Nobody has asked for it.
    by_default: bool,
    /// What is left out was said.
    said: AtomicBool,
}

impl Format {
    pub(super) fn new(configured: Option<Encoding>, default: Encoding) -> Self {
        let (encoding, by_default) = (configured.unwrap_or(default), configured.is_none());
        Self { encoding, by_default, said: AtomicBool::new(false) }
    }

    /// Looks whether the record can be written; says once when a part of it is left out that nobody has said to leave
    /// out.
    ///
    /// Errors: `Kind::Encode` for a null or an empty value as a plain record.
    #[inline]
    pub(super) fn check(&self, record: &Outgoing) -> Result<()> {
        match self.encoding {
            Encoding::Envelope => Ok(()),
            Encoding::Plain => self.check_plain(record),
        }
    }

    fn check_plain(&self, record: &Outgoing) -> Result<()> {
        if record.value.as_ref().is_none_or(bytes::Bytes::is_empty) {
            let what = if record.value.is_none() { "a null" } else { "an empty value" };
            let text = format!(
                "{what} cannot be written as a plain record, which has at least one byte: it needs `encoding = envelope`"
            );
            return Err(Error::new(Kind::Encode, text).at(&*record.topic));
        }
        if self.by_default && !self.said.load(Ordering::Relaxed) {
            self.say(record);
        }
        Ok(())
    }

    #[cold]
    fn say(&self, record: &Outgoing) {
        let parts = [
            (record.key.is_some(), "key"),
            (!record.headers.is_empty(), "headers"),
            (record.timestamp.is_some(), "timestamp"),
        ];
        let lost: Vec<&str> = parts.into_iter().filter_map(|(is_there, part)| is_there.then_some(part)).collect();
        if lost.is_empty() || self.said.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            topic = &*record.topic,
            "records are written without their {}: on `booblik://` a record is its value alone, unless the topic says \
             `encoding = envelope`; `encoding = plain` says that this is meant",
            lost.join(", ")
        );
    }
}
