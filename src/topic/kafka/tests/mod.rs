//! Tests on a real broker, which `KAFKA_BOOTSTRAP` names; without it they say so and pass.

mod outages;
mod reading;
mod rebalances;
mod writing;

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::KafkaBackend;
use crate::conf::Conf;
use crate::error::Result;
use crate::flow::Position;
use crate::message::{Headers, Record};
use crate::topic::driver::{
    Ack, Assignment, Backend, Driver, EVENTS_MAX, Event, Feed, Membership, OutOfRange, Outgoing, Receipt, Refused,
    Start, Subscription, Wanted, Writer,
};

/// Far above what anything here takes, so that a hang fails and a slow machine does not.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// The servers to test with; says so when there are none.
pub(super) fn servers() -> Option<String> {
    let servers = std::env::var("KAFKA_BOOTSTRAP").ok().filter(|servers| !servers.is_empty());
    if servers.is_none() {
        eprintln!("not run: KAFKA_BOOTSTRAP names no broker");
    }
    servers
}

/// A name that no other test and no earlier run uses.
pub(super) fn unique(what: &str) -> Arc<str> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Arc::from(format!("{what}-{}-{}-{count}", now.as_micros(), std::process::id()))
}

pub(super) fn backend(settings: &[(&str, &str)]) -> Option<Arc<KafkaBackend>> {
    Some(backend_at(&servers()?, settings))
}

pub(super) fn backend_at(servers: &str, settings: &[(&str, &str)]) -> Arc<KafkaBackend> {
    #[cfg(feature = "log")]
    crate::log::init();
    let conf = Conf::isolated().with("bootstrap.servers", servers).with("app.id", "kafka-tests");
    let conf = settings.iter().fold(conf, |conf, (key, value)| conf.with(*key, *value));
    KafkaBackend::new(&conf.settings().unwrap()).unwrap()
}

pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let timed = tokio::time::timeout(PATIENCE, future).await;
    timed.unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"))
}

pub(super) async fn topic(backend: &KafkaBackend, partitions: u32) -> Arc<str> {
    let topic = unique("t");
    backend.manage().unwrap().create(Arc::clone(&topic), partitions).await.unwrap();
    let writer = backend.writer().unwrap();
    soon("the new topic", async { while writer.prepare(Arc::clone(&topic), None).await.is_err() {} }).await;
    topic
}

pub(super) fn wanted(topic: &Arc<str>) -> Wanted {
    Wanted {
        name: Arc::clone(topic),
        start: Start::Earliest,
        out_of_range: OutOfRange::Stop,
        partitions: None,
        folded: None,
    }
}

pub(super) fn in_group(topics: Vec<Wanted>, group: &Arc<str>) -> Subscription {
    let group = Membership::Group(Arc::clone(group));
    Subscription { topics, group, revoke_timeout: Duration::from_secs(10) }
}

pub(super) fn record(topic: &Arc<str>, partition: i32, value: impl Into<Bytes>) -> Outgoing {
    Outgoing {
        topic: Arc::clone(topic),
        partition: Some(partition),
        key: None,
        value: Some(value.into()),
        headers: Headers::new(),
        timestamp: None,
    }
}

/// Writes a record and gives the future of its receipt.
pub(super) async fn write(writer: &Arc<dyn Writer>, mut record: Outgoing) -> BoxFuture<'static, Result<Receipt>> {
    let (reply, receipt) = oneshot::channel();
    let mut ack = Ack::Reply(reply);
    loop {
        let since = match writer.write(record, ack) {
            Ok(()) => break,
            Err(Refused::Full(back, same, since)) => {
                (record, ack) = (back, same);
                since
            }
            Err(Refused::Failed(error, _)) => return Box::pin(std::future::ready(Err(error))),
        };
        soon("room", poll_fn(|cx| writer.poll_room(since, cx))).await;
    }
    Box::pin(async move { receipt.await.unwrap() })
}

/// Writes `values` to a partition and waits for the broker to have them.
pub(super) async fn fill(backend: &KafkaBackend, topic: &Arc<str>, partition: i32, values: std::ops::Range<i64>) {
    let writer = backend.writer().unwrap();
    let mut receipts = Vec::new();
    for value in values {
        receipts.push(write(&writer, record(topic, partition, value.to_string())).await);
    }
    for receipt in receipts {
        soon("a receipt", receipt).await.unwrap();
    }
}

/// A member that answers like an app.
pub(super) struct Member {
    pub driver: Arc<dyn Driver>,
    pub events: mpsc::Receiver<Event>,
    pub feeds: HashMap<i32, Assignment>,
}

impl Member {
    pub(super) fn join(backend: &KafkaBackend, subscription: Subscription) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let driver = backend.subscribe(subscription, sender).unwrap();
        Self { driver, events, feeds: HashMap::new() }
    }

    pub(super) async fn event(&mut self) -> Event {
        soon("an event", self.events.recv()).await.expect("the driver goes on")
    }

    /// Takes events until `count` partitions are ours.
    pub(super) async fn assigned(&mut self, count: usize) {
        while self.feeds.len() < count {
            match self.event().await {
                Event::Assigned(new) => self.feeds.extend(new.into_iter().map(|new| (new.feed.partition, new))),
                Event::Revoked { partitions, answer, .. } => {
                    self.feeds.retain(|own, _| !partitions.iter().any(|(_, gone)| gone == own));
                    answer.send(Vec::new()).unwrap();
                }
                Event::Notice { .. } => {}
                Event::Failed(error) => panic!("{error:?}"),
            }
        }
    }

    pub(super) async fn read(&self, partition: i32, count: usize) -> Vec<Record> {
        read(&self.feeds[&partition].feed, count).await
    }

    pub(super) async fn close(self) {
        self.driver.close().await.unwrap();
    }
}

pub(super) async fn read(feed: &Arc<Feed>, count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut batch = VecDeque::new();
    while records.len() < count {
        let open = soon("a record", poll_fn(|cx| feed.queue.poll_take(&mut batch, cx))).await;
        assert!(open, "the feed ended after {} records", records.len());
        records.extend(batch.drain(..));
    }
    records
}

pub(super) fn position(topic: &Arc<str>, partition: i32, next: i64) -> Position {
    Position { topic: Arc::clone(topic), partition, next, needed: next, note: None }
}

pub(super) fn offsets(records: &[Record]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}
