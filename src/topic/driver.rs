//! What a backend (Kafka, memory) does for topics: it hands over partitions and their records, writes records, and
//! keeps positions. Everything else (lanes, acknowledgement, commits, pausing) is above and the same for all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use tokio::sync::{mpsc, oneshot};

use crate::conf::TopicSettings;
use crate::error::{Error, Kind, Result};
use crate::flow::durable::Durable;
use crate::flow::fold::{FoldHome, LogEnds, SourceFold};
use crate::flow::{Guard, Position, Queue};
use crate::message::{Headers, Record};

/// Records that may wait between a backend and a lane, per partition.
pub(crate) const FEED_MAX_RECORDS: usize = 4096;
/// Bytes that may wait between a backend and a lane, per partition; one larger record passes alone.
pub(crate) const FEED_MAX_BYTES: usize = 4 * 1024 * 1024;

/// One partition's records on their way from the backend to its lane. A feed belongs to one assignment: a seek or a
/// rebalance makes a new one, and what is left in the old one is dropped with it.
pub(crate) struct Feed {
    /// The name, in a copy of this feed's own: each message counts a reference to it, and lanes on several cores would
    /// otherwise share that counter.
    pub topic: Arc<str>,
    pub partition: i32,
    pub queue: Queue<Record>,
}

impl Feed {
    pub(crate) fn new(topic: &str, partition: i32) -> Arc<Self> {
        Arc::new(Self { topic: topic.into(), partition, queue: Queue::new(FEED_MAX_RECORDS, FEED_MAX_BYTES) })
    }
}

/// A partition that is ours from now on.
pub(crate) struct Assignment {
    pub feed: Arc<Feed>,
    /// The first offset that the feed will carry (or the next one that exists after it).
    pub from: i64,
    /// What the group has committed, if anything: `None` when `from` came from the topic's `start`.
    pub committed: Option<i64>,
    /// What was committed with it.
    pub note: Option<Arc<str>>,
}

/// What a backend tells the app. The app answers quickly: it never does slow work while it holds one.
pub(crate) enum Event {
    /// These are ours from now on.
    Assigned(Vec<Assignment>),
    /// These are to be given up. The backend waits for the answer, for at most the revoke timeout, and then commits the
    /// positions in it before it lets go.
    Revoked {
        partitions: Vec<(Arc<str>, i32)>,
        /// Someone else may own them already: nothing is drained, the answer is empty.
        lost: bool,
        answer: oneshot::Sender<Vec<Position>>,
    },
    /// What the backend waits for, or what is wrong with it; `None`: all is well again. Without a topic: the broker.
    #[cfg_attr(
        not(any(feature = "booblik", feature = "kafka")),
        expect(dead_code, reason = "memory always has what is asked of it")
    )]
    Notice { topic: Option<Arc<str>>, text: Option<String> },
    /// It cannot go on.
    Failed(Error),
}

/// Events that may wait for the app.
pub(crate) const EVENTS_MAX: usize = 64;
/// The way of events to the app.
pub(crate) type EventSender = mpsc::Sender<Event>;

/// Where reading begins where a group has no position.
///
/// ```
/// use slipstream::Topic;
/// use slipstream::topic::{OutOfRange, Start};
///
/// static NEWS: Topic<String> = Topic::new("news").start(Start::Latest).out_of_range(OutOfRange::Latest);
/// # assert_eq!(NEWS.name(), "news");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum Start {
    /// The oldest record that the log has.
    #[default]
    Earliest,
    /// Records written from now on.
    Latest,
}

/// What to do when the log no longer has (or does not yet have) a group's position. Applied once, and logged as an
/// error with the number of records concerned.
///
/// Where a booblik log has lost records in its middle, to damage that its broker was told to live with, `Earliest` and
/// `Latest` both go on with the first record behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OutOfRange {
    /// The run ends with [`Kind::OutOfRange`](crate::Kind::OutOfRange).
    #[default]
    Stop,
    /// Goes on at the oldest record.
    Earliest,
    /// Goes on at the newest.
    Latest,
}

/// Where to seek to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTo {
    /// The oldest record of each partition.
    Beginning,
    /// Behind the newest record of each partition.
    End,
    /// This offset, in each partition.
    Offset(i64),
    /// The first record whose timestamp is not before this, in milliseconds since 1970-01-01 UTC and not negative; the
    /// end where there is none.
    Time(i64),
}

/// Tables that decide where a topic's partitions begin.
#[derive(Clone)]
pub(crate) struct Folded(pub Arc<dyn SourceFold>);

