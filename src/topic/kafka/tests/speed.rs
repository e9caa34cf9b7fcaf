//! How fast the reading thread is, beside a bare loop over the same records. Measured on demand: it takes a while and
//! says nothing on a busy machine.

use std::sync::Arc;
use std::time::Instant;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use super::*;
use crate::flow::Tracker;

const PARTITIONS: i32 = 4;

fn records() -> i64 {
    std::env::var("KAFKA_SPEED_RECORDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000)
}

async fn produce(backend: &KafkaBackend, topic: &Arc<str>) {
    let writer = backend.writer().unwrap();
    let mut tracker = Tracker::new(1 << 20);
    let value = Bytes::from(vec![b'x'; 100]);
    let begun = Instant::now();
    for number in 0..records() {
        let partition = i32::try_from(number % i64::from(PARTITIONS)).unwrap();
        let mut next = Some((record(topic, partition, value.clone()), Ack::Unit(tracker.guard())));
        while let Some((record, ack)) = next.take() {
            match writer.write(record, ack) {
                Ok(()) => {}
                Err(Refused::Full(record, ack)) => {
                    next = Some((record, ack));
                    poll_fn(|cx| writer.poll_room(cx)).await;
                }
                Err(Refused::Failed(error, _)) => panic!("{error:?}"),
            }
        }
        tracker.end_unit();
        assert!(tracker.has_room());
    }
    writer.flush(PATIENCE).await.unwrap();
    tell("write", begun);
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn tell(what: &str, begun: Instant) -> f64 {
    let rate = records() as f64 / begun.elapsed().as_secs_f64();
    eprintln!("{what}: {rate:.0} records/s");
    rate
}

/// A bare consumer of all partitions on one queue.
fn bare_consumer(topic: &str) -> BaseConsumer {
    let settings = Conf::isolated().with("bootstrap.servers", servers().unwrap()).settings().unwrap();
    let consumer: BaseConsumer = super::super::client::client_config(&settings.kafka_consumer()).create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Offset(0)).unwrap();
    }
    consumer.assign(&list).unwrap();
    consumer
}

/// A bare loop: every partition on one queue, each record looked at and let go.
fn bare(topic: &str) -> f64 {
    let consumer = bare_consumer(topic);
    let (mut seen, mut bytes, mut begun) = (0, 0, Instant::now());
    while seen < records() {
        let Some(message) = consumer.poll(PATIENCE) else { continue };
        if seen == 0 {
            begun = Instant::now();
        }
        bytes += i64::try_from(message.unwrap().payload_len()).unwrap();
        seen += 1;
    }
    assert_eq!(bytes, records() * 100);
    tell("bare loop", begun)
}

async fn ours(backend: &KafkaBackend, topic: &Arc<str>) -> f64 {
    let mut member = Member::join(backend, in_group(vec![wanted(topic)], &unique("g")));
    member.assigned(4).await;
    let begun = Instant::now();
    let feeds: Vec<_> = member.feeds.values().map(|new| Arc::clone(&new.feed)).collect();
    let share = records() / i64::from(PARTITIONS);
    let lanes = feeds.into_iter().map(|feed| {
        tokio::spawn(async move {
            let (mut seen, mut batch) = (0, VecDeque::new());
            while seen < share {
                assert!(poll_fn(|cx| feed.queue.poll_take(&mut batch, cx)).await);
                seen += batch.drain(..).map(|record| i64::from(record.value.is_some())).sum::<i64>();
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
    let rate = tell("reading thread", begun);
    member.close().await;
    rate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run it alone, with KAFKA_SPEED_RECORDS if wanted"]
async fn the_reading_thread_keeps_up_with_a_bare_loop() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 4).await;
    produce(&backend, &topic).await;
    let mut best = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        let name = Arc::clone(&topic);
        best.0 = best.0.max(tokio::task::spawn_blocking(move || bare(&name)).await.unwrap());
        best.1 = best.1.max(ours(&backend, &topic).await);
    }
    eprintln!("best of three: {:.2} of the bare loop", best.1 / best.0);
}

/// The same, with each record written to another topic.
fn bare_pass(from: &str, to: &str) -> f64 {
    let settings = Conf::isolated().with("bootstrap.servers", servers().unwrap()).settings().unwrap();
    let producer: ThreadedProducer<DefaultProducerContext> =
        super::super::client::client_config(&settings.kafka_producer()).create().unwrap();
    let consumer = bare_consumer(from);
    let (mut seen, mut begun) = (0, Instant::now());
    while seen < records() {
        let Some(Ok(message)) = consumer.poll(PATIENCE) else { continue };
        if seen == 0 {
            begun = Instant::now();
        }
        seen += 1;
        let mut record = BaseRecord::<'_, [u8], [u8]>::to(to).partition(message.partition());
        record.payload = message.payload();
        while let Err((_, same)) = producer.send(record) {
            record = same;
            std::thread::yield_now();
        }
    }
    producer.flush(PATIENCE).unwrap();
    tell("bare pass", begun)
}

async fn our_pass(backend: &KafkaBackend, from: &Arc<str>, to: &Arc<str>) -> f64 {
    let mut member = Member::join(backend, in_group(vec![wanted(from)], &unique("g")));
    member.assigned(4).await;
    let begun = Instant::now();
    let writer = backend.writer().unwrap();
    let share = records() / i64::from(PARTITIONS);
    let lanes = member.feeds.values().map(|new| {
        let (feed, writer, to) = (Arc::clone(&new.feed), Arc::clone(&writer), Arc::clone(to));
        tokio::spawn(async move {
            let (mut seen, mut batch) = (0, VecDeque::new());
            let mut tracker = Tracker::new(8192);
            while seen < share {
                assert!(poll_fn(|cx| feed.queue.poll_take(&mut batch, cx)).await);
                for read in batch.drain(..) {
                    seen += 1;
                    while !tracker.has_room() {
                        tokio::task::yield_now().await;
                    }
                    let mut next = Some((record(&to, feed.partition, read.value.unwrap()), Ack::Unit(tracker.guard())));
                    while let Some((record, ack)) = next.take() {
                        if let Err(Refused::Full(record, ack)) = writer.write(record, ack) {
                            next = Some((record, ack));
                            poll_fn(|cx| writer.poll_room(cx)).await;
                        }
                    }
                    tracker.end_unit();
                }
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
    writer.flush(PATIENCE).await.unwrap();
    let rate = tell("our pass", begun);
    member.close().await;
    rate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run it alone, with KAFKA_SPEED_RECORDS if wanted"]
async fn passing_records_on_keeps_up_with_a_bare_loop() {
    let Some(backend) = backend(&[]) else { return };
    let (from, to) = (topic(&backend, 4).await, topic(&backend, 4).await);
    produce(&backend, &from).await;
    let mut best = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        let (from_name, to_name) = (Arc::clone(&from), Arc::clone(&to));
        let bare = tokio::task::spawn_blocking(move || bare_pass(&from_name, &to_name)).await.unwrap();
        best = (best.0.max(bare), best.1.max(our_pass(&backend, &from, &to).await));
    }
    eprintln!("best of three: {:.2} of the bare loop", best.1 / best.0);
}
