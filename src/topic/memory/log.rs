//! One partition's records and one topic's partitions.

use std::collections::VecDeque;

use crate::message::Record;

use super::partitioner::partition_of;

/// The records of a partition, without gaps; trimmed at the front only.
#[derive(Debug, Default)]
pub(super) struct PartitionLog {
    start: i64,
    records: VecDeque<Record>,
}

impl PartitionLog {
    /// The oldest offset that is still here; the end when nothing is.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// The offset that the next record gets.
    pub(super) fn end(&self) -> i64 {
        self.start + i64::try_from(self.records.len()).unwrap_or(i64::MAX)
    }

    /// Whether reading may begin at `offset`: the end counts, it is the next record's.
    pub(super) fn covers(&self, offset: i64) -> bool {
        (self.start..=self.end()).contains(&offset)
    }

    /// Appends `record` and returns the offset that it got.
    fn append(&mut self, mut record: Record) -> i64 {
        record.offset = self.end();
        let offset = record.offset;
        self.records.push_back(record);
        offset
    }

    /// Adds records from `next` on to `batch`, until it has `max_records` or `max_bytes`; one larger record passes
    /// alone. Returns the bytes added.
    pub(super) fn read(&self, next: i64, max_records: usize, max_bytes: usize, batch: &mut Vec<Record>) -> usize {
        let skip = usize::try_from(next - self.start).unwrap_or(0).min(self.records.len());
        let mut bytes = 0;
        for record in self.records.range(skip..).take(max_records) {
            let size = record.size_bytes();
            if bytes > 0 && bytes + size > max_bytes {
                break;
            }
            bytes += size;
            batch.push(record.clone());
        }
        bytes
    }

    /// The first offset whose timestamp is not before `millis`; the end when there is none.
    pub(super) fn at_time(&self, millis: i64) -> i64 {
        let late_enough = |record: &&Record| record.timestamp.millis().is_some_and(|own| own >= millis);
        self.records.iter().find(late_enough).map_or(self.end(), |record| record.offset)
    }

    /// Drops what lies below `floor` and returns the bytes that this freed.
    fn trim(&mut self, floor: i64) -> usize {
        let count = usize::try_from(floor - self.start).unwrap_or(0).min(self.records.len());
        let freed = self.records.drain(..count).map(|record| record.size_bytes()).sum();
        self.start += i64::try_from(count).unwrap_or(0);
        if self.records.is_empty() {
            self.records = VecDeque::new();
        }
        freed
    }
}

/// The partitions of a topic and the bytes that they hold together.
#[derive(Debug)]
pub(super) struct TopicLog {
    partitions: Vec<PartitionLog>,
    bytes: usize,
    /// Where the next record without a key goes.
    turn: usize,
    /// A writer was refused since something was last trimmed.
    pub(super) starved: bool,
}

impl TopicLog {
    pub(super) fn new(partitions: usize) -> Self {
        let partitions = (0..partitions.max(1)).map(|_| PartitionLog::default()).collect();
        Self { partitions, bytes: 0, turn: 0, starved: false }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn partitions(&self) -> &[PartitionLog] {
        &self.partitions
    }

    pub(super) fn partition(&self, partition: i32) -> Option<&PartitionLog> {
        self.partitions.get(usize::try_from(partition).ok()?)
    }

    /// The numbers of its partitions.
    pub(super) fn numbers(&self) -> std::ops::Range<i32> {
        0..i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }

    /// Whether a record of `size` fits; one that is larger than the whole bound passes alone.
    pub(super) fn has_room(&self, size: usize, max_bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + size <= max_bytes
    }

    /// The partition that a record without a fixed one goes to.
    pub(super) fn choose(&mut self, key: Option<&[u8]>) -> i32 {
        let count = self.partitions.len();
        let chosen = if let Some(key) = key {
            partition_of(key, count)
        } else {
            self.turn = (self.turn + 1) % count.max(1);
            self.turn
        };
        i32::try_from(chosen).unwrap_or(0)
    }

    /// Appends and returns the offset; `None` when there is no such partition.
    pub(super) fn append(&mut self, partition: i32, record: Record) -> Option<i64> {
        let log = self.partitions.get_mut(usize::try_from(partition).ok()?)?;
        self.bytes += record.size_bytes();
        Some(log.append(record))
    }

    /// Drops what lies below each partition's floor; whether that freed anything.
    pub(super) fn trim(&mut self, floors: &[i64]) -> bool {
        let logs = self.partitions.iter_mut().zip(floors);
        let freed: usize = logs.map(|(log, floor)| log.trim(*floor)).sum();
        self.bytes -= freed;
        freed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Timestamp;

    fn record(value: &'static str, millis: i64) -> Record {
        Record { value: Some(value.into()), timestamp: Timestamp::Created(millis), ..Record::default() }
    }

    fn offsets(log: &PartitionLog, next: i64, max_records: usize, max_bytes: usize) -> Vec<i64> {
        let mut batch = Vec::new();
        log.read(next, max_records, max_bytes, &mut batch);
        batch.iter().map(|record| record.offset).collect()
    }

    #[test]
    fn offsets_count_from_zero_and_survive_trimming() {
        let mut topic = TopicLog::new(1);
        for value in ["a", "b", "c"] {
            topic.append(0, record(value, 0));
        }
        assert!(topic.trim(&[2]));
        assert!(!topic.trim(&[1]));
        assert_eq!(topic.append(0, record("d", 0)), Some(3));
        let log = topic.partition(0).unwrap();
        assert_eq!((log.start(), log.end()), (2, 4));
        assert_eq!(offsets(log, 0, 10, 1000), [2, 3], "what was trimmed is skipped");
        assert_eq!(offsets(log, 9, 10, 1000), [0_i64; 0]);
    }

    #[test]
    fn bytes_are_those_of_the_records_that_are_here() {
        let mut topic = TopicLog::new(2);
        topic.append(0, record("aaa", 0));
        topic.append(1, record("bb", 0));
        assert_eq!(topic.bytes(), record("aaa", 0).size_bytes() + record("bb", 0).size_bytes());
        topic.trim(&[1, 1]);
        assert_eq!(topic.bytes(), 0);
    }

    #[test]
    fn a_batch_is_bounded_by_count_and_bytes_but_never_empty() {
        let mut topic = TopicLog::new(1);
        for _ in 0..4 {
            topic.append(0, record("x", 0));
        }
        let log = topic.partition(0).unwrap();
        assert_eq!(offsets(log, 1, 2, 10_000), [1, 2]);
        assert_eq!(offsets(log, 0, 9, 130), [0, 1]);
        assert_eq!(offsets(log, 0, 9, 1), [0]);
    }

    #[test]
    fn a_time_is_found_even_where_times_go_back() {
        let mut topic = TopicLog::new(1);
        for millis in [10, 30, 20, 40] {
            topic.append(0, record("x", millis));
        }
        let log = topic.partition(0).unwrap();
        assert_eq!([5, 11, 35, 41].map(|millis| log.at_time(millis)), [0, 1, 3, 4]);
    }

    #[test]
    fn records_without_a_key_go_round() {
        let mut topic = TopicLog::new(3);
        let mut chosen: Vec<_> = (0..3).map(|_| topic.choose(None)).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1, 2]);
        assert_eq!(topic.choose(Some(b"k")), topic.choose(Some(b"k")));
    }
}