impl std::fmt::Debug for Folded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Folded")
    }
}

/// One topic of a subscription.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// As the broker knows it.
    pub name: Arc<str>,
    pub start: Start,
    pub out_of_range: OutOfRange,
    /// Creates it with this many partitions when it is missing.
    pub partitions: Option<u32>,
    /// Its records are folded into tables: these say where it begins, and it may miss none.
    pub folded: Option<Folded>,
}

impl Wanted {
    /// Where a partition begins whose records are folded into tables, at an assignment; `None` for any other.
    pub(crate) fn folded_from(&self, partition: i32, position: Option<i64>, ends: LogEnds) -> Option<i64> {
        let Folded(fold) = self.folded.as_ref()?;
        Some(fold.from(partition, position, ends))
    }
}

/// What an app reads from a broker.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub topics: Vec<Wanted>,
    pub group: Membership,
    /// How long the answer to [`Event::Revoked`] may take.
    pub revoke_timeout: Duration,
}

/// How partitions are shared and where positions are kept.
#[derive(Debug, Clone)]
pub(crate) enum Membership {
    /// Shared by all members of the group; the broker keeps the positions.
    Group(Arc<str>),
    /// Every member reads everything, from these positions (`start` elsewhere); the app keeps them itself.
    Everything(Vec<Kept>),
}

/// A position that the app keeps itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub topic: Arc<str>,
    pub partition: i32,
    pub next: i64,
    /// The CRC-32C of the record before it, as its log had it: by that a log that was replaced is noticed.
    pub crc: Option<u32>,
    /// As in [`Position`].
    pub note: Option<Arc<str>>,
}

impl From<Position> for Kept {
    fn from(Position { topic, partition, next, note, .. }: Position) -> Self {
        Self { topic, partition, next, crc: None, note }
    }
}

/// Where an app keeps positions of a broker itself.
pub(crate) enum Home {
    /// In a file that is named after this.
    #[cfg_attr(
        not(any(feature = "booblik", feature = "kafka")),
        expect(dead_code, reason = "what memory holds does not outlive it")
    )]
    Named(String),
    /// With the broker, which does not outlive the process.
    Here(Arc<KeptHere>),
}

/// Positions of apps, by their directories.
pub(crate) type KeptHere = Mutex<BTreeMap<PathBuf, Vec<Kept>>>;

/// The broker has taken the partition away, and the event that says so is on its way.
pub(crate) fn not_ours(place: impl Into<String>) -> Error {
    Error::new(Kind::Seek, "the partition is not ours").at(place).retryable()
}

pub(crate) fn is_not_ours(error: &Error) -> bool {
    error.kind() == Kind::Seek && error.is_retryable()
}

/// One app's reading connection to a broker.
pub(crate) trait Driver: Send + Sync + 'static {
    /// Commits positions of partitions that are ours. One for a partition that was lost meanwhile is dropped, which is
    /// no error. Not called for [`Membership::Everything`].
    fn commit(&self, positions: Vec<Position>) -> BoxFuture<'static, Result<()>>;

    /// Makes positions that the app keeps itself ready to be stored: what is before them is durable, and known by its
    /// checksum where the backend has one.
    fn stamp(&self, positions: Vec<Position>) -> BoxFuture<'static, Result<Vec<Kept>>> {
        ready(Ok(positions.into_iter().map(Kept::from).collect())).boxed()
    }

    /// The app has stored these positions itself: what lies before all that it needs may go. Only called for
    /// [`Membership::Everything`].
    fn stored(&self, _positions: Vec<Position>) {}

    /// The offset that a seek would go to. Moves nothing.
    ///
    /// Errors: [`not_ours`] when the partition is not ours, `Kind::Seek` when the offset is outside the log.
    fn resolve(&self, topic: Arc<str>, partition: i32, to: SeekTo) -> BoxFuture<'static, Result<i64>>;

    /// Reads a partition of ours from `offset` on, into a new feed. The lane of the old feed has ended.
    fn seek(&self, topic: Arc<str>, partition: i32, offset: i64) -> BoxFuture<'static, Result<Assignment>>;

    /// Leaves the group and ends; bounded also when the broker is gone. Revokes nothing: the app has committed before.
    fn close(&self) -> BoxFuture<'static, Result<()>>;
}

/// A record on its way to a broker.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    /// As the broker knows it.
    pub topic: Arc<str>,
    /// `None`: chosen by the key, or at random without one.
    pub partition: Option<i32>,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Headers,
    /// Milliseconds since 1970-01-01 UTC; `None`: now.
    pub timestamp: Option<i64>,
}

