//! How a log is kept.

use crate::error::{Error, Kind, Result};

use super::record::HEADER_BYTES;

/// How the log of a partition is kept.
///
/// ```
/// use slipstream::booblik::log::LogOptions;
///
/// let options = LogOptions { segment_bytes: 64 << 20, ..LogOptions::default() };
/// assert_eq!(options.index_interval_bytes, 4096);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes after which a new segment is begun, 512 MiB by default, below 2³¹. A longer file is read to its end.
    pub segment_bytes: u64,
    /// Bytes of log between two entries of the index in memory, 4 KiB by default.
    pub index_interval_bytes: u64,
    /// What to do about records that are missing in the middle.
    pub on_damage: OnDamage,
}

/// What to do at open about a segment that ends before the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Do not open: someone has to look.
    #[default]
    Refuse,
    /// Open and say so. Who reads in the gap is told where it ends: over the protocol by a record that counts as damaged
    /// (`wire::gap_record`), within the process by `Partition::next_readable`.
    Serve,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 512 << 20, index_interval_bytes: 4096, on_damage: OnDamage::Refuse }
    }
}

impl LogOptions {
    /// The largest payload that fits into an empty segment.
    pub(crate) fn max_record_bytes(&self) -> usize {
        usize::try_from(self.segment_bytes).unwrap_or(usize::MAX).saturating_sub(HEADER_BYTES)
    }

    /// Refuses what cannot work.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for a capacity that holds no record or reaches 2³¹, and for an interval of 0.
    pub(crate) fn check(&self) -> Result<()> {
        if self.segment_bytes <= HEADER_BYTES as u64 || self.segment_bytes >= 1 << 31 {
            let text = format!("a segment of {} bytes: it must be more than 8 and less than 2³¹", self.segment_bytes);
            return Err(Error::new(Kind::Config, text));
        }
        if self.index_interval_bytes == 0 {
            return Err(Error::new(Kind::Config, "the interval of the index must be at least one byte"));
        }
        Ok(())
    }
}
