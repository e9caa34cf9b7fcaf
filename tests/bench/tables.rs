//! Counting by key, exactly: against a bare librdkafka loop with a map in front of RocksDB, which stores rows and positions
//! in one batch per 10,000 records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message as _;
use rocksdb::{DB, Options, WriteBatch};
use serde::{Deserialize, Serialize};
use slipstream::prelude::*;
use slipstream::testing::until;

use crate::kafka::{bootstrap, fill, unique};
use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled};

const BATCH_RECORDS: u64 = 10_000;
const KEYS: u64 = 10_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Payment {
    id: u64,
    user: String,
    amount: u64,
    note: String,
}

fn payment(id: u64) -> (String, Vec<u8>) {
    let user = format!("u-{}", (id * 7919) % KEYS);
    let value = Payment { id, user: user.clone(), amount: id % 1000, note: "x".repeat(40) };
    (user, serde_json::to_vec(&value).unwrap())
}

pub fn count() -> Row {
    let count = scaled(1_000_000);
    let input = unique("bench-count");
    fill(&input, count, payment);
    compare("kafka-count", 0.8, count, || ours(&input, count), || floor(&input, count))
}

fn ours(input: &str, count: u64) -> Duration {
    let state = tempfile::tempdir().unwrap();
    two_workers().block_on(async {
        let payments: Topic<Payment> = Topic::named(input);
        let counts: Table<String, u64> = Table::named("counts");
        let conf = Conf::isolated()
            .with("broker", format!("kafka://{}", bootstrap()))
            .with("app.id", unique("bench"))
            .with("state.dir", state.path().display().to_string());
        let tally = |message: Message<Payment>, counts: &mut Rows<String, u64>| {
            counts.update(message.key()?, |n| n.unwrap_or(0) + 1)
        };
        let run = App::new().handle(payments, tally, ()).name("tally").table(&counts).conf(conf).run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        until(|| handle.stats().handled(input) > 0).await;
        let began = Instant::now();
        let all = i64::try_from(count).unwrap();
        until(|| counts.stats().is_ok_and(|stats| stats.stored() == all)).await;
        let time = began.elapsed();
        let sum: u64 = counts.items().iter().map(|row| row.unwrap().1).sum();
        assert_eq!(sum, count, "each record once");
        handle.trigger();
        task.await.unwrap().unwrap();
        time
    })
}

fn client(group: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("fetch.queue.backoff.ms", "10")
        .create()
        .unwrap()
}

fn open(path: &Path) -> DB {
    let mut options = Options::default();
    options.create_if_missing(true);
    DB::open(&options, path).unwrap()
}

fn floor(input: &str, count: u64) -> Duration {
    let state = tempfile::tempdir().unwrap();
    let db = open(state.path());
    let consumer = client(&unique("floor"));
    consumer.subscribe(&[input]).unwrap();
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut changed: HashSet<String> = HashSet::new();
    let mut positions: BTreeMap<i32, i64> = BTreeMap::new();
    let (mut handled, mut began) = (0, None);
    while handled < count {
        let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
        let record = record.unwrap();
        began.get_or_insert_with(Instant::now);
        let _: Payment = serde_json::from_slice(record.payload().unwrap()).unwrap();
        let key = std::str::from_utf8(record.key().unwrap()).unwrap();
        match counts.get_mut(key) {
            Some(n) => *n += 1,
            None => drop(counts.insert(key.to_owned(), 1)),
        }
        if !changed.contains(key) {
            changed.insert(key.to_owned());
        }
        positions.insert(record.partition(), record.offset() + 1);
        handled += 1;
        if handled % BATCH_RECORDS == 0 || handled == count {
            let mut batch = WriteBatch::default();
            for key in changed.drain() {
                batch.put(key.as_bytes(), counts[&key].to_be_bytes());
            }
            for (partition, next) in &positions {
                batch.put(partition.to_be_bytes(), next.to_be_bytes());
            }
            db.write(batch).unwrap();
        }
    }
    began.unwrap().elapsed()
}
