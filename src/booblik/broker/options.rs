//! How a broker keeps its topics.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::booblik::log::{LogOptions, OnDamage, Retention};
use crate::error::{Error, Kind, Result};

/// How a [`Broker`](super::Broker) keeps its topics.
///
/// ```
/// use std::time::Duration;
/// use slipstream::booblik::broker::{BrokerOptions, TopicOptions};
///
/// let week = TopicOptions { retention_age: Some(Duration::from_secs(7 * 86_400)), ..TopicOptions::default() };
/// let options = BrokerOptions::default().topic("clicks", week);
/// assert_eq!(options.for_topic("orders").retention_age, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// How topics are kept that are not named in `topics`.
    pub default: TopicOptions,
    /// How topics are kept, by their name.
    pub topics: BTreeMap<String, TopicOptions>,
    /// Bytes that wait in front of a partition's writer before callers have to wait, 1 MiB by default.
    pub queue_bytes: usize,
    /// Records that wait in front of a partition's writer before callers have to wait, 16,384 by default.
    pub queue_records: usize,
    /// How long a writer that has nothing to do lets records gather that nobody waits for, 200 µs by default.
    pub gather: Duration,
    /// Threads that write, 4 by default. They are started when they are needed.
    pub writer_threads: usize,
    /// How often retention looks, 30 s by default.
    pub retention_check: Duration,
    /// How often a partition that could not write tries again, 1 s by default.
    pub resume_every: Duration,
}

/// How one topic is kept.
///
/// ```
/// use slipstream::booblik::broker::TopicOptions;
///
/// let small = TopicOptions { segment_bytes: 1 << 20, retention_bytes: Some(16 << 20), ..TopicOptions::default() };
/// assert_eq!(small.flush_every_records, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    /// Bytes after which a new segment is begun, 512 MiB by default, below 2³¹.
    pub segment_bytes: u64,
    /// Bytes of log between two entries of the index in memory, 4 KiB by default.
    pub index_interval_bytes: u64,
    /// Bytes that a partition keeps; everything by default. The last segment stays in any case.
    pub retention_bytes: Option<u64>,
    /// How long a partition keeps records; for ever by default. The last segment stays in any case.
    pub retention_age: Option<Duration>,
    /// Sync after as many records, whatever their producers asked for. Not by default.
    pub flush_every_records: Option<u64>,
    /// Sync what is older than this, whatever its producers asked for. Not by default; at least 1 ms.
    pub flush_every: Option<Duration>,
    /// What to do at open about records that are missing in the middle. By default the broker does not open.
    pub on_damage: OnDamage,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        Self {
            default: TopicOptions::default(),
            topics: BTreeMap::new(),
            queue_bytes: 1 << 20,
            queue_records: 16_384,
            gather: Duration::from_micros(200),
            writer_threads: 4,
            retention_check: Duration::from_secs(30),
            resume_every: Duration::from_secs(1),
        }
    }
}

impl Default for TopicOptions {
    fn default() -> Self {
        let log = LogOptions::default();
        Self {
            segment_bytes: log.segment_bytes,
            index_interval_bytes: log.index_interval_bytes,
            retention_bytes: None,
            retention_age: None,
            flush_every_records: None,
            flush_every: None,
            on_damage: log.on_damage,
        }
    }
}

impl BrokerOptions {
    /// Keeps the topic with this name as `options` say.
    #[must_use]
    pub fn topic(mut self, name: impl Into<String>, options: TopicOptions) -> Self {
        self.topics.insert(name.into(), options);
        self
    }

    /// How the topic with this name is kept.
    pub fn for_topic(&self, name: &str) -> &TopicOptions {
        self.topics.get(name).unwrap_or(&self.default)
    }

    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<()> {
        let zero = [
            ("queue_bytes", self.queue_bytes == 0),
            ("queue_records", self.queue_records == 0),
            ("writer_threads", self.writer_threads == 0),
            ("retention_check", self.retention_check.is_zero()),
            ("resume_every", self.resume_every.is_zero()),
        ];
        if let Some((name, _)) = zero.iter().find(|(_, is_zero)| *is_zero) {
            return Err(Error::new(Kind::Config, format!("`{name}` must not be 0")));
        }
        self.topics.values().chain([&self.default]).try_for_each(|topic| topic.log().check())
    }

    /// How often someone has to look after the partitions.
    pub(super) fn tick(&self) -> Duration {
        let flushes = self.topics.values().chain([&self.default]).filter_map(|topic| topic.flush_every);
        let shortest = flushes.min().unwrap_or(Duration::MAX).max(Duration::from_millis(1));
        shortest.min(self.resume_every).min(self.retention_check)
    }
}

impl TopicOptions {
    pub(super) fn log(&self) -> LogOptions {
        LogOptions {
            segment_bytes: self.segment_bytes,
            index_interval_bytes: self.index_interval_bytes,
            on_damage: self.on_damage,
        }
    }

    pub(super) fn retention(&self) -> Retention {
        Retention { bytes: self.retention_bytes, age: self.retention_age }
    }
}
