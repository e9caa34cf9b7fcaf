//! Writing many records: they are collected into batches.

mod accumulator;
mod batch;
mod task;

use std::future::IntoFuture;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::check_name;
use super::{Client, ClientError, Fate, Topic};
use crate::booblik::wire::{Acks, MAX_FRAME_BYTES, MAX_RECORD_BYTES, produce_frame_bytes};
use accumulator::{Accumulator, Item, Limits};
use batch::Cell;

/// What a record takes beside its bytes.
const RECORD_COST_BYTES: usize = 64;

/// The settings of a [`Producer`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ProducerBuilder {
    client: Client,
    acks: Acks,
    limits: Limits,
    max_in_flight: usize,
    buffer_bytes: usize,
}

impl ProducerBuilder {
    pub(super) fn new(client: Client) -> Self {
        let limits = Limits { max_records: 100, max_bytes: 1 << 20, linger: Duration::from_millis(5) };
        Self { client, acks: Acks::default(), limits, max_in_flight: 16, buffer_bytes: 32 << 20 }
    }

    /// When a record counts as delivered: [`Acks::Written`] unless set.
    pub fn acks(mut self, acks: Acks) -> Self {
        self.acks = acks;
        self
    }

    /// How long records wait for others, from the first one on: 5 ms unless set, at most a minute.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.limits.linger = linger;
        self
    }

    /// The records of a full batch, at least 1: 100 unless set.
    pub fn max_batch_records(mut self, records: usize) -> Self {
        self.limits.max_records = records;
        self
    }

    /// The bytes of a full batch as it is sent, 1 to 8,388,608: 1 MiB unless set. A record that is larger goes alone.
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.limits.max_bytes = bytes;
        self
    }

    /// The batches that may be on their way, at least 1: 16 unless set. Those of a partition stay in order.
    pub fn max_in_flight(mut self, batches: usize) -> Self {
        self.max_in_flight = batches;
        self
    }

    /// The bytes of records that are not answered yet, 64 more for each, 1 KiB to 1 GiB: 32 MiB unless set. Where there is
    /// no more room, [`Producer::send`] waits.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// The producer, with a connection of its own that the first batch makes.
    ///
    /// # Errors
    ///
    /// [`ClientError::Setting`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: it starts a task.
    pub fn build(self) -> Result<Producer, ClientError> {
        self.check()?;
        let room = Arc::new(Semaphore::new(self.buffer_bytes));
        let shared = Arc::new(Shared {
            accumulator: Mutex::new(Accumulator::new(self.limits, Arc::clone(&room))),
            room,
            buffer_bytes: self.buffer_bytes,
            news: Notify::new(),
            finished: CancellationToken::new(),
            acks: self.acks,
            max_in_flight: self.max_in_flight,
            timeout: self.client.request_timeout(),
            broker: self.client.address().to_string().into(),
        });
        tokio::spawn(task::run(Arc::clone(&shared), self.client.own_link()));
        Ok(Producer { shared })
    }

    fn check(&self) -> Result<(), ClientError> {
        if self.limits.max_records == 0 || self.max_in_flight == 0 {
            return Err(ClientError::Setting("max_batch_records and max_in_flight must be at least 1"));
        }
        if !(1..=MAX_FRAME_BYTES).contains(&self.limits.max_bytes) {
            return Err(ClientError::Setting("max_batch_bytes must be 1 to 8388608"));
        }
        if !(1 << 10..=1 << 30).contains(&self.buffer_bytes) {
            return Err(ClientError::Setting("buffer_bytes must be 1 KiB to 1 GiB"));
        }
        if self.limits.linger > Duration::from_mins(1) {
            return Err(ClientError::Setting("linger must be at most a minute"));
        }
        Ok(())
    }
}

