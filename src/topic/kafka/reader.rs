//! The reading thread of a subscription: the only one that polls its consumer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use tokio::sync::{mpsc, oneshot};

use super::client::{self, Place};
use super::commits::{Commits, Committer, Reply};
use super::context::{Consumer, Inbox};
use super::events::Outbox;
use super::lookup::Lookup;
use super::part::{Part, Visit};
use super::rebalance::{self, Step, name};
use super::record::Copier;
use super::shared::Shared;
use super::wake::{Alarm, Signal};
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::message::Record;
use crate::topic::begin;
use crate::topic::driver::{Assignment, OutOfRange, Subscription, not_ours};

/// How long the thread sleeps at most, and how often it looks at every queue whether it was told to or not.
const TICK: Duration = Duration::from_millis(50);
/// Events that a turn takes from the consumer's common queue.
const EVENTS_PER_TURN: usize = 256;
/// How long a seek may take before the partition is taken anew instead.
const SEEK_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) enum Command {
    /// The topics have been looked at: reading may begin.
    Subscribe,
    /// Leaves the group and joins it again, so that all partitions are assigned anew.
    Rejoin,
    Commit(Vec<Position>, Reply),
    Seek(Place, i64, oneshot::Sender<Result<Assignment>>),
    /// Partitions that are to be read without a group.
    Take(Vec<Place>),
    Close,
}

pub(super) struct Reader {
    pub(super) consumer: Arc<Consumer>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) alarm: Arc<Alarm>,
    /// Raised by the consumer's common queue, by commands and by answers of the app.
    pub(super) signal: Arc<Signal>,
    pub(super) lookup: Arc<Lookup>,
    pub(super) shared: Arc<Shared>,
    pub(super) subscription: Subscription,
    pub(super) outbox: Outbox,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) parts: Vec<Part>,
    pub(super) commits: Commits,
    pub(super) committer: Committer,
    pub(super) step: Option<Step>,
    pub(super) batch: Vec<Record>,
    pub(super) copier: Copier,
    pub(super) epochs: u64,
    pub(super) closing: bool,
}

impl Reader {
    /// Reads until it is told to close or nobody listens.
    pub(super) fn run(mut self) {
        self.alarm.set_current_thread();
        let mut last_tick = Instant::now();
        while !self.closing && !self.outbox.is_gone() {
            let ticks = last_tick.elapsed() >= TICK;
            if ticks {
                last_tick = Instant::now();
            }
            if self.signal.take() || ticks || self.patience().is_zero() {
                self.serve_commands();
                self.serve_common_queue();
                self.serve_results();
                self.serve_rebalance();
                self.commits.send(&self.committer, &self.parts);
                self.outbox.flush();
            }
            if !self.serve_partitions(ticks) {
                std::thread::park_timeout(self.patience());
            }
        }
        self.shut_down();
    }

    fn patience(&self) -> Duration {
        let now = Instant::now();
        let due = self.step.as_ref().map(Step::due).into_iter().chain(self.commits.due());
        due.map(|at| at.saturating_duration_since(now)).fold(TICK, Duration::min)
    }

    /// Visits the partitions that want it; whether there is more to do at once.
    fn serve_partitions(&mut self, all: bool) -> bool {
        let mut more = false;
        let mut troubles = Vec::new();
        for (index, part) in self.parts.iter_mut().enumerate() {
            if !part.wants_visit() && (!all || part.is_idle()) {
                continue;
            }
            match part.visit(&mut self.batch, &mut self.copier) {
                Visit::Idle => {}
                Visit::More => more = true,
                Visit::Trouble(error) => troubles.push((index, error)),
            }
        }
        more |= !troubles.is_empty();
        for (index, error) in troubles {
            self.partition_trouble(index, &error);
        }
        more
    }

