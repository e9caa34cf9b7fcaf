//! Kafka → JSON handler → Kafka, against a bare librdkafka loop that does the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use slipstream::prelude::*;
use slipstream::testing::block_on;

use crate::payments::{self, Payment, double, payment};
use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled};

pub const PARTITIONS: i32 = 4;

pub fn bootstrap() -> String {
    std::env::var("KAFKA_BOOTSTRAP").expect("KAFKA_BOOTSTRAP names the broker; `make bench` starts one")
}

pub fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap());
    config
}

pub fn create(topic: &str) {
    let admin: AdminClient<DefaultClientContext> = client().create().unwrap();
    let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    block_on(admin.create_topics([&new], &AdminOptions::new())).unwrap().into_iter().for_each(|result| {
        result.unwrap();
    });
}

/// Fills a topic with `count` records that `make` gives.
pub fn fill(topic: &str, count: u64, make: impl Fn(u64) -> (String, Vec<u8>)) {
    create(topic);
    append(topic, count, make);
}

/// Adds records to a topic as [`fill`] does.
pub fn append(topic: &str, count: u64, make: impl Fn(u64) -> (String, Vec<u8>)) {
    let producer: ThreadedProducer<rdkafka::producer::DefaultProducerContext> =
        client().set("linger.ms", "50").set("queue.buffering.max.messages", "1000000").create().unwrap();
    for id in 0..count {
        let (key, value) = make(id);
        let mut record = BaseRecord::to(topic).key(&key).payload(&value);
        while let Err((error, back)) = producer.send(record) {
            assert_eq!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
            std::thread::yield_now();
            record = back;
        }
    }
    producer.flush(Duration::from_mins(2)).unwrap();
}

pub fn pass() -> Row {
    let count = scaled(1_000_000);
    let input = unique("bench-in");
    fill(&input, count, |id| {
        let payment = payment(id);
        let bytes = serde_json::to_vec(&payment).unwrap();
        (payment.user, bytes)
    });
    compare("kafka-pass", 0.9, count, || ours(&input, count), || floor(&input, count))
}

fn ours(input: &str, count: u64) -> Duration {
    let (output, group) = (unique("bench-out"), unique("bench"));
    create(&output);
    two_workers().block_on(async {
        let payments: Topic<Payment> = Topic::named(input);
        let doubled: Topic<Payment> = Topic::named(output);
        let conf = Conf::isolated()
            .with("broker", format!("kafka://{}", bootstrap()))
            .with("app.id", group.as_str())
            .with("commit.interval", "1s");
        let run = App::new().handle(payments, double, doubled).conf(conf).run();
        // Until everything is acknowledged, as the floor's flush; what is committed is checked below.
        let (time, closed) = payments::pass(run, input, count).await;
        assert_eq!(committed(&group, input), i64::try_from(count).unwrap());
        if std::env::var_os("BENCH_VERBOSE").is_some() {
            println!("kafka-pass: {time:?} until acknowledged, {closed:?} until closed");
        }
        time
    })
}

/// The sum of what a group has committed.
pub fn committed(group: &str, topic: &str) -> i64 {
    let consumer: BaseConsumer = client().set("group.id", group).create().unwrap();
    let mut asked = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        asked.add_partition(topic, partition);
    }
    let offsets = consumer.committed_offsets(asked, Duration::from_secs(10)).unwrap();
    offsets.elements().iter().filter_map(|element| element.offset().to_raw()).filter(|offset| *offset > 0).sum()
}

/// Counts deliveries and keeps, per partition of the input, which offsets are done.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<BTreeMap<i32, Contiguous>>>);

#[derive(Default)]
struct Contiguous {
    next: i64,
    ahead: std::collections::BTreeSet<i64>,
}

impl Contiguous {
    fn done(&mut self, offset: i64) {
        if offset != self.next {
            self.ahead.insert(offset);
            return;
        }
        self.next += 1;
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, place: usize) {
        assert!(result.is_ok());
        #[expect(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "packed below")]
        let (partition, offset) = ((place >> 48) as i32, (place & 0xFFFF_FFFF_FFFF) as i64);
        self.0.lock().unwrap().entry(partition).or_default().done(offset);
    }
}

fn floor(input: &str, count: u64) -> Duration {
    let output = unique("bench-floor");
    create(&output);
    let consumer: BaseConsumer = client()
        .set("group.id", unique("floor"))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("fetch.queue.backoff.ms", "10")
        .create()
        .unwrap();
    let deliveries = Deliveries::default();
    let producer: ThreadedProducer<Deliveries> = client()
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", "5")
        .create_with_context(deliveries.clone())
        .unwrap();
    consumer.subscribe(&[input]).unwrap();
    let (mut handled, mut began, mut committed) = (0, None, Instant::now());
    while handled < count {
        let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
        let record = record.unwrap();
        began.get_or_insert_with(Instant::now);
        let mut value: Payment = serde_json::from_slice(record.payload().unwrap()).unwrap();
        value.amount *= 2;
        let bytes = serde_json::to_vec(&value).unwrap();
        #[expect(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "offsets and partitions are not negative"
        )]
        let place = (record.partition() as usize) << 48 | record.offset() as usize;
        let mut out = BaseRecord::with_opaque_to(&output, place).key(record.key().unwrap()).payload(&bytes);
        while let Err((_, back)) = producer.send(out) {
            std::thread::yield_now();
            out = back;
        }
        handled += 1;
        if committed.elapsed() > Duration::from_secs(1) {
            commit(&consumer, input, &deliveries, CommitMode::Async);
            committed = Instant::now();
        }
    }
    producer.flush(Duration::from_mins(1)).unwrap();
    commit(&consumer, input, &deliveries, CommitMode::Sync);
    began.unwrap().elapsed()
}

fn commit(consumer: &BaseConsumer, topic: &str, deliveries: &Deliveries, mode: CommitMode) {
    let mut offsets = TopicPartitionList::new();
    for (partition, done) in &*deliveries.0.lock().unwrap() {
        offsets.add_partition_offset(topic, *partition, Offset::Offset(done.next)).unwrap();
    }
    consumer.commit(&offsets, mode).unwrap();
}