/// Collects records into batches and sends those, several at a time.
///
/// A record is sent when its batch is full, or [`linger`](ProducerBuilder::linger) after the first of those that wait.
/// Awaiting each delivery before the next record is sent makes that a pause per record: keep the deliveries, or do
/// not look at them.
///
/// Nothing is sent twice. When a connection ends, what was on its way fails, [perhaps](ClientError::is_ambiguous) after it
/// was stored. A batch fails when its answer has not come within the client's request timeout.
///
/// A producer that is dropped sends what it has, without anyone waiting for it; [`close`](Self::close) waits.
///
/// ```
/// # use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
/// use slipstream::booblik::client::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// # broker.ensure_topic("numbers", 1).await?;
/// # let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
/// # let address = server.local_addr().to_string();
/// let client = Client::connect(&address).await?;
/// let producer = client.producer().build()?;
/// let mut deliveries = Vec::new();
/// for number in 0..1000 {
///     deliveries.push(producer.send("numbers", 0, number.to_string()).await?);
/// }
/// for (number, delivery) in (0..).zip(deliveries) {
///     assert_eq!(delivery.await?.offset, Some(number));
/// }
/// producer.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    accumulator: Mutex<Accumulator>,
    /// Bytes; closed with the producer.
    room: Arc<Semaphore>,
    buffer_bytes: usize,
    /// There is something to do for the task.
    news: Notify,
    /// The task has ended.
    finished: CancellationToken,
    acks: Acks,
    max_in_flight: usize,
    timeout: Duration,
    /// Its address.
    broker: Arc<str>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Accumulator> {
        self.accumulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> ClientError {
        ClientError::Timeout { broker: Arc::clone(&self.broker), after: self.timeout, fate: Fate::NotSent }
    }

    fn close(&self) {
        self.lock().close(Instant::now());
        self.room.close();
        self.news.notify_one();
    }
}

/// Where a record went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sent {
    /// The partition.
    pub partition: i32,
    /// Its offset there; `None` with [`Acks::None`], when it was only written to the socket.
    pub offset: Option<i64>,
}

/// The outcome of one record, to be awaited, or not: the record is sent in any case.
#[derive(Debug)]
#[must_use = "the record is sent, but whether it arrived is said here only"]
pub struct Delivery {
    outcome: Cell,
    index: usize,
    partition: i32,
}

impl IntoFuture for Delivery {
    type Output = Result<Sent, ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let base = self.outcome.wait().await.clone()?;
            let index = i64::try_from(self.index).unwrap_or(i64::MAX);
            Ok(Sent { partition: self.partition, offset: base.map(|base| base.saturating_add(index)) })
        })
    }
}

/// What became of each of a list of records.
///
/// ```
/// use slipstream::booblik::client::{ClientError, Outcome, Sent};
///
/// let sent = Sent { partition: 0, offset: Some(42) };
/// let outcome = Outcome { results: vec![Ok(sent), Err(ClientError::EmptyRecord)] };
/// assert_eq!(outcome.sent().count(), 1);
/// assert_eq!(outcome.failed().map(|(index, _)| index).collect::<Vec<_>>(), [1]);
/// assert!(outcome.into_result().is_err());
/// ```
#[derive(Debug)]
pub struct Outcome {
    /// In the order of the records.
    pub results: Vec<Result<Sent, ClientError>>,
}

impl Outcome {
    /// The records that were sent, with their place in the list.
    pub fn sent(&self) -> impl Iterator<Item = (usize, Sent)> {
        self.results.iter().enumerate().filter_map(|(index, result)| Some((index, *result.as_ref().ok()?)))
    }

    /// The records that failed, with their place in the list.
    pub fn failed(&self) -> impl Iterator<Item = (usize, &ClientError)> {
        self.results.iter().enumerate().filter_map(|(index, result)| Some((index, result.as_ref().err()?)))
    }

    /// All of them, or the first error.
    ///
    /// # Errors
    ///
    /// That of the first record that failed.
    pub fn into_result(self) -> Result<Vec<Sent>, ClientError> {
        self.results.into_iter().collect()
    }
}

impl Producer {
    /// Takes a record for a partition, and returns where its outcome will be. Waits where there is no room.
    ///
    /// Records of one task for one partition are stored in the order of its calls. Dropped before it returns, it has taken
    /// nothing; a [`Delivery`] that is dropped changes nothing.
    ///
    /// # Errors
    ///
    /// [`ClientError::EmptyRecord`], [`ClientError::RecordTooLarge`] and [`ClientError::TopicName`] for what no broker
    /// takes, so that it cannot fail the others of its batch; [`ClientError::Timeout`] when there was no room for as long
    /// as a request may take; [`ClientError::Closed`].
    pub async fn send(&self, topic: &str, partition: i32, record: impl Into<Bytes>) -> Result<Delivery, ClientError> {
        let record = record.into();
        check(topic, &record)?;
        let room = self.room_for(&record).await?;
        self.push(topic, partition, record, room)
    }

