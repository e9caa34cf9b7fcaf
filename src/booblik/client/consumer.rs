//! Reading one partition from a position on, without end.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use tokio::time::Instant;

use super::Client;
use super::call::{fetch_frame_bytes, placed, read_fetched};
use super::connection::{Answer, Ask};
use super::error::{ClientError, Ended, Place, check_name};
use super::gap::{OutOfRange, Start, Step, describe, step};
use super::link::{Deadline, Link, Pending};
use crate::booblik::wire::{
    self, Damage, Ending, ErrorCode, Fetch, Fetched, MAX_FETCH_BYTES, MAX_WAIT_MILLIS, Record, Records,
};

/// The pause of [`Consumer::next`] after an empty answer that the broker was not to wait with.
const IDLE_PAUSE: Duration = Duration::from_millis(50);

/// How often one poll moves into the log, which retention may overtake meanwhile.
const MOVES_MAX: u32 = 8;

/// The settings of a [`Consumer`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ConsumerBuilder {
    client: Client,
    topic: Arc<str>,
    partition: i32,
    start: Start,
    out_of_range: OutOfRange,
    ask: Wanted,
}

/// How much a poll asks for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    max_bytes: u32,
    max_wait: Duration,
    min_bytes: u32,
}

impl Wanted {
    fn max_wait_millis(self) -> u32 {
        u32::try_from(self.max_wait.as_millis()).unwrap_or(u32::MAX).min(MAX_WAIT_MILLIS)
    }

    fn check(self) -> Result<(), ClientError> {
        if !(1..=MAX_FETCH_BYTES).contains(&self.max_bytes) {
            return Err(ClientError::Setting("max_bytes must be 1 to 8388590"));
        }
        if self.min_bytes > self.max_bytes {
            return Err(ClientError::Setting("min_bytes must not be above max_bytes"));
        }
        Ok(())
    }
}

impl ConsumerBuilder {
    pub(super) fn new(client: Client, topic: Arc<str>, partition: i32) -> Self {
        let ask = Wanted { max_bytes: 1 << 20, max_wait: Duration::from_secs(5), min_bytes: 0 };
        Self { client, topic, partition, start: Start::default(), out_of_range: OutOfRange::default(), ask }
    }

    /// Where to begin: [`Start::Earliest`] unless set.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// What to do when the position is outside of the log, or in a part of it that the broker has lost:
    /// [`OutOfRange::Stop`] unless set.
    pub fn out_of_range(mut self, out_of_range: OutOfRange) -> Self {
        self.out_of_range = out_of_range;
        self
    }

    /// The most bytes of one answer, 1 to 8,388,590: 1 MiB unless set. A record that is larger cannot be read.
    pub fn max_bytes(mut self, bytes: u32) -> Self {
        self.ask.max_bytes = bytes;
        self
    }

    /// How long the broker may wait for records before it answers with none: 5 s unless set, at most 60 s.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.ask.max_wait = wait;
        self
    }

    /// The bytes for which the broker waits, at most as many as [`max_bytes`](Self::max_bytes): any unless set.
    pub fn min_bytes(mut self, bytes: u32) -> Self {
        self.ask.min_bytes = bytes;
        self
    }

    /// The consumer. [`Start::At`] asks the broker nothing; the others ask where the log begins or ends.
    ///
    /// # Errors
    ///
    /// [`ClientError::Setting`], [`ErrorCode::UnknownTopicOrPartition`], and what any call may fail with.
    pub async fn open(self) -> Result<Consumer, ClientError> {
        self.ask.check()?;
        check_name(&self.topic)?;
        let link = self.client.own_link();
        let place = Place::new(self.topic, self.partition);
        let (position, high_watermark) = match self.start {
            Start::At(offset) => (offset, 0),
            Start::Earliest => {
                describe(&self.client, &place).await.map(|info| (info.log_start_offset, info.high_watermark))?
            }
            Start::Latest => {
                describe(&self.client, &place).await.map(|info| (info.high_watermark, info.high_watermark))?
            }
        };
        Ok(Consumer {
            client: self.client,
            link,
            place,
            wanted: self.ask,
            out_of_range: self.out_of_range,
            buffered: Records::none(position),
            high_watermark,
            pending: None,
            failed: None,
            damaged: None,
        })
    }
}

