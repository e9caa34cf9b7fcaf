//! The one public error: what failed, where, why, and whether trying again can help.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Any error a handler, a sink or a codec of the user's may end with.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong; the part of an [`Error`] to branch on.
///
/// ```
/// use slipstream::{Error, Kind};
///
/// let error = Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
/// let advice = match error.kind() {
///     Kind::DiskFull => "make room",
///     Kind::Locked | Kind::Timeout => "try again",
///     _ => "look at the report",
/// };
/// assert_eq!(advice, "make room");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A configuration key or value that cannot be used.
    Config,
    /// The app cannot be built as declared (an unbound proxy, a cycle, a missing `Ext`, …).
    Build,
    /// Bytes that the codec does not understand.
    Decode,
    /// A value that the codec cannot write.
    Encode,
    /// A handler returned an error.
    Handler,
    /// A handler, pipe or sink panicked.
    Panic,
    /// A sink refused a value.
    Sink,
    /// A source failed.
    Source,
    /// A handler or a pipe ran into its `timeout`, or a bounded wait ran out.
    Timeout,
    /// A unit of work was dropped before it was done.
    Abandoned,
    /// The broker cannot be reached or answered with an error.
    Broker,
    /// The topic or partition does not exist.
    UnknownTopic,
    /// The record is larger than the broker or the client accepts.
    TooLarge,
    /// A seek to a place that does not exist, or of a partition that is not ours.
    Seek,
    /// A position that the log no longer (or not yet) has.
    OutOfRange,
    /// The store failed in a way that has no kind of its own.
    Store,
    /// Held by another process, or by another declaration of this process.
    Locked,
    /// No space left on the device.
    DiskFull,
    /// A table whose rows here are still being brought up to date.
    Rebuilding,
    /// Several partitions have the key, and the table was not told how to merge their rows.
    SeveralPartitions,
    /// Data on disk that is damaged.
    Corrupt,
    /// Open already, under other settings.
    AlreadyOpen,
    /// Used after it was closed, or never opened.
    Closed,
    /// Not possible with this backend or these settings.
    Unsupported,
    /// Input or output failed.
    Io,
}

/// What failed, where, and why.
///
/// `Display` is one line; the cause is in [`source`](StdError::source). `Debug` prints the line and its causes, one
/// per line, so that `fn main() -> slipstream::Result<()>` ends in something readable.
///
/// ```
/// use slipstream::{Error, Kind};
///
/// let error = Error::new(Kind::Config, "`acks` must be `all`").at("topic words");
/// assert_eq!(error.to_string(), "topic words: `acks` must be `all`");
/// assert_eq!(error.kind(), Kind::Config);
/// assert!(!error.is_retryable());
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    place: Option<String>,
    message: String,
    retryable: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a one-line message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, place: None, message: message.into(), retryable: false, source: None }))
    }

    /// Says where it happened: a topic, a handler, a path.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.0.place = Some(place.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Marks it as worth another try.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    /// The same error for somebody else who is to know of it.
    pub(crate) fn copy(&self) -> Self {
        let Inner { kind, place, message, retryable, source } = &*self.0;
        let (place, message, source) = (place.clone(), message.clone(), source.clone());
        Self(Box::new(Inner { kind: *kind, place, message, retryable: *retryable, source }))
    }

    /// The kind to branch on.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Where it happened, if that is known.
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// Whether the same call may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// The error as one line per cause.
    pub fn report(&self) -> String {
        let mut out = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            out.push_str("\n  caused by: ");
            out.push_str(&error.to_string());
            cause = error.source();
        }
        out
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.0.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let kind = if error.kind() == std::io::ErrorKind::StorageFull { Kind::DiskFull } else { Kind::Io };
        Self::new(kind, "input or output failed").because(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_prints_the_causes_one_per_line() {
        let io = std::io::Error::other("disk on fire");
        let error = Error::new(Kind::Store, "cannot write").at("cache seen").because(io);
        assert_eq!(format!("{error:?}"), "cache seen: cannot write\n  caused by: disk on fire");
    }

    #[test]
    fn display_does_not_repeat_the_source() {
        let error = Error::new(Kind::Sink, "refused").because(Error::new(Kind::TooLarge, "5 MB record"));
        assert_eq!(error.to_string(), "refused");
    }
}
