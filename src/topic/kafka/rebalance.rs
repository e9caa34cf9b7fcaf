//! What a member does when the group moves partitions: one step after the other on the reading thread, which goes on
//! reading the partitions that stay. librdkafka waits for the last step, the call to assign or unassign.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::client::{self, Place};
use super::context::{self, Rebalance};
use super::lookup::LOOKUP_TIMEOUT;
use super::part::Part;
use super::reader::Reader;
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::topic::begin::{self, Begin, Bounds};
use crate::topic::driver::{Assignment, Event, Membership};

/// Between two tries to find out where to begin.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long the commit before partitions are let go may take.
const LAST_COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A position of the group, and what was committed with it.
type Committed = (i64, Option<Arc<str>>);

/// Where a partition begins, and what was kept of it.
struct Beginning {
    place: Place,
    from: i64,
    committed: Option<i64>,
    note: Option<Arc<str>>,
}

impl Beginning {
    fn new(place: Place, from: i64, committed: Option<Committed>) -> Self {
        let (committed, note) = committed.map_or((None, None), |(next, note)| (Some(next), note));
        Self { place, from, committed, note }
    }
}

/// How far the present rebalance is.
pub(super) enum Step {
    /// Finds out where to begin.
    Begin { partitions: Vec<Place>, at: Instant, wait: Duration },
    /// Waits for the app to give partitions up.
    Drain { partitions: Vec<Place>, answer: oneshot::Receiver<Vec<Position>>, until: Instant },
    /// Waits for their last commit.
    Commit { partitions: Vec<Place>, done: oneshot::Receiver<Result<()>>, until: Instant },
}

impl Step {
    /// When the next look is due although nothing happened.
    pub(super) fn due(&self) -> Instant {
        match self {
            Self::Begin { at, .. } => *at,
            Self::Drain { until, .. } | Self::Commit { until, .. } => *until,
        }
    }
}

impl Reader {
    /// Takes the present rebalance a step further, or begins with the next.
    pub(super) fn serve_rebalance(&mut self) {
        loop {
            let step = match self.step.take() {
                Some(step) => step,
                None => match self.inbox.next_rebalance() {
                    Some(rebalance) => match self.enter(rebalance) {
                        Some(step) => step,
                        None => continue,
                    },
                    None => return,
                },
            };
            let waits = self.advance(step);
            if let Some(step) = waits {
                self.step = Some(step);
                return;
            }
        }
    }

    fn enter(&mut self, rebalance: Rebalance) -> Option<Step> {
        match rebalance {
            Rebalance::Assign(partitions) => Some(Step::Begin { partitions, at: Instant::now(), wait: RETRY_FIRST }),
            Rebalance::Revoke { partitions, lost } => self.enter_revoke(partitions, lost),
        }
    }

    /// One step; `Some` when it has to be looked at again later.
    fn advance(&mut self, step: Step) -> Option<Step> {
        let waker = Waker::from(Arc::clone(&self.signal));
        let mut cx = TaskContext::from_waker(&waker);
        match step {
            Step::Begin { partitions, at, wait } => self.try_begin(partitions, at, wait),
            Step::Drain { partitions, mut answer, until } => match answer.poll_unpin(&mut cx) {
                Poll::Ready(Ok(positions)) => self.last_commit(partitions, positions),
                Poll::Pending if Instant::now() < until => Some(Step::Drain { partitions, answer, until }),
                Poll::Ready(Err(_)) | Poll::Pending => {
                    tracing::warn!(partitions = %names(&partitions), "given up without an answer: what is in flight there comes again");
                    self.let_go(&partitions);
                    None
                }
            },
            Step::Commit { partitions, mut done, until } => match done.poll_unpin(&mut cx) {
                Poll::Pending if Instant::now() < until => Some(Step::Commit { partitions, done, until }),
                Poll::Ready(Ok(Ok(()))) => {
                    self.let_go(&partitions);
                    None
                }
                Poll::Ready(_) | Poll::Pending => {
                    tracing::warn!(partitions = %names(&partitions), "given up without a commit: some records come again");
                    self.let_go(&partitions);
                    None
                }
            },
        }
    }

    // ---- taking -----------------------------------------------------------------------------------------------------