/// Reads one partition in order, over a connection of its own. It never comes to an end: where there are no more records
/// it waits for some.
///
/// Nobody but the program keeps the position: store [`position`](Self::position) where the effect of the records is stored,
/// and begin there with [`Start::At`]. It is the offset after the last record that was given out, by
/// [`next`](Self::next), [`poll`](Self::poll) or a stream.
///
/// # Cancel safety
///
/// A poll that is dropped loses nothing: the answer to its request is what the next poll returns.
///
/// ```
/// # use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
/// # use slipstream::booblik::wire::Acks;
/// use slipstream::booblik::client::{Client, ClientError, Start};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// # broker.ensure_topic("words", 1).await?;
/// # let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
/// # let address = server.local_addr().to_string();
/// # let saved = 1;
/// let client = Client::connect(&address).await?;
/// # client.produce("words", 0, Acks::Written, &["one", "two", "three"]).await?;
/// let mut consumer = client.consumer("words", 0).start(Start::At(saved)).open().await?;
/// loop {
///     match consumer.poll().await {
///         Ok(records) => println!("{} records, {} to go", records.len(), consumer.lag()),
///         Err(ClientError::Corrupt { offset, .. }) => {
///             eprintln!("record {offset} is damaged, leaving it out");
///             consumer.skip_damaged();
///         }
///         Err(error) if error.is_retryable() => eprintln!("{error}, trying again"),
///         Err(error) => return Err(error.into()),
///     }
///     # assert_eq!((consumer.position(), consumer.lag()), (3, 0));
///     # break Ok(());
/// }
/// # }
/// ```
pub struct Consumer {
    client: Client,
    link: Link,
    place: Place,
    wanted: Wanted,
    out_of_range: OutOfRange,
    /// Fetched and not given out yet; begins at the position.
    buffered: Records,
    high_watermark: i64,
    /// A fetch from the end of `buffered` on.
    pending: Option<Pending>,
    /// What comes after `buffered`.
    failed: Option<ClientError>,
    /// The offset of a damaged or lost record that was reported, and where to go on behind it.
    damaged: Option<(i64, i64)>,
}

