//! A small app on a broker in memory: takes events, reads feeds, answers revocations.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::super::MemoryBackend;
use super::super::assign::Tp;
use crate::error::{Error, Result};
use crate::flow::Position;
use crate::message::{Headers, Record};
use crate::topic::driver::{
    Ack, Assignment, Backend, Driver, EVENTS_MAX, Event, Feed, Membership, OutOfRange, Outgoing, Receipt, Refusal,
    Refused, Start, Subscription, Wanted,
};

pub(super) const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn tp(partition: i32) -> Tp {
    ("t".into(), partition)
}

pub(super) fn at(partition: i32, next: i64) -> Position {
    Position { topic: "t".into(), partition, next, needed: next, note: None }
}

pub(super) fn wanted() -> Wanted {
    Wanted { name: "t".into(), start: Start::Earliest, out_of_range: OutOfRange::Stop, partitions: None, folded: None }
}

pub(super) fn group(name: &str) -> Subscription {
    subscription(Membership::Group(name.into()))
}

pub(super) fn subscription(group: Membership) -> Subscription {
    Subscription { topics: vec![wanted()], group, revoke_timeout: REVOKE_TIMEOUT }
}

pub(super) fn record(partition: Option<i32>, value: &str) -> Outgoing {
    Outgoing {
        topic: "t".into(),
        partition,
        key: None,
        value: Some(value.to_owned().into()),
        headers: Headers::new(),
        timestamp: None,
    }
}

/// Writes and gives the receipt, the error, or `None` when there is no room.
pub(super) fn write(backend: &MemoryBackend, record: Outgoing) -> Option<Result<Receipt>> {
    let (reply, mut answer) = oneshot::channel();
    match backend.writer().unwrap().write(record, Ack::Reply(reply)) {
        Ok(()) => Some(answer.try_recv().unwrap()),
        Err(Refused::Full(..)) => None,
        Err(Refused::Failed(error, _)) => Some(Err(error)),
    }
}

/// Writes what there is no room for.
pub(super) fn refused(backend: &MemoryBackend, record: Outgoing) -> Refusal {
    match backend.writer().unwrap().write(record, Ack::Reply(oneshot::channel().0)) {
        Err(Refused::Full(_, _, since)) => since,
        Ok(()) | Err(Refused::Failed(..)) => panic!("there was room"),
    }
}

/// Writes `count` records to one partition.
pub(super) fn fill(backend: &MemoryBackend, partition: i32, count: usize) {
    for _ in 0..count {
        write(backend, record(Some(partition), "x")).unwrap().unwrap();
    }
}

/// Lets every other task of this thread run until it waits.
pub(super) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// What of a feed was read.
pub(super) struct Lane {
    pub feed: Arc<Feed>,
    pub from: i64,
    pub committed: Option<i64>,
    batch: VecDeque<Record>,
}

pub(super) struct App {
    pub driver: Arc<dyn Driver>,
    pub events: mpsc::Receiver<Event>,
    pub lanes: BTreeMap<Tp, Lane>,
}

impl App {
    pub(super) fn start(backend: &MemoryBackend, subscription: Subscription) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        Self { driver: backend.subscribe(subscription, sender).unwrap(), events, lanes: BTreeMap::new() }
    }

    /// Starts and takes its first assignment.
    pub(super) async fn ready(backend: &MemoryBackend, subscription: Subscription) -> Self {
        let mut app = Self::start(backend, subscription);
        app.assigned().await;
        app
    }

    pub(super) async fn event(&mut self) -> Event {
        self.events.recv().await.expect("an event")
    }

    pub(super) fn take(&mut self, assignments: Vec<Assignment>) -> Vec<Tp> {
        let mut tps = Vec::new();
        for Assignment { feed, from, committed, .. } in assignments {
            let tp = (Arc::clone(&feed.topic), feed.partition);
            self.lanes.insert(tp.clone(), Lane { feed, from, committed, batch: VecDeque::new() });
            tps.push(tp);
        }
        tps
    }

    /// The next event, which is an assignment; what was assigned.
    pub(super) async fn assigned(&mut self) -> Vec<Tp> {
        match self.event().await {
            Event::Assigned(assignments) => self.take(assignments),
            _ => panic!("not an assignment"),
        }
    }

    /// The next event, which is a revocation.
    pub(super) async fn revoked(&mut self) -> (Vec<Tp>, bool, oneshot::Sender<Vec<Position>>) {
        match self.event().await {
            Event::Revoked { partitions, lost, answer } => {
                self.lanes.retain(|tp, _| !partitions.contains(tp));
                (partitions, lost, answer)
            }
            _ => panic!("not a revocation"),
        }
    }

    /// The next event, which is a failure.
    pub(super) async fn failed(&mut self) -> Error {
        match self.event().await {
            Event::Failed(error) => error,
            _ => panic!("not a failure"),
        }
    }

    pub(super) fn from(&self, partition: i32) -> i64 {
        self.lanes[&tp(partition)].from
    }

    /// The next record of a partition.
    pub(super) async fn next(&mut self, partition: i32) -> Record {
        let lane = self.lanes.get_mut(&tp(partition)).unwrap();
        if lane.batch.is_empty() {
            assert!(poll_fn(|cx| lane.feed.queue.poll_take(&mut lane.batch, cx)).await);
        }
        lane.batch.pop_front().unwrap()
    }

    /// The offsets of the next `count` records of a partition.
    pub(super) async fn offsets(&mut self, partition: i32, count: usize) -> Vec<i64> {
        let mut offsets = Vec::new();
        for _ in 0..count {
            offsets.push(self.next(partition).await.offset);
        }
        offsets
    }

    pub(super) async fn commit(&self, partition: i32, next: i64) {
        self.driver.commit(vec![at(partition, next)]).await.unwrap();
    }
}
