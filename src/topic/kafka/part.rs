//! A partition that is ours, as the reading thread sees it: librdkafka's queue on one side, the feed on the other.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _};

use super::client::Place;
use super::context::{Consumer, Context};
use super::record::Copier;
use super::wake::{Alarm, Signal};
use crate::message::Record;
use crate::topic::driver::Feed;

/// Records that one visit moves at most: enough to make locks and wakes cheap, few enough to be fair.
pub(super) const VISIT_MAX_RECORDS: usize = 512;
/// Bytes that one visit moves at most, one larger record aside.
const VISIT_MAX_BYTES: usize = 1024 * 1024;

pub(super) struct Part {
    queue: PartitionQueue<Context>,
    pub feed: Arc<Feed>,
    signal: Arc<Signal>,
    waker: Waker,
    /// Nothing below this may enter the feed.
    pub next: i64,
    /// The highest position that was committed since the feed was made.
    pub committed: Option<i64>,
    /// Counts the feeds of this app, so that a commit that belongs to an older one is told apart.
    pub epoch: u64,
    /// It is being given up.
    stopped: bool,
    /// The lane has closed the feed; a seek brings another.
    closed: bool,
    more: bool,
}

/// What a visit ended with.
pub(super) enum Visit {
    /// Nothing to do before the signal is raised.
    Idle,
    /// There may be more at once.
    More,
    /// librdkafka reports an error for the partition.
    Trouble(KafkaError),
}

impl Part {
    /// Takes the partition's records apart from the others'. To be called before it is assigned; `None` when
    /// librdkafka does not know such a name.
    pub(super) fn split(
        consumer: &Arc<Consumer>,
        alarm: &Arc<Alarm>,
        place: &Place,
        next: i64,
        epoch: u64,
    ) -> Option<Self> {
        let mut queue = consumer.split_partition_queue(&place.0, place.1)?;
        let signal = Signal::new(alarm);
        let raised = Arc::clone(&signal);
        queue.set_nonempty_callback(move || raised.raise());
        let waker = Waker::from(Arc::clone(&signal));
        let feed = Feed::new(&place.0, place.1);
        Some(Self {
            queue,
            feed,
            signal,
            waker,
            next,
            committed: None,
            epoch,
            stopped: false,
            closed: false,
            more: true,
        })
    }

    pub(super) fn is(&self, topic: &str, partition: i32) -> bool {
        self.feed.partition == partition && *self.feed.topic == *topic
    }

    pub(super) fn place(&self) -> Place {
        (Arc::clone(&self.feed.topic), self.feed.partition)
    }

    /// Nothing enters the feed any more.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether records may enter the feed.
    pub(super) fn is_fed(&self) -> bool {
        !self.stopped && !self.closed
    }

    /// Begins a new feed at `next`; the old one ends with what it has.
    pub(super) fn restart(&mut self, next: i64, epoch: u64) {
        let new = Feed::new(&self.feed.topic, self.feed.partition);
        std::mem::replace(&mut self.feed, new).queue.discard();
        (self.next, self.epoch, self.committed) = (next, epoch, None);
        (self.closed, self.more) = (false, true);
    }

    #[inline]
    pub(super) fn wants_visit(&mut self) -> bool {
        let raised = self.signal.take();
        self.is_fed() && (raised || self.more)
    }

    /// Moves what fits from librdkafka's queue into the feed.
    pub(super) fn visit(&mut self, batch: &mut Vec<Record>, copier: &mut Copier) -> Visit {
        self.more = false;
        let Some(room) = self.room() else { return Visit::Idle };
        let mut bytes = 0;
        let end = loop {
            if batch.len() >= room || bytes >= VISIT_MAX_BYTES {
                break Visit::More;
            }
            match self.queue.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    // A purge leaves no older record behind; this is the second bolt.
                    if message.offset() >= self.next {
                        self.next = message.offset() + 1;
                        let record = copier.copy(&message);
                        bytes += record.size_bytes();
                        batch.push(record);
                    }
                }
                Some(Err(error)) => break Visit::Trouble(error),
                None => break Visit::Idle,
            }
        };
        self.feed.queue.push_batch(batch, bytes);
        self.more = !matches!(end, Visit::Idle);
        end
    }

    /// How many records may be moved now. `None`: none; the signal is raised when the lane has made room.
    fn room(&mut self) -> Option<usize> {
        let room = self.feed.queue.room();
        if room > 0 {
            return Some(room.min(VISIT_MAX_RECORDS));
        }
        match self.feed.queue.poll_room(1, &TaskContext::from_waker(&self.waker)) {
            Poll::Pending => None,
            Poll::Ready(()) => {
                let room = self.feed.queue.room();
                // Ready without room.
                self.closed |= room == 0;
                (room > 0).then(|| room.min(VISIT_MAX_RECORDS))
            }
        }
    }

    /// A record that came by the consumer's common queue.
    pub(super) fn accept(&mut self, message: &BorrowedMessage<'_>, copier: &mut Copier) {
        if self.is_fed() && message.offset() >= self.next {
            self.next = message.offset() + 1;
            let record = copier.copy(message);
            let bytes = record.size_bytes();
            self.feed.queue.push_batch(&mut vec![record], bytes);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.feed.queue.discard();
    }
}
