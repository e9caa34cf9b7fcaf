//! A partition's records on their way to its lane.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::log::{Log, Reader as _};
use super::place;
use crate::error::{Error, Kind, Result};
use crate::topic::begin::{Begin, Bounds, begin, describe, describe_gap};
use crate::topic::driver::{Event, EventSender, Feed, OutOfRange, Wanted};

/// How long a partition that cannot be read is left alone.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Reads one partition for one lane.
pub(super) struct Feeder<L: Log> {
    pub log: Arc<L>,
    pub wanted: Wanted,
    pub feed: Arc<Feed>,
    pub events: EventSender,
    /// The offset to read next.
    pub next: i64,
    /// What is wrong was said.
    pub troubled: bool,
}

impl<L: Log> Feeder<L> {
    /// Ends when the lane has gone, or with an error that ends the run.
    pub(super) async fn run(mut self) {
        if let Err(error) = self.feed().await {
            // An app that does not listen any more has ended.
            let _ = self.events.send(Event::Failed(error)).await;
        }
    }

    async fn feed(&mut self) -> Result<()> {
        loop {
            match self.read().await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    tracing::debug!("{}", error.report());
                    self.say(Some(format!("cannot be read: {error}"))).await;
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                Err(error) if error.kind() == Kind::OutOfRange => self.next = self.move_on(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves records for as long as there is a lane.
    async fn read(&mut self) -> Result<()> {
        let mut reader = self.log.reader(&self.feed.topic, self.feed.partition, self.next).await?;
        let mut records = Vec::new();
        while let Some(room) = self.room().await {
            let bytes = reader.next(&mut records, room).await?;
            self.next = reader.position();
            if !records.is_empty() {
                self.feed.queue.push_batch(&mut records, bytes);
            }
            if self.troubled {
                self.say(None).await;
            }
            // A lane on the same thread gets its turn.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// How many records the feed takes, at least one; `None` when nobody reads it any more.
    async fn room(&self) -> Option<usize> {
        let queue = &self.feed.queue;
        if queue.room() == 0 {
            poll_fn(|cx| queue.poll_room(1, cx)).await;
        }
        Some(queue.room()).filter(|room| *room > 0)
    }

    /// Where to go on when the log does not have the next record: retention was faster, or a part is missing.
    async fn move_on(&self, error: Error) -> Result<i64> {
        let partitions = self.log.partitions(&self.wanted).await?.unwrap_or_default();
        let own = partitions.into_iter().find(|(number, _)| *number == self.feed.partition);
        let Some((_, bounds)) = own else { return Err(error) };
        match begin(&self.wanted, Some(self.next), bounds, false) {
            Begin::Moved { to, position } => {
                let topic = &*self.feed.topic;
                tracing::error!(topic, partition = self.feed.partition, to, "{}", describe(position, bounds));
                Ok(to)
            }
            Begin::Position(position) => self.pass(position, bounds).await,
            Begin::Start(_) | Begin::Refused { .. } => Err(error.at(place(&self.feed.topic, self.feed.partition))),
        }
    }

    /// Goes on behind records that are missing inside of the log, with the first that can be read: whatever the policy
    /// says but to stop, since what is behind them was not read yet.
    async fn pass(&self, position: i64, bounds: Bounds) -> Result<i64> {
        let (topic, partition) = (&*self.feed.topic, self.feed.partition);
        let next = self.log.next_readable(topic, partition, position).await?;
        if next <= position {
            return Ok(position); // Written since.
        }
        let missing = describe_gap(position, next, bounds);
        if self.wanted.out_of_range == OutOfRange::Stop {
            let text = format!("{missing}; the topic's out-of-range policy can say to go on behind them");
            return Err(Error::new(Kind::OutOfRange, text).at(place(topic, partition)));
        }
        tracing::error!(topic, partition, to = next, "{missing}");
        Ok(next)
    }

    /// Says once what is wrong, and that it is over.
    async fn say(&mut self, text: Option<String>) {
        let is_news = text.is_none() || !self.troubled;
        self.troubled = text.is_some();
        if is_news {
            let topic = Some(Arc::clone(&self.feed.topic));
            let _ = self.events.send(Event::Notice { topic, text }).await;
        }
    }
}