impl Consumer {
    /// The topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.place.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.place.partition.unwrap_or_default()
    }

    /// The offset of the next record to be given out.
    pub fn position(&self) -> i64 {
        self.buffered.base_offset()
    }

    /// The end of the log as it was told last; 0 until it was.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The records between the position and the end of the log as it was told last.
    pub fn lag(&self) -> u64 {
        u64::try_from(self.high_watermark.saturating_sub(self.position())).unwrap_or(0)
    }

    /// Goes on at `offset`, which may be anywhere: the next poll tells whether it is in the log.
    pub fn seek(&mut self, offset: i64) {
        if self.pending.take().is_some() {
            // The broker may hold that fetch for a while, and everything behind it.
            self.link.hang_up();
        }
        self.buffered = Records::none(offset);
        self.failed = None;
        self.damaged = None;
    }

    /// Goes on behind the damaged record, or the lost ones, that were reported last, and returns their first offset;
    /// `None` when none were, or the position has changed since.
    pub fn skip_damaged(&mut self) -> Option<i64> {
        let (damaged, next) = self.damaged.take().filter(|(offset, _)| *offset == self.position())?;
        self.seek(next);
        Some(damaged)
    }

    /// Changes the most bytes of one answer, for example after [`ClientError::ExceedsMaxBytes`].
    ///
    /// # Errors
    ///
    /// [`ClientError::Setting`] when it is 0, too large or below the minimum; it stays as it was then.
    pub fn set_max_bytes(&mut self, bytes: u32) -> Result<(), ClientError> {
        self.set(Wanted { max_bytes: bytes, ..self.wanted })
    }

    /// Changes how long the broker may wait, up to 60 s.
    pub fn set_max_wait(&mut self, wait: Duration) {
        self.wanted.max_wait = wait;
    }

    /// Changes the bytes for which the broker waits.
    ///
    /// # Errors
    ///
    /// [`ClientError::Setting`] when it is above the maximum; it stays as it was then.
    pub fn set_min_bytes(&mut self, bytes: u32) -> Result<(), ClientError> {
        self.set(Wanted { min_bytes: bytes, ..self.wanted })
    }

    fn set(&mut self, wanted: Wanted) -> Result<(), ClientError> {
        wanted.check()?;
        self.wanted = wanted;
        Ok(())
    }

    /// The next records; none when there were none within the wait. The position is behind them.
    ///
    /// # Errors
    ///
    /// After an error the position is where it was, so that the next poll meets the same again, if it lasts.
    ///
    /// - [`ClientError::Corrupt`]: the records before it were given out by the poll before.
    /// - [`ClientError::ExceedsMaxBytes`]: [`set_max_bytes`](Self::set_max_bytes) helps.
    /// - [`ClientError::OutOfRange`], [`ClientError::Gap`]: see [`ConsumerBuilder::out_of_range`].
    /// - [`ClientError::Refused`], and what any call may fail with.
    pub async fn poll(&mut self) -> Result<Records, ClientError> {
        if self.buffered.is_empty() {
            self.fill().await?;
        }
        let next = Records::none(self.buffered.next_offset());
        Ok(std::mem::replace(&mut self.buffered, next))
    }

    /// The next record, however long it takes to come. The position is behind it.
    ///
    /// # Errors
    ///
    /// Those of [`poll`](Self::poll).
    pub async fn next(&mut self) -> Result<Record, ClientError> {
        loop {
            if let Some(record) = self.buffered.pop() {
                return Ok(record);
            }
            self.fill().await?;
            if self.buffered.is_empty() && self.wanted.max_wait.is_zero() {
                tokio::time::sleep(IDLE_PAUSE).await;
            }
        }
    }

    /// The records as a stream without end. It goes on after an error, from the same position.
    pub fn records(&mut self) -> impl Stream<Item = Result<Record, ClientError>> {
        stream::unfold(self, |consumer| async move { Some((consumer.next().await, consumer)) })
    }

    /// The records as a stream without end that owns the consumer, for example to select from several.
    pub fn into_records(self) -> impl Stream<Item = Result<Record, ClientError>> + Send + 'static {
        stream::unfold(self, |mut consumer| async move { Some((consumer.next().await, consumer)) })
    }

    /// Fetches into the buffer, which is empty.
    async fn fill(&mut self) -> Result<(), ClientError> {
        loop {
            let error = match self.failed.take() {
                Some(error) => error,
                None => {
                    let fetched = self.fetch_in_range().await?;
                    match self.accept(fetched) {
                        Ok(()) => return Ok(()),
                        Err(error) => error,
                    }
                }
            };
            self.pass(error)?;
        }
    }

    /// Goes on behind records that the broker has lost, if that is the policy.
    fn pass(&mut self, error: ClientError) -> Result<(), ClientError> {
        match error {
            ClientError::Gap { offset, next: Some(next), .. } if self.out_of_range != OutOfRange::Stop => {
                tracing::warn!(place = %self.place, offset, next, "records are lost: going on behind them");
                self.seek(next);
                Ok(())
            }
            error => Err(self.noted(error)),
        }
    }

    /// One fetch from the position on, which is moved into the log first where that is the policy.
    async fn fetch_in_range(&mut self) -> Result<Fetched, ClientError> {
        let (mut refused, mut is_lost, mut moves) = (None, false, 0);
        loop {
            let at = self.position();
            let error = match self.fetch().await {
                Err(error @ ClientError::Refused { code: ErrorCode::OffsetOutOfRange, .. }) => error,
                fetched => return fetched,
            };
            let step = step(&self.client, &self.place, at, refused == Some(at), self.out_of_range).await;
            match step.map_err(|error| self.noted(error))? {
                Step::Again => {}
                Step::Behind(to) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        tracing::warn!(place = %self.place, offset = at, "records are lost: looking for the next one");
                    }
                    self.seek(to);
                }
                Step::Into(_) if moves == MOVES_MAX => return Err(error),
                Step::Into(to) => {
                    moves += 1;
                    self.seek(to);
                }
            }
            refused = Some(at);
        }
    }

    /// One fetch from the position on, on as many connections as it takes within the deadline.
    async fn fetch(&mut self) -> Result<Fetched, ClientError> {
        let offset = self.position();
        let deadline = Deadline::after(self.client.request_timeout() + self.wanted.max_wait);
        loop {
            let pending = match &mut self.pending {
                Some(pending) => pending,
                none => none.insert(submit(&self.link, &self.place, self.wanted, offset, deadline).await?),
            };
            let answered = pending.answer().await;
            self.pending = None;
            match answered {
                Ok(body) => return read_fetched(&self.link, &body, offset),
                Err(ClientError::Lost { ended, .. }) if can_repeat(&ended, deadline) => {}
                Err(error) => return Err(placed(error, &self.place.topic, self.place.partition)),
            }
        }
    }

    /// Takes over what was fetched, and what came after it.
    fn accept(&mut self, fetched: Fetched) -> Result<(), ClientError> {
        let Fetched { high_watermark, records, ending } = fetched;
        self.high_watermark = high_watermark;
        let error = self.error_after(&records, ending);
        match error {
            Some(error) if records.is_empty() => return Err(error),
            error => self.failed = error,
        }
        self.buffered = records;
        Ok(())
    }

    fn error_after(&self, records: &Records, ending: Ending) -> Option<ClientError> {
        let (place, offset, max_bytes) = (self.place.clone(), records.next_offset(), self.wanted.max_bytes);
        match ending {
            Ending::Damaged(Damage::Gap { next }) if next > offset => {
                Some(ClientError::Gap { place, offset, next: Some(next) })
            }
            Ending::Damaged(damage) => Some(ClientError::Corrupt { place, offset, damage }),
            Ending::Cut { record_bytes } if records.is_empty() => {
                Some(ClientError::ExceedsMaxBytes { place, offset, record_bytes, max_bytes })
            }
            Ending::Whole | Ending::Cut { .. } => None,
        }
    }

    fn noted(&mut self, error: ClientError) -> ClientError {
        self.damaged = match error {
            ClientError::Corrupt { offset, .. } => Some((offset, offset.saturating_add(1))),
            ClientError::Gap { offset, next, .. } => Some((offset, next.unwrap_or(offset.saturating_add(1)))),
            _ => self.damaged,
        };
        error
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (place, position) = (&self.place, self.position());
        f.debug_struct("Consumer").field("place", place).field("position", &position).finish_non_exhaustive()
    }
}

async fn submit(
    link: &Link,
    place: &Place,
    wanted: Wanted,
    offset: i64,
    deadline: Deadline,
) -> Result<Pending, ClientError> {
    let fetch = Fetch {
        topic: &place.topic,
        partition: place.partition.unwrap_or_default(),
        offset,
        max_bytes: wanted.max_bytes,
        max_wait_millis: wanted.max_wait_millis(),
        min_bytes: wanted.min_bytes,
    };
    let encode = |out: &mut _, id| wire::encode_fetch(out, id, &fetch);
    let ask = Ask { encode: &encode, frame_bytes: fetch_frame_bytes(&fetch), answer: Answer::Due };
    link.submit(&ask, deadline).await
}

fn can_repeat(ended: &Ended, deadline: Deadline) -> bool {
    !matches!(ended, Ended::ByClient) && Instant::now() < deadline.at
}
