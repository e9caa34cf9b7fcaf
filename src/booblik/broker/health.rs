//! What a broker says of itself.

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::done::AppendError;
use super::partition::Partition;
use super::writer::Writer;

/// Whether a broker can do its work.
#[derive(Debug, Clone, Serialize)]
pub struct Health {
    /// All partitions can write.
    pub ok: bool,
    /// How many partitions there are.
    pub partitions: usize,
    /// Those that cannot write. They can be read, and resume by themselves.
    pub unavailable: Vec<Unavailable>,
}

/// A partition that cannot write.
#[derive(Debug, Clone, Serialize)]
pub struct Unavailable {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// What stands in the way.
    pub reason: String,
}

/// What a partition has done since its broker was opened, and how it stands.
#[derive(Debug, Clone, Serialize)]
pub struct PartitionMetrics {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// The first offset that is still here.
    pub log_start: i64,
    /// The offset behind the last record.
    pub high_watermark: i64,
    /// The offset up to which everything is on stable storage.
    pub synced: i64,
    /// Files that it consists of.
    pub segments: usize,
    /// Bytes of its records on disk, with 8 for each record.
    pub stored_bytes: u64,
    /// Batches that wait to be written.
    pub queued_batches: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Records appended.
    pub records: u64,
    /// Their bytes, with 8 for each record.
    pub bytes: u64,
    /// Batches appended.
    pub batches: u64,
    /// Groups in which they were written: one system call each, unless a segment ends in between.
    pub groups: u64,
    /// How often stable storage was waited for.
    pub barriers: u64,
    /// Batches that were answered with an error of the disk.
    pub failed_batches: u64,
    /// Segments that retention removed.
    pub retained_segments: u64,
    /// Whether it can write.
    pub available: bool,
}

impl Health {
    pub(super) fn of(partitions: &[Partition]) -> Self {
        let unavailable: Vec<_> = partitions.iter().filter_map(Unavailable::of).collect();
        Self { ok: unavailable.is_empty(), partitions: partitions.len(), unavailable }
    }
}

impl Unavailable {
    fn of(partition: &Partition) -> Option<Self> {
        let reason = match partition.0.queue.refusal()? {
            AppendError::Unavailable { reason, .. } => reason.to_string(),
            other => other.to_string(),
        };
        Some(Self { topic: partition.topic().to_owned(), partition: partition.number(), reason })
    }
}

impl PartitionMetrics {
    pub(super) fn of(writer: &Writer) -> Self {
        let segments = writer.view.segments();
        let (queued_batches, queued_bytes) = writer.queue.waiting();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            topic: writer.topic.to_string(),
            partition: writer.number,
            log_start: writer.view.start(),
            high_watermark: writer.view.end(),
            synced: writer.durable.synced(),
            segments: segments.len(),
            stored_bytes: segments.iter().map(|segment| segment.bytes()).sum(),
            queued_batches,
            queued_bytes,
            records: count(&writer.counts.records),
            bytes: count(&writer.counts.bytes),
            batches: count(&writer.counts.batches),
            groups: count(&writer.counts.groups),
            barriers: writer.durable.barriers(),
            failed_batches: count(&writer.counts.failed),
            retained_segments: count(&writer.counts.retained),
            available: *writer.available.borrow(),
        }
    }
}
