//! Commits of a group's positions: one on its way at a time, later ones merged behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::client::{self, Place};
use super::context::{Consumer, Inbox};
use super::part::Part;
use super::rebalance::name;
use super::wake::Signal;
use crate::error::Result;
use crate::flow::Position;

/// How long a commit that met a rebalance or an absent coordinator waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

pub(super) type Reply = oneshot::Sender<Result<()>>;

/// A position with the feed that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Offer {
    next: i64,
    epoch: u64,
    /// Travels as the offset's metadata.
    note: Option<Arc<str>>,
}

#[derive(Default)]
pub(super) struct Commits {
    waiting: BTreeMap<Place, Offer>,
    waiters: Vec<Reply>,
    sent: Option<Sent>,
    not_before: Option<Instant>,
}

struct Sent {
    offers: BTreeMap<Place, Offer>,
    waiters: Vec<Reply>,
}

impl Commits {
    /// Positions to be committed; those of partitions that are not ours are dropped.
    pub(super) fn add(&mut self, positions: Vec<Position>, parts: &[Part], reply: Option<Reply>) {
        for position in positions {
            if let Some(part) = parts.iter().find(|part| part.is(&position.topic, position.partition)) {
                let offer = Offer { next: position.next, epoch: part.epoch, note: position.note };
                self.waiting.insert((position.topic, position.partition), offer);
            }
        }
        self.waiters.extend(reply);
    }

    /// When [`send`](Self::send) is to be called again although nothing happened.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.sent.is_some() { None } else { self.not_before }
    }

    /// Sends what waits, unless something is on its way.
    pub(super) fn send(&mut self, committer: &Committer, parts: &[Part]) {
        if self.sent.is_some() || self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.not_before = None;
        if self.waiting.is_empty() && self.waiters.is_empty() {
            return;
        }
        let mut offers = std::mem::take(&mut self.waiting);
        offers.retain(|place, offer| is_current(place, offer, parts));
        let sent = Sent { offers, waiters: std::mem::take(&mut self.waiters) };
        if sent.offers.is_empty() {
            return answer(sent.waiters, || Ok(()));
        }
        let result = list(&sent.offers).map(|list| committer.commit(list));
        self.sent = Some(sent);
        if let Err(error) = result {
            self.finish(Err(error), &mut []);
        }
    }

    /// How the commit that was on its way ended.
    pub(super) fn finish(&mut self, result: KafkaResult<()>, parts: &mut [Part]) {
        let Some(sent) = self.sent.take() else { return };
        let Err(error) = result else {
            for (place, offer) in &sent.offers {
                mark(parts, place, offer);
            }
            return answer(sent.waiters, || Ok(()));
        };
        if client::code_of(&error).is_some_and(can_wait) {
            tracing::debug!(error = %client::text(&error), "the commit is tried again");
            for (place, offer) in sent.offers {
                self.waiting.entry(place).or_insert(offer);
            }
            self.waiters.extend(sent.waiters);
            self.not_before = Some(Instant::now() + RETRY_AFTER);
            return;
        }
        let places: Vec<String> = sent.offers.keys().map(name).collect();
        answer(sent.waiters, || Err(client::to_error(&error, "positions were not committed").at(places.join(", "))));
    }

    /// Nothing of this partition is committed any more.
    pub(super) fn forget(&mut self, place: &Place) {
        self.waiting.remove(place);
    }
}

/// A position of a feed that is still being read, and not lower than what it has committed.
fn is_current(place: &Place, offer: &Offer, parts: &[Part]) -> bool {
    let part = parts.iter().find(|part| part.is(&place.0, place.1));
    part.is_some_and(|part| part.epoch == offer.epoch && part.committed.is_none_or(|floor| offer.next >= floor))
}

fn mark(parts: &mut [Part], place: &Place, offer: &Offer) {
    let part = parts.iter_mut().find(|part| part.is(&place.0, place.1) && part.epoch == offer.epoch);
    if let Some(part) = part {
        part.committed = Some(offer.next);
    }
}

fn list(offers: &BTreeMap<Place, Offer>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(offers.len());
    for ((topic, partition), offer) in offers {
        let mut element = list.add_partition(topic, *partition);
        element.set_offset(Offset::Offset(offer.next))?;
        if let Some(note) = &offer.note {
            element.set_metadata(&**note);
        }
    }
    Ok(list)
}

/// Whether the group or its coordinator is only busy: once the rebalance is over the partition is ours, and then the
/// commit goes through, or it is not, and then the commit is dropped.
fn can_wait(code: RDKafkaErrorCode) -> bool {
    !client::is_final(code)
        && !matches!(
            code,
            RDKafkaErrorCode::OffsetMetadataTooLarge
                | RDKafkaErrorCode::InvalidCommitOffsetSize
                | RDKafkaErrorCode::InvalidArgument
        )
}

fn answer(waiters: Vec<Reply>, result: impl Fn() -> Result<()>) {
    for waiter in waiters {
        // Whoever asked may have given up waiting.
        let _gave_up = waiter.send(result());
    }
}

/// The thread that commits. The wrapper tells how a commit ended only to a caller that waits for it, and the reading
/// thread does not wait.
pub(super) struct Committer {
    lists: SyncSender<TopicPartitionList>,
}

impl Committer {
    pub(super) fn start(consumer: Arc<Consumer>, inbox: Arc<Inbox>, signal: Arc<Signal>) -> Result<Self> {
        // One commit is on its way at a time.
        let (lists, receiver) = sync_channel::<TopicPartitionList>(1);
        let thread = std::thread::Builder::new().name("kafka-committer".to_owned());
        thread.spawn(move || {
            for list in receiver {
                inbox.commit_ended(consumer.commit(&list, CommitMode::Sync));
                signal.raise();
            }
        })?;
        Ok(Self { lists })
    }

    fn commit(&self, list: TopicPartitionList) {
        // The thread ends only after this end of the way is dropped.
        let _taken = self.lists.try_send(list);
    }
}