    fn try_begin(&mut self, partitions: Vec<Place>, at: Instant, wait: Duration) -> Option<Step> {
        if Instant::now() < at {
            return Some(Step::Begin { partitions, at, wait });
        }
        let looked_up = self.positions(&partitions).and_then(|positions| {
            let bounds = self.lookup.bounds(&partitions)?;
            Ok((positions, bounds))
        });
        match looked_up {
            Ok((positions, bounds)) => {
                let begins = self.decide(partitions, &positions, &bounds);
                self.take(begins);
                None
            }
            Err(error) if client::code_of(&error).is_some_and(client::is_final) => {
                self.outbox.fail(client::to_error(&error, "cannot read the group's positions"));
                self.take(Vec::new());
                None
            }
            Err(error) => {
                tracing::warn!(error = %client::text(&error), partitions = %names(&partitions), "where to begin is not known yet");
                Some(Step::Begin { partitions, at: Instant::now() + wait, wait: (wait * 2).min(RETRY_MAX) })
            }
        }
    }

    /// What is kept as the partitions' positions, in their order.
    fn positions(&self, partitions: &[Place]) -> KafkaResult<Vec<Option<Committed>>> {
        if let Membership::Everything(kept) = &self.subscription.group {
            let of = |place: &Place| kept.iter().find(|kept| kept.topic == place.0 && kept.partition == place.1);
            return Ok(partitions.iter().map(|place| of(place).map(|kept| (kept.next, kept.note.clone()))).collect());
        }
        let list = self.consumer.committed_offsets(list(partitions, &[])?, LOOKUP_TIMEOUT)?;
        let position = |(topic, partition): &Place| match list.find_partition(topic, *partition) {
            Some(element) => element.error().map(|()| match element.offset() {
                Offset::Offset(next) => Some((next, note(&element))),
                _ => None,
            }),
            None => Ok(None),
        };
        partitions.iter().map(position).collect()
    }

    /// Where each partition begins, and what is committed there; those that are refused are left out.
    fn decide(&mut self, partitions: Vec<Place>, positions: &[Option<Committed>], bounds: &[Bounds]) -> Vec<Beginning> {
        let mut begins = Vec::with_capacity(partitions.len());
        for ((place, own), bounds) in partitions.into_iter().zip(positions).zip(bounds) {
            let Some(wanted) = self.subscription.topics.iter().find(|wanted| wanted.name == place.0) else {
                continue;
            };
            let at = own.as_ref().map(|(next, _)| *next);
            if let Some(from) = wanted.folded_from(place.1, at, *bounds) {
                begins.push(Beginning::new(place, from, own.clone()));
                continue;
            }
            let begin = begin::begin(wanted, at, *bounds, self.shared.is_new(&place));
            match begin {
                Begin::Position(from) => begins.push(Beginning::new(place, from, own.clone())),
                Begin::Start(from) => begins.push(Beginning::new(place, from, None)),
                Begin::Moved { to, position } => {
                    tracing::error!(
                        topic = &*place.0,
                        partition = place.1,
                        to,
                        "{}",
                        begin::describe(position, *bounds)
                    );
                    // What is to be corrected is still known.
                    let begin = Beginning::new(place, to, own.clone());
                    begins.push(Beginning { committed: None, ..begin });
                }
                Begin::Refused { position } => self.outbox.fail(out_of_range(&place, position, *bounds)),
            }
        }
        begins
    }

    /// Takes the partitions; also none, since librdkafka waits for the call.
    fn take(&mut self, begins: Vec<Beginning>) {
        let offsets: Vec<i64> = begins.iter().map(|begin| begin.from).collect();
        let places: Vec<Place> = begins.iter().map(|begin| begin.place.clone()).collect();
        let mut assignments = Vec::with_capacity(begins.len());
        for Beginning { place, from, committed, note } in begins {
            let epoch = self.next_epoch();
            match Part::split(&self.consumer, &self.alarm, &place, from, epoch) {
                Some(part) => {
                    assignments.push(Assignment { feed: Arc::clone(&part.feed), from, committed, note });
                    self.parts.push(part);
                }
                None => self.outbox.fail(Error::new(Kind::UnknownTopic, "no such partition").at(name(&place))),
            }
        }
        let result = list(&places, &offsets).and_then(|list| context::assign(&self.consumer, &list));
        if let Err(error) = result {
            self.parts.retain(|part| !places.contains(&part.place()));
            self.outbox.fail(client::to_error(&error, "cannot take the partitions that the group gave us"));
            return;
        }
        if places.is_empty() {
            return;
        }
        tracing::info!(partitions = %names(&places), "partitions assigned");
        self.shared.add(&places);
        self.outbox.send(Event::Assigned(assignments));
    }

    // ---- giving up --------------------------------------------------------------------------------------------------

