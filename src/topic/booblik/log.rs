//! What `embedded:` and `booblik://` have in common: a log of partitions that can be read.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::Result;
use crate::message::Record;
use crate::topic::begin::Bounds;
use crate::topic::driver::Wanted;

/// A broker's log, as its readers see it.
pub(super) trait Log: Send + Sync + 'static {
    /// Reads one partition.
    type Reader: Reader;

    /// How often to look whether a topic has grown; `None` where it cannot.
    const LOOK_AGAIN: Option<Duration>;

    /// The topic's partitions by number, with their ends. A topic that is missing is created where that is possible;
    /// `None` where it is not.
    fn partitions(&self, wanted: &Wanted) -> impl Future<Output = Result<Option<Vec<(i32, Bounds)>>>> + Send;

    /// A reader of a partition from the offset `from` on.
    fn reader(&self, topic: &Arc<str>, partition: i32, from: i64) -> impl Future<Output = Result<Self::Reader>> + Send;

    /// The CRC-32C of the record at `offset`; `None` when there is none.
    fn crc(&self, topic: &str, partition: i32, offset: i64) -> impl Future<Output = Result<Option<u32>>> + Send;

    /// The first offset at or behind `offset`, which lies inside of the log, that can be read or will be written.
    fn next_readable(&self, topic: &str, partition: i32, offset: i64) -> impl Future<Output = Result<i64>> + Send;

    /// Makes durable what the partition has, as far as that is ours to do.
    fn sync(&self, topic: &str, partition: i32) -> impl Future<Output = Result<()>> + Send;

    /// What is said while a topic is missing.
    fn missing(&self, wanted: &Wanted) -> String;

    /// Why the log cannot be reached, as long as it cannot; `None` where that cannot happen.
    fn away(&self) -> Option<watch::Receiver<Option<Arc<str>>>>;
}

/// Reads a partition in order.
pub(super) trait Reader: Send + 'static {
    /// Waits until there are records, adds at most `max` to `records` (at least one may be asked for), and returns the
    /// bytes that they take in memory. Every checksum was compared. It may add none when it has waited for a while.
    ///
    /// Errors: `Kind::OutOfRange` when the log does not have the next record and what is behind it; retryable ones,
    /// after which the reader is as before; others.
    fn next(&mut self, records: &mut Vec<Record>, max: usize) -> impl Future<Output = Result<usize>> + Send;

    /// The offset of the next record.
    fn position(&self) -> i64;
}
