//! The calls of a client, each of which is one request.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout_at;

use super::connection::{Answer, Ask};
use super::consumer::ConsumerBuilder;
use super::error::{ClientError, Fate, Place, check_name};
use super::link::{Again, Deadline, Dialer, Link};
use super::options::{ClientBuilder, Options, Resend};
use super::producer::ProducerBuilder;
use super::stats::ClientStats;
use super::topic::Topic;
use super::{Address, Ended};
use crate::booblik::wire::{self, Acks, Fetch, Fetched, Produced, TopicInfo};

/// A client of one broker. Clones share its connections, and may be used by many tasks at once.
///
/// See [the module](super) for what it does about lost connections, late answers and dropped calls.
///
/// ```
/// # use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
/// use slipstream::booblik::client::Client;
/// use slipstream::booblik::wire::{Acks, Fetch};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// # broker.ensure_topic("words", 1).await?;
/// # let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
/// # let address = server.local_addr().to_string();
/// let client = Client::connect(&address).await?;
/// let produced = client.produce("words", 0, Acks::Written, &["one", "two"]).await?;
/// assert_eq!(produced.map(|produced| produced.base_offset), Some(0));
///
/// let fetch = Fetch { topic: "words", partition: 0, offset: 1, max_bytes: 1024, max_wait_millis: 0, min_bytes: 0 };
/// assert_eq!(client.fetch(fetch).await?.records.values().next(), Some(&b"two"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    dialer: Arc<Dialer>,
    main: Link,
    /// Connections for fetches that wait, none of which is in use.
    idle: Mutex<Vec<Link>>,
    waiting: Semaphore,
    is_closed: AtomicBool,
}

impl Client {
    /// A client that is connected to `host:port`, or `[address]:port` for IPv6, with the default settings.
    ///
    /// # Errors
    ///
    /// [`ClientError::Address`], and [`ClientError::Connect`] after one attempt.
    pub async fn connect(address: &str) -> Result<Self, ClientError> {
        Self::builder(address).connect().await
    }

