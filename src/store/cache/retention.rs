//! What a cache may drop.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};

const DEFAULT_WINDOW_BYTES: u64 = 25 * 1024 * 1024;

/// What a [`Cache`](super::Cache) may drop, and when.
///
/// ```
/// use std::time::Duration;
/// use slipstream::{Cache, Retention};
///
/// static RECENT: Cache<String, u32> = Cache::new("recent").retention(Retention::Fifo { bytes: 1 << 30 });
/// static SESSIONS: Cache<u64, String> = Cache::new("sessions").retention(Retention::Ttl(Duration::from_secs(3600)));
/// static STATE: Cache<u64, u64> = Cache::new("state").retention(Retention::Keep);
/// # assert_eq!((RECENT.name(), SESSIONS.name(), STATE.name()), ("recent", "sessions", "state"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Retention {
    /// Nothing: a row stays until it is deleted.
    Keep,
    /// A row is gone once it was written this long ago (wall clock, in milliseconds). Reads stop to see it at that
    /// moment; the disk space comes back later. A write starts its time again. Costs 8 bytes a row.
    Ttl(Duration),
    /// When the table files take more than `bytes`, the oldest files go, with all rows in them: the rows *written*
    /// longest ago, however often they are read. RocksDB sees only rows that were flushed, in files of about 1 MiB,
    /// so the window is kept to within one file.
    Fifo {
        /// Bytes that the table files may take.
        bytes: u64,
    },
}

impl Default for Retention {
    /// First in, first out, 25 MiB.
    fn default() -> Self {
        Self::Fifo { bytes: DEFAULT_WINDOW_BYTES }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("Keep"),
            Self::Ttl(time) => write!(f, "Ttl({time:?})"),
            Self::Fifo { bytes } => write!(f, "Fifo {{ bytes: {bytes} }}"),
        }
    }
}

impl Retention {
    /// What a store that has `self` gets when `declared` is said.
    ///
    /// # Errors
    /// [`Kind::Config`] for a change that would drop rows or misread them.
    pub(crate) fn change_to(self, declared: Option<Self>) -> Result<Self> {
        match (self, declared) {
            (_, None) => Ok(self),
            (own, Some(new)) if own == new => Ok(own),
            (Self::Fifo { .. }, Some(new @ (Self::Keep | Self::Fifo { .. })))
            | (Self::Ttl(_), Some(new @ Self::Ttl(_))) => Ok(new),
            (own, Some(new)) => Err(Error::new(
                Kind::Config,
                format!(
                    "the store was made with `Retention::{own}` and cannot become `Retention::{new}`: declare what it \
                     has, use another name and copy the rows, or destroy the store"
                ),
            )),
        }
    }

    /// Whether `new` drops rows that `self` would have kept.
    pub(crate) fn shrinks_to(self, new: Self) -> bool {
        match (self, new) {
            (Self::Fifo { bytes: own }, Self::Fifo { bytes: new }) => new < own,
            (Self::Ttl(own), Self::Ttl(new)) => new < own,
            _ => false,
        }
    }

    /// # Errors
    /// [`Kind::Config`] for a window or a time of nothing.
    pub(crate) fn checked(self) -> Result<Self> {
        let nothing = match self {
            Self::Keep => false,
            Self::Ttl(time) => time.as_millis() == 0,
            Self::Fifo { bytes } => bytes == 0,
        };
        if nothing {
            return Err(Error::new(Kind::Config, format!("`Retention::{self}` would keep nothing")));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_way_out_of_evictions_is_open_and_the_way_back_is_not() {
        let fifo = Retention::default();
        assert_eq!(fifo.change_to(Some(Retention::Keep)).unwrap(), Retention::Keep);
        assert_eq!(fifo.change_to(None).unwrap(), fifo);
        let error = Retention::Keep.change_to(Some(fifo)).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.to_string().contains("copy the rows"), "{error}");
        assert!(Retention::Keep.change_to(Some(Retention::Ttl(SECOND))).is_err());
        assert!(Retention::Ttl(SECOND).change_to(Some(Retention::Keep)).is_err());
    }

    #[test]
    fn limits_change_within_their_kind() {
        let (large, small) = (Retention::Fifo { bytes: 2 }, Retention::Fifo { bytes: 1 });
        assert_eq!(large.change_to(Some(small)).unwrap(), small);
        assert!(large.shrinks_to(small) && !small.shrinks_to(large));
        assert!(Retention::Ttl(2 * SECOND).shrinks_to(Retention::Ttl(SECOND)));
    }

    #[test]
    fn a_window_of_nothing_is_refused() {
        assert!(Retention::Fifo { bytes: 0 }.checked().is_err());
        assert!(Retention::Ttl(Duration::from_nanos(1)).checked().is_err());
        assert!(Retention::Keep.checked().is_ok());
    }
}