impl Outgoing {
    pub(crate) fn size_bytes(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + self.headers.size_bytes()
    }
}

/// Where a written record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Who waits for a record to be acknowledged.
pub(crate) enum Ack {
    /// The unit of work that it is an output of.
    Unit(Guard),
    /// A caller of `send`.
    Reply(oneshot::Sender<Result<Receipt>>),
}

/// How often room had been made when a record was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal(pub u64);

/// Why a record was not taken.
pub(crate) enum Refused {
    /// No room now: here it is back, with what [`Writer::poll_room`] wants to know of this refusal.
    Full(Outgoing, Ack, Refusal),
    /// For good: the acknowledgement has not been told.
    Failed(Error, Ack),
}

/// One app's writing connection to a broker.
pub(crate) trait Writer: Send + Sync + 'static {
    /// Takes a record without waiting; the acknowledgement is told when the broker has it, or has refused it. Records
    /// of one partition keep the order of these calls.
    fn write(&self, record: Outgoing, ack: Ack) -> std::result::Result<(), Refused>;

    /// Ready when room was made since a refusal, so that [`write`](Self::write) may be tried again; registers the task
    /// otherwise.
    fn poll_room(&self, since: Refusal, cx: &Context<'_>) -> Poll<()>;

    /// Waits until everything written is acknowledged, for at most `limit`; then gives up the rest (their
    /// acknowledgements fail) and says how many records that were.
    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>>;

    /// What keeps records that were taken from being written, whenever that changes; `None` when all is well again. Ends
    /// with the writer. Not for backends whose reading connection says it.
    fn troubles(&self) -> Option<BoxStream<'static, Option<String>>> {
        None
    }

    /// Whether headers reach those who read.
    fn has_headers(&self) -> bool {
        true
    }

    /// Makes sure that the topic exists or can be written soon: creates it when `partitions` is given and it is missing.
    fn prepare(&self, topic: Arc<str>, partitions: Option<u32>) -> BoxFuture<'static, Result<()>>;
}

/// What a topic looks like on its broker.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TopicDescription {
    /// As the broker knows it.
    pub name: String,
    /// For each partition: the oldest offset that the log has, and the offset that the next record gets.
    pub partitions: Vec<(i64, i64)>,
}

/// Management of topics.
pub(crate) trait Manage: Send + Sync + 'static {
    /// Creates a topic; an error if it exists.
    fn create(&self, topic: Arc<str>, partitions: u32) -> BoxFuture<'static, Result<()>>;
    /// Deletes a topic with all its records.
    fn delete(&self, topic: Arc<str>) -> BoxFuture<'static, Result<()>>;
    /// `None` when there is no such topic.
    fn describe(&self, topic: Arc<str>) -> BoxFuture<'static, Result<Option<TopicDescription>>>;
}

/// A broker that an app uses.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Begins to read. Needs a tokio runtime.
    fn subscribe(&self, subscription: Subscription, events: EventSender) -> Result<Arc<dyn Driver>>;
    /// The writing connection, made at the first call.
    fn writer(&self) -> Result<Arc<dyn Writer>>;
    /// The writing connection for one topic, where that depends on the topic's settings.
    fn topic_writer(&self, _settings: &TopicSettings) -> Result<Arc<dyn Writer>> {
        self.writer()
    }
    /// Management.
    fn manage(&self) -> Result<Arc<dyn Manage>>;
    /// Whether it shares partitions among the members of groups and keeps their positions. Of one that does not, every
    /// app reads everything and keeps its positions itself.
    fn has_groups(&self) -> bool {
        true
    }
    /// The longest note that it keeps with a position, in bytes, where that is bounded.
    fn note_max_bytes(&self) -> Option<usize> {
        None
    }
    /// Whether its topics and positions outlive the process.
    fn lasts(&self) -> bool {
        true
    }
    /// Where positions are that an app keeps itself: they belong to one broker, whatever its address. Waits for a broker
    /// that has to be asked.
    fn own_positions(&self) -> BoxFuture<'static, Result<Home>>;
    /// Where rows are kept that are made of its topics, if that is not below the app's own directory.
    fn tables_home(&self, _app: &Path) -> Result<Option<FoldHome>> {
        Ok(None)
    }
    /// What has to be durable before positions are stored.
    fn durable(&self) -> Option<Arc<dyn Durable>> {
        None
    }
    /// Lets go of the broker when a run has ended.
    fn close(&self) -> BoxFuture<'static, Result<()>> {
        ready(Ok(())).boxed()
    }
}