    /// The settings of a client of the broker at `address`.
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(address.into())
    }

    pub(super) fn new(address: Address, options: Options) -> Self {
        let waiting = Semaphore::new(options.max_waiting);
        let dialer = Arc::new(Dialer { address, options, counters: Arc::default(), away: watch::Sender::default() });
        let main = Link::new(Arc::clone(&dialer));
        let inner = Inner { dialer, main, idle: Mutex::default(), waiting, is_closed: AtomicBool::new(false) };
        Self { inner: Arc::new(inner) }
    }

    pub(super) async fn dial(&self) -> Result<(), ClientError> {
        self.inner.main.dial().await.map(drop)
    }

    /// Why the broker cannot be reached, as soon as an attempt to connect has failed and until one succeeds.
    pub(crate) fn away(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.inner.dialer.away.subscribe()
    }

    /// The address of the broker.
    pub fn address(&self) -> &Address {
        &self.inner.dialer.address
    }

    /// Topics with these names, by name; all topics for an empty list.
    ///
    /// # Errors
    ///
    /// [`UnknownTopicOrPartition`](wire::ErrorCode::UnknownTopicOrPartition) when any of them does not exist, and what any
    /// call may fail with.
    pub async fn metadata<N: AsRef<str> + Sync>(&self, topics: &[N]) -> Result<Vec<TopicInfo>, ClientError> {
        self.check_open()?;
        topics.iter().try_for_each(|topic| check_name(topic.as_ref()))?;
        let names_bytes = topics.iter().map(|topic| topic.as_ref().len() + 2).sum::<usize>();
        let encode = |out: &mut _, id| wire::encode_metadata(out, id, topics);
        let ask = Ask { encode: &encode, frame_bytes: 16 + names_bytes, answer: Answer::Due };
        let called = self.inner.main.call(&ask, Again::Always, self.deadline()).await;
        let body = called.map_err(|error| match topics {
            [topic] => placed(error, topic.as_ref(), None),
            _ => error,
        })?;
        wire::decode_described(&body).map_err(|error| self.unreadable(error))
    }

    /// All topics, by name.
    ///
    /// # Errors
    ///
    /// What any call may fail with.
    pub async fn topics(&self) -> Result<Vec<TopicInfo>, ClientError> {
        self.metadata::<&str>(&[]).await
    }

    /// A handle that sends records to the partition that their key names. Its list of partitions is that of now.
    ///
    /// # Errors
    ///
    /// [`UnknownTopicOrPartition`](wire::ErrorCode::UnknownTopicOrPartition), [`ClientError::NoPartitions`], and what any
    /// call may fail with.
    pub async fn topic(&self, name: &str) -> Result<Topic, ClientError> {
        let described = self.metadata(&[name]).await?;
        let own = described.into_iter().find(|topic| topic.name == name);
        let partitions = own.into_iter().flat_map(|topic| topic.partitions).map(|partition| partition.partition);
        Topic::new(self.clone(), name.into(), partitions.collect())
    }

    /// Appends records to a partition with one request: without a gap between them, but not all or nothing. `None` for
    /// [`Acks::None`], which returns when the request is written to the socket.
    ///
    /// What is empty or too large is left to the broker to refuse; a [`Producer`](super::Producer) refuses it alone.
    ///
    /// # Errors
    ///
    /// [`ClientError::TopicName`], [`ClientError::Refused`], or what any call may fail with. After an [ambiguous](ClientError::is_ambiguous) one the
    /// records may be stored.
    pub async fn produce<R: AsRef<[u8]> + Sync>(
        &self,
        topic: &str,
        partition: i32,
        acks: Acks,
        records: &[R],
    ) -> Result<Option<Produced>, ClientError> {
        self.check_open()?;
        check_name(topic)?;
        let payload_bytes = records.iter().map(|record| record.as_ref().len()).sum();
        let encode = |out: &mut _, id| wire::encode_produce(out, id, topic, partition, acks, records);
        let frame_bytes = wire::produce_frame_bytes(topic, records.len(), payload_bytes);
        let ask = Ask { encode: &encode, frame_bytes, answer: answer_of(acks) };
        let called = self.inner.main.call(&ask, self.again(), self.deadline()).await;
        let body = called.map_err(|error| placed(error, topic, Some(partition)))?;
        match acks {
            Acks::None => Ok(None),
            _ => wire::decode_produced(&body).map(Some).map_err(|error| self.unreadable(error)),
        }
    }

    /// Reads from a partition with one request. Every checksum is checked; the good records before a damaged or cut one
    /// are given out, and [`Fetched::ending`] says what came after them.
    ///
    /// A fetch that waits takes a connection of its own, and its wait (of at most 60 s) is added to the deadline. The
    /// connection is closed when the call is dropped, so that the broker holds nothing any more.
    ///
    /// # Errors
    ///
    /// [`OffsetOutOfRange`](wire::ErrorCode::OffsetOutOfRange) and others as [`ClientError::Refused`], or what any call may
    /// fail with.
    pub async fn fetch(&self, fetch: Fetch<'_>) -> Result<Fetched, ClientError> {
        self.check_open()?;
        check_name(fetch.topic)?;
        if i32::try_from(fetch.max_bytes).is_err() {
            return Err(ClientError::Setting("max_bytes must be 1 to 2147483647"));
        }
        let deadline = Deadline::after(self.request_timeout() + fetch.wait());
        if fetch.max_wait_millis == 0 {
            return fetch_by(&self.inner.main, fetch, deadline).await;
        }
        let waiting = timeout_at(deadline.at, self.inner.waiting.acquire()).await;
        let Ok(permit) = waiting else {
            return Err(deadline.passed(self.address(), Fate::NotSent));
        };
        let _permit = permit.map_err(|_| ClientError::Closed)?;
        let link = self.idle_link();
        let fetched = fetch_by(&link, fetch, deadline).await;
        if self.check_open().is_ok() {
            self.lock_idle().push(link);
        }
        fetched
    }

    /// A consumer of one partition.
    pub fn consumer(&self, topic: impl Into<Arc<str>>, partition: i32) -> ConsumerBuilder {
        ConsumerBuilder::new(self.clone(), topic.into(), partition)
    }

    /// A producer that collects records into batches.
    pub fn producer(&self) -> ProducerBuilder {
        ProducerBuilder::new(self.clone())
    }

    /// What was counted so far.
    pub fn stats(&self) -> ClientStats {
        self.inner.dialer.counters.snapshot()
    }

    /// Closes the connections of all clones; what is in flight on them fails, and every later call too. Producers and
    /// consumers have their own and are closed by themselves.
    pub fn close(&self) {
        self.inner.is_closed.store(true, Relaxed);
        self.inner.waiting.close();
        self.inner.main.hang_up();
        self.lock_idle().clear();
    }

    pub(super) fn check_open(&self) -> Result<(), ClientError> {
        if self.inner.is_closed.load(Relaxed) { Err(ClientError::Closed) } else { Ok(()) }
    }

    /// A link beside the shared ones.
    pub(super) fn own_link(&self) -> Link {
        Link::new(Arc::clone(&self.inner.dialer))
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.inner.dialer.options.request_timeout
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.request_timeout())
    }

    fn again(&self) -> Again {
        match self.inner.dialer.options.resend {
            Resend::Always => Again::Always,
            Resend::Unsent => Again::Unsent,
        }
    }

    fn idle_link(&self) -> Link {
        let idle = self.lock_idle().pop();
        idle.unwrap_or_else(|| self.own_link())
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer without sense: nothing that comes after it on the connection can be trusted.
    fn unreadable(&self, error: wire::WireError) -> ClientError {
        self.inner.main.end(&Ended::Malformed(error));
        ClientError::Answer(error)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.inner.dialer.address).finish_non_exhaustive()
    }
}

/// One fetch over a link, decoded.
async fn fetch_by(link: &Link, fetch: Fetch<'_>, deadline: Deadline) -> Result<Fetched, ClientError> {
    let encode = |out: &mut _, id| wire::encode_fetch(out, id, &fetch);
    let ask = Ask { encode: &encode, frame_bytes: fetch_frame_bytes(&fetch), answer: Answer::Due };
    let called = link.call(&ask, Again::Always, deadline).await;
    let body = called.map_err(|error| placed(error, fetch.topic, Some(fetch.partition)))?;
    read_fetched(link, &body, fetch.offset)
}

/// Reads an answer; one without sense ends its connection.
pub(super) fn read_fetched(link: &Link, body: &Bytes, offset: i64) -> Result<Fetched, ClientError> {
    let fetched = wire::decode_fetched(body, offset);
    fetched.map_err(|error| {
        link.end(&Ended::Malformed(error));
        ClientError::Answer(error)
    })
}

pub(super) fn fetch_frame_bytes(fetch: &Fetch<'_>) -> usize {
    38 + fetch.topic.len()
}

pub(super) fn answer_of(acks: Acks) -> Answer {
    if acks == Acks::None { Answer::None } else { Answer::Due }
}

/// Adds to a refusal what it is about.
pub(super) fn placed(error: ClientError, topic: &str, partition: Option<i32>) -> ClientError {
    match error {
        ClientError::Refused { code, place: None } => {
            ClientError::Refused { code, place: Some(Place { topic: topic.into(), partition }) }
        }
        other => other,
    }
}