    /// Takes a record for the partition that its key names, or the next in turn.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    pub async fn send_keyed(
        &self,
        topic: &Topic,
        key: Option<&[u8]>,
        record: impl Into<Bytes>,
    ) -> Result<Delivery, ClientError> {
        self.send(topic.name(), topic.partition_for(key), record).await
    }

    /// Takes a record, or says that there is no room.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send), and [`ClientError::Full`].
    pub fn try_send(&self, topic: &str, partition: i32, record: impl Into<Bytes>) -> Result<Delivery, ClientError> {
        let record = record.into();
        check(topic, &record)?;
        let room = self.shared.room.try_acquire_many(self.cost(&record)).map_err(|error| match error {
            TryAcquireError::NoPermits => ClientError::Full,
            TryAcquireError::Closed => ClientError::Closed,
        })?;
        self.push(topic, partition, record, room)
    }

    /// Sends records to a partition and waits for all of them. One that fails does not fail the others.
    pub async fn send_all<R: Into<Bytes>>(
        &self,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = R>,
    ) -> Outcome {
        let mut deliveries = Vec::new();
        for record in records {
            deliveries.push(self.send(topic, partition, record).await);
        }
        let mut results = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            results.push(match delivery {
                Ok(delivery) => delivery.await,
                Err(error) => Err(error),
            });
        }
        Outcome { results }
    }

    /// Sends everything that was taken before it, and returns when all of it is answered. What failed is said by the
    /// deliveries. Dropped before it returns, everything is sent nevertheless.
    pub async fn flush(&self) {
        let unfinished = {
            let mut accumulator = self.shared.lock();
            accumulator.release(Instant::now());
            accumulator.unfinished()
        };
        self.shared.news.notify_one();
        for outcome in unfinished {
            outcome.wait().await;
        }
    }

    /// Takes nothing any more, and returns when everything that was taken is answered and the connection is closed. It can
    /// be called again; dropped before it returns, it is closed nevertheless.
    pub async fn close(&self) {
        self.shared.close();
        self.shared.finished.cancelled().await;
    }

    /// Room for a record. The wait is bounded like a request.
    async fn room_for(&self, record: &Bytes) -> Result<SemaphorePermit<'_>, ClientError> {
        let cost = self.cost(record);
        if let Ok(room) = self.shared.room.try_acquire_many(cost) {
            return Ok(room);
        }
        let waiting = tokio::time::timeout(self.shared.timeout, self.shared.room.acquire_many(cost)).await;
        match waiting {
            Ok(room) => room.map_err(|_| ClientError::Closed),
            Err(_) => Err(self.shared.late()),
        }
    }

    /// A record that is larger than the whole buffer takes all of it.
    fn cost(&self, record: &Bytes) -> u32 {
        let cost = (record.len() + RECORD_COST_BYTES).min(self.shared.buffer_bytes);
        u32::try_from(cost).unwrap_or(u32::MAX)
    }

    fn push(
        &self,
        topic: &str,
        partition: i32,
        record: Bytes,
        room: SemaphorePermit<'_>,
    ) -> Result<Delivery, ClientError> {
        let cost = room.num_permits();
        let mut accumulator = self.shared.lock();
        if accumulator.is_closed() {
            return Err(ClientError::Closed);
        }
        let (outcome, index, is_news) = accumulator.push(Instant::now(), topic, partition, Item { record, cost });
        drop(accumulator);
        // The batch gives it back.
        room.forget();
        if is_news {
            self.shared.news.notify_one();
        }
        Ok(Delivery { outcome, index, partition })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// What a broker, or a reader, would not take.
fn check(topic: &str, record: &Bytes) -> Result<(), ClientError> {
    check_name(topic)?;
    if record.is_empty() {
        return Err(ClientError::EmptyRecord);
    }
    let bytes = record.len();
    if bytes > MAX_RECORD_BYTES || produce_frame_bytes(topic, 1, bytes) > MAX_FRAME_BYTES {
        return Err(ClientError::RecordTooLarge { bytes });
    }
    Ok(())
}