    fn enter_revoke(&mut self, mut partitions: Vec<Place>, lost: bool) -> Option<Step> {
        let given: HashSet<Place> = partitions.iter().cloned().collect();
        let mut ours = Vec::new();
        for part in self.parts.iter_mut().filter(|part| given.contains(&part.place())) {
            part.stop();
            ours.push(part.place());
        }
        partitions.sort();
        // Perhaps their topic was deleted.
        self.shared.trouble.notify_one();
        if lost {
            tracing::warn!(partitions = %names(&partitions), "partitions lost: what is in flight there comes again");
        } else {
            tracing::info!(partitions = %names(&partitions), "partitions revoked");
        }
        let (sender, answer) = oneshot::channel();
        if !ours.is_empty() {
            self.outbox.send(Event::Revoked { partitions: ours.clone(), lost, answer: sender });
        }
        if lost || ours.is_empty() {
            self.let_go(&partitions);
            return None;
        }
        Some(Step::Drain { partitions, answer, until: Instant::now() + self.subscription.revoke_timeout })
    }

    fn last_commit(&mut self, partitions: Vec<Place>, mut positions: Vec<Position>) -> Option<Step> {
        positions.retain(|own| partitions.iter().any(|place| place.0 == own.topic && place.1 == own.partition));
        if positions.is_empty() || matches!(self.subscription.group, Membership::Everything(_)) {
            self.let_go(&partitions);
            return None;
        }
        let (reply, done) = oneshot::channel();
        self.commits.add(positions, &self.parts, Some(reply));
        self.commits.send(&self.committer, &self.parts);
        self.advance(Step::Commit { partitions, done, until: Instant::now() + LAST_COMMIT_TIMEOUT })
    }

    fn let_go(&mut self, partitions: &[Place]) {
        self.parts.retain(|part| !partitions.contains(&part.place()));
        self.shared.remove(partitions);
        for place in partitions {
            self.commits.forget(place);
        }
        let result = list(partitions, &[]).and_then(|list| context::unassign(&self.consumer, &list));
        if let Err(error) = result {
            self.outbox.fail(client::to_error(&error, "cannot give up the partitions that the group took away"));
        }
    }

    /// Before the consumer is closed: librdkafka gets the answer that it may be waiting for.
    pub(super) fn abandon_rebalance(&mut self) {
        let unanswered = match self.step.take() {
            None => None,
            Some(Step::Begin { partitions, .. }) => Some(Rebalance::Assign(partitions)),
            Some(Step::Drain { partitions, .. } | Step::Commit { partitions, .. }) => {
                Some(Rebalance::Revoke { partitions, lost: true })
            }
        };
        let queued = std::iter::from_fn(|| self.inbox.next_rebalance());
        for rebalance in unanswered.into_iter().chain(queued) {
            let result = match rebalance {
                Rebalance::Assign(_) => list(&[], &[]).and_then(|list| context::assign(&self.consumer, &list)),
                Rebalance::Revoke { partitions, .. } => {
                    list(&partitions, &[]).and_then(|list| context::unassign(&self.consumer, &list))
                }
            };
            if let Err(error) = result {
                tracing::debug!(error = %client::text(&error), "the rebalance ends with the consumer");
            }
        }
    }
}

/// What was committed with an offset. Another program may have written what is no text, and the wrapper panics on it.
fn note(element: &TopicPartitionListElem<'_>) -> Option<Arc<str>> {
    let read = || Arc::<str>::from(element.metadata());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).ok().filter(|note| !note.is_empty())
}

/// The list of `partitions`, with offsets if there are any.
pub(super) fn list(partitions: &[Place], offsets: &[i64]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    let offsets = offsets.iter().map(|offset| Offset::Offset(*offset)).chain(std::iter::repeat(Offset::Invalid));
    for ((topic, partition), offset) in partitions.iter().zip(offsets) {
        list.add_partition_offset(topic, *partition, offset)?;
    }
    Ok(list)
}

pub(super) fn out_of_range(place: &Place, position: i64, bounds: Bounds) -> Error {
    let message =
        format!("{}; choose where to go on by the topic's out-of-range policy", begin::describe(position, bounds));
    Error::new(Kind::OutOfRange, message).at(name(place))
}

pub(super) fn name(place: &Place) -> String {
    format!("{}[{}]", place.0, place.1)
}

pub(super) fn names(places: &[Place]) -> String {
    places.iter().map(name).collect::<Vec<_>>().join(", ")
}
