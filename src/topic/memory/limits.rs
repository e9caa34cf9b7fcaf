//! What a broker in memory may take.

/// Partitions of a topic that nobody gave a number for.
const DEFAULT_PARTITIONS: u32 = 4;
/// The most partitions that a topic may have.
pub(super) const PARTITIONS_MAX: u32 = 10_000;

/// Bounds of a [`Memory`](super::Memory) broker: see [`Memory::named_with`](super::Memory::named_with).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct MemoryLimits {
    pub(super) topic_bytes: usize,
    pub(super) record_bytes: usize,
    pub(super) partitions: u32,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { topic_bytes: 256 * 1024 * 1024, record_bytes: 1024 * 1024, partitions: DEFAULT_PARTITIONS }
    }
}

impl MemoryLimits {
    /// Bytes that the records of one topic may take together (default 256 MiB): payload and 64 bytes for each record.
    /// A topic that is full drops what all its groups have committed past, and otherwise makes its writers wait. One
    /// larger record passes alone.
    pub fn topic_bytes(mut self, bytes: usize) -> Self {
        self.topic_bytes = bytes;
        self
    }

    /// Bytes that key, value and headers of one record may take together (default 1 MiB, as in Kafka). Larger ones are
    /// refused with [`Kind::TooLarge`](crate::Kind::TooLarge).
    pub fn record_bytes(mut self, bytes: usize) -> Self {
        self.record_bytes = bytes;
        self
    }

    /// Partitions of a topic that is created by its first use (default 4); between 1 and 10,000.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions.clamp(1, PARTITIONS_MAX);
        self
    }
}
