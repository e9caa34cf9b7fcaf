//! The loop without a framework: librdkafka's queue, borrowed JSON, a bounded hash map, and every 10,000 records one
//! RocksDB batch of the changed counts with the positions.

use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use rocksdb::{BlockBasedOptions, DB, DBCompressionType, Direction, IteratorMode, Options, WriteBatch};

use super::Payment;
use super::hot::Hot;
use crate::kafka::{self, PARTITIONS};

const BATCH_RECORDS: u64 = 10_000;
const HOT_BYTES: usize = 64 << 20;
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// A topic that has nothing more for this long will not have it.
const PATIENCE: Duration = Duration::from_mins(1);
/// Positions lie before all keys, one row per partition.
const POSITION: u8 = 0;

/// The next offset of each partition.
type Positions = [i64; PARTITIONS as usize];

/// As a `Cache` opens its store, but for what that has statistics and full disks in mind.
fn open(path: &Path) -> DB {
    let (mut options, mut table) = (Options::default(), BlockBasedOptions::default());
    table.set_bloom_filter(10.0, false);
    options.set_block_based_table_factory(&table);
    options.create_if_missing(true);
    options.increase_parallelism(2);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(64 << 20);
    DB::open(&options, path).unwrap()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

fn position_key(partition: usize) -> [u8; 2] {
    [POSITION, u8::try_from(partition).unwrap()]
}

fn positions(db: &DB) -> Positions {
    let stored = |partition| db.get(position_key(partition)).unwrap().map_or(0, |value| number(&value));
    std::array::from_fn(|partition| i64::try_from(stored(partition)).unwrap())
}

fn write(db: &DB, hot: &mut Hot, positions: &Positions) {
    let mut batch = WriteBatch::default();
    for row in hot.changed() {
        batch.put(&row.key, row.count.get().to_le_bytes());
    }
    for (partition, next) in positions.iter().enumerate() {
        batch.put(position_key(partition), next.to_le_bytes());
    }
    db.write(batch).unwrap();
    hot.stored();
}

fn offsets(topic: &str, positions: &Positions) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (partition, next) in (0..).zip(positions) {
        list.add_partition_offset(topic, partition, Offset::Offset(*next)).unwrap();
    }
    list
}

fn reader(topic: &str, group: &str, positions: &Positions) -> BaseConsumer {
    let consumer: BaseConsumer = kafka::client()
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("fetch.queue.backoff.ms", "10")
        .create()
        .unwrap();
    consumer.assign(&offsets(topic, positions)).unwrap();
    consumer
}

/// Counts `count` records from where the store at `path` is, and takes the time from the first one until all is stored
/// and committed.
pub fn count(topic: &str, group: &str, count: u64, path: &Path) -> Duration {
    let db = open(path);
    let (mut hot, mut positions) = (Hot::new(HOT_BYTES), positions(&db));
    let consumer = reader(topic, group, &positions);
    let (mut began, mut committed) = (None, Instant::now());
    for handled in 1..=count {
        let record = consumer.poll(PATIENCE).expect("a record").unwrap();
        began.get_or_insert_with(Instant::now);
        let payment: Payment<'_> = serde_json::from_slice(record.payload().unwrap()).unwrap();
        let key = payment.user.as_bytes();
        hot.count(key, || db.get_pinned(key).unwrap().map_or(0, |value| number(&value)));
        positions[usize::try_from(record.partition()).unwrap()] = record.offset() + 1;
        if handled % BATCH_RECORDS == 0 {
            write(&db, &mut hot, &positions);
        }
        if handled % BATCH_RECORDS == 0 && committed.elapsed() > COMMIT_INTERVAL {
            consumer.commit(&offsets(topic, &positions), CommitMode::Async).unwrap();
            committed = Instant::now();
        }
    }
    write(&db, &mut hot, &positions);
    consumer.commit(&offsets(topic, &positions), CommitMode::Sync).unwrap();
    began.unwrap().elapsed()
}

/// Makes the store that holds the first `count` records of a topic, as the loop itself leaves it.
pub fn prepare(topic: &str, records: u64, path: &Path) {
    count(topic, &kafka::unique("count-prepare"), records, path);
    let db = open(path);
    db.flush().unwrap();
    db.wait_for_compact(&rocksdb::WaitForCompactOptions::default()).unwrap();
}

/// All counts of a store that is not open.
pub fn rows(path: &Path) -> Vec<(String, u64)> {
    let db = open(path);
    let rows = db.iterator(IteratorMode::From(&[POSITION + 1], Direction::Forward)).map(Result::unwrap);
    rows.map(|(key, value)| (String::from_utf8(key.into_vec()).unwrap(), number(&value))).collect()
}