    fn serve_common_queue(&mut self) {
        let consumer = &self.consumer;
        let take = |event: KafkaResult<BorrowedMessage<'_>>| {
            // The context has the errors, with their texts.
            let Ok(message) = event else { return };
            let part = self.parts.iter_mut().find(|part| part.is(message.topic(), message.partition()));
            if let Some(part) = part {
                part.accept(&message, &mut self.copier);
            }
        };
        if !consumer.context().served.drain(EVENTS_PER_TURN, || consumer.poll(Duration::ZERO), take) {
            self.signal.raise();
        }
    }

    /// What librdkafka's callbacks left behind.
    fn serve_results(&mut self) {
        if let Some(result) = self.inbox.end_of_commit() {
            self.commits.finish(result, &mut self.parts);
        }
        while let Some((code, reason)) = self.inbox.next_error() {
            self.client_trouble(code, &reason);
        }
    }

    fn client_trouble(&mut self, code: RDKafkaErrorCode, reason: &str) {
        use RDKafkaErrorCode as Code;
        match code {
            Code::AllBrokersDown => self.shared.set_trouble(format!("no broker can be reached: {reason}")),
            Code::BrokerTransportFailure | Code::Resolve | Code::SSL => {
                tracing::debug!(%code, reason, "trouble with a broker");
            }
            // The watcher looks whether the topic is gone, and tells.
            Code::UnknownTopicOrPartition | Code::UnknownTopic => self.shared.trouble.notify_one(),
            // The partition's own queue has it as well.
            Code::AutoOffsetReset => {}
            code if client::is_final(code) => {
                let reason = match self.consumer.client().fatal_error() {
                    Some((code, reason)) => format!("{reason} ({code})"),
                    None => reason.to_owned(),
                };
                self.outbox.fail(Error::new(Kind::Broker, format!("the consumer cannot go on: {reason}")));
            }
            _ => tracing::warn!(%code, reason, "the consumer reports an error"),
        }
    }

    /// librdkafka stopped fetching a partition.
    fn partition_trouble(&mut self, index: usize, error: &KafkaError) {
        let Some(part) = self.parts.get(index) else { return };
        let place = part.place();
        let next = part.next;
        match client::code_of(error) {
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                self.out_of_range(&place, next);
            }
            Some(code) if client::is_final(code) => {
                self.outbox.fail(client::to_error(error, "cannot be read").at(name(&place)));
            }
            _ => {
                let error = client::text(error);
                tracing::warn!(topic = &*place.0, partition = place.1, error, "cannot be read now");
            }
        }
    }

    /// The log moved away under a partition that is being read.
    fn out_of_range(&mut self, place: &Place, position: i64) {
        let policy = self.subscription.topics.iter().find(|wanted| wanted.name == place.0);
        let policy = policy.map(|wanted| wanted.out_of_range).unwrap_or_default();
        let bounds = match self.lookup.bounds(std::slice::from_ref(place)) {
            Ok(bounds) => bounds.first().copied(),
            Err(error) => {
                tracing::warn!(topic = &*place.0, partition = place.1, error = %client::text(&error), "its ends are unknown");
                None
            }
        };
        // Without the ends of the log: the same place again, which brings the same error once more.
        let Some(bounds) = bounds else { return self.go_on(place, position) };
        match policy {
            OutOfRange::Stop => return self.outbox.fail(rebalance::out_of_range(place, position, bounds)),
            OutOfRange::Earliest | OutOfRange::Latest => {}
        }
        let to = if policy == OutOfRange::Latest { bounds.high } else { bounds.low };
        tracing::error!(topic = &*place.0, partition = place.1, to, "{}", begin::describe(position, bounds));
        self.go_on(place, to);
    }

    /// Fetches from `offset` on, into the same feed.
    fn go_on(&mut self, place: &Place, offset: i64) {
        if let Err(error) = self.move_to(place, offset) {
            self.outbox.fail(error);
        } else if let Some(part) = self.parts.iter_mut().find(|part| part.is(&place.0, place.1)) {
            part.next = offset;
        }
    }

    fn serve_commands(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.closing = true;
                    return;
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe => self.subscribe(),
            Command::Rejoin => {
                self.consumer.unsubscribe();
                self.subscribe(); // librdkafka does it when it has left
            }
            Command::Commit(positions, reply) => self.commits.add(positions, &self.parts, Some(reply)),
            Command::Seek(place, offset, reply) => {
                // Whoever asked may have given up waiting.
                let _gave_up = reply.send(self.seek(&place, offset));
            }
            Command::Take(places) => self.inbox.take_without_group(places),
            Command::Close => self.closing = true,
        }
    }

    fn subscribe(&mut self) {
        let names: Vec<&str> = self.subscription.topics.iter().map(|wanted| &*wanted.name).collect();
        if let Err(error) = self.consumer.subscribe(&names) {
            self.outbox.fail(client::to_error(&error, "cannot subscribe"));
        }
    }

    fn seek(&mut self, place: &Place, offset: i64) -> Result<Assignment> {
        let ours = self.parts.iter().find(|part| part.is(&place.0, place.1) && !part.is_stopped());
        if ours.is_none() {
            return Err(not_ours(name(place)));
        }
        self.move_to(place, offset)?;
        let epoch = self.next_epoch();
        self.commits.forget(place);
        let part = self.parts.iter_mut().find(|part| part.is(&place.0, place.1));
        let part = part.ok_or_else(|| not_ours(name(place)))?;
        part.restart(offset, epoch);
        self.signal.raise();
        Ok(Assignment { feed: Arc::clone(&part.feed), from: offset, committed: None, note: None })
    }

    /// Makes librdkafka fetch from `offset` on. It purges what it fetched before.
    fn move_to(&self, place: &Place, offset: i64) -> Result<()> {
        let moved = self.consumer.seek(&place.0, place.1, Offset::Offset(offset), SEEK_TIMEOUT);
        let Err(error) = moved else { return Ok(()) };
        // Not started yet, or nobody knows how far the seek got: taken anew, where it begins is certain.
        tracing::debug!(topic = &*place.0, partition = place.1, error = %client::text(&error), "taken anew for a seek");
        let again = || {
            let here = std::slice::from_ref(place);
            self.consumer.incremental_unassign(&rebalance::list(here, &[])?)?;
            self.consumer.incremental_assign(&rebalance::list(here, &[offset])?)
        };
        again().map_err(|error| client::to_error(&error, "cannot seek").at(name(place)))
    }

    pub(super) fn next_epoch(&mut self) -> u64 {
        self.epochs += 1;
        self.epochs
    }

    /// Leaves the group. Whichever of the consumer's two threads ends last drops it, closed by then.
    fn shut_down(mut self) {
        self.inbox.close();
        self.abandon_rebalance();
        self.parts.clear();
        if let Err(error) = self.consumer.close_queue() {
            // A consumer that failed for good has left already.
            tracing::debug!(error = %client::text(&error), "the consumer was closed before");
            return;
        }
        while !self.consumer.closed() {
            // Serves the last rebalance.
            let _record = self.consumer.poll(TICK);
        }
    }
}
