//! A member's side of the state: joining, owning, reading, committing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::assign::{MemberId, Tp};
use super::group::{Group, GroupId, Step};
use super::log::PartitionLog;
use super::start::{Begin, begin};
use super::state::{State, unknown};
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::message::{Record, place};
use crate::topic::driver::{Assignment, Feed, Kept, Membership, SeekTo, Subscription, Wanted, not_ours};

/// The most bytes that are moved to a feed at once: what a feed can exceed its bound by.
const BATCH_MAX_BYTES: usize = 256 * 1024;
/// The most records that are moved to a feed at once: bounds how long the broker is locked.
const BATCH_MAX_RECORDS: usize = 512;

/// One partition being read.
struct Reading {
    feed: Arc<Feed>,
    /// The first offset that the feed has not got.
    next: i64,
    /// The feed's reader has gone.
    ended: bool,
}

/// One reading app.
pub(super) struct Member {
    group: GroupId,
    wanted: BTreeMap<Arc<str>, Wanted>,
    readings: BTreeMap<Tp, Reading>,
}

impl Member {
    /// The next offset that this member reads there, if it reads there.
    pub(super) fn next(&self, tp: &Tp) -> Option<i64> {
        self.readings.get(tp).map(|reading| reading.next)
    }

    pub(super) fn forget(&mut self, topic: &Arc<str>) {
        self.readings.retain(|(own, _), _| own != topic);
    }
}

/// What a member's task has to tell its app.
pub(super) enum Todo {
    Lost(Vec<Tp>),
    Revoke(Vec<Tp>),
    Assigned(Vec<Assignment>),
    Failed(Error),
}

/// Records on their way to a feed.
pub(super) struct Delivery {
    pub feed: Arc<Feed>,
    pub records: Vec<Record>,
    pub bytes: usize,
}

impl State {
    // ---- membership -------------------------------------------------------------------------------------------------

    pub(super) fn join(&mut self, subscription: Subscription) -> Result<MemberId> {
        for wanted in &subscription.topics {
            self.ensure(&wanted.name, wanted.partitions)?;
        }
        self.last_member += 1;
        let member = self.last_member;
        let (group, known) = match subscription.group {
            Membership::Group(name) => (GroupId::Named(name), Vec::new()),
            Membership::Everything(positions) => (GroupId::Solo(member), positions),
        };
        let wanted: BTreeMap<_, _> = subscription.topics.into_iter().map(|own| (Arc::clone(&own.name), own)).collect();
        let entry = self.groups.entry(group.clone()).or_default();
        entry.join(member, wanted.keys().cloned().collect());
        for Kept { topic, partition, next, note, .. } in known {
            entry.set_note((Arc::clone(&topic), partition), note);
            // What it still needs of what lies before, it says when it has looked.
            entry.set_offset((topic, partition), next, 0);
        }
        self.members.insert(member, Member { group: group.clone(), wanted, readings: BTreeMap::new() });
        self.rebalance(&group);
        Ok(member)
    }

    /// The member has gone, properly or not; what it owned goes to others. Harmless when it has gone before.
    pub(super) fn leave(&mut self, member: MemberId) {
        let Some(Member { group: id, .. }) = self.members.remove(&member) else { return };
        if let Some(group) = self.groups.get_mut(&id) {
            group.leave(member);
        }
        if matches!(id, GroupId::Solo(_)) {
            self.groups.remove(&id);
        }
        self.rebalance(&id);
        self.trim_starved();
    }

    pub(super) fn rebalance_readers_of(&mut self, topic: &str) {
        let readers = self.groups.iter().filter(|(_, group)| group.is_interested(topic)).map(|(id, _)| id.clone());
        for id in readers.collect::<Vec<_>>() {
            self.rebalance(&id);
        }
    }

    fn rebalance(&mut self, id: &GroupId) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let topics = self.topics.iter().filter(|(name, _)| group.is_interested(name));
        let tps = topics.flat_map(|(name, topic)| topic.numbers().map(|partition| (Arc::clone(name), partition)));
        group.rebalance(&tps.collect::<Vec<_>>());
        self.news.steps = true;
    }

    // ---- steps ------------------------------------------------------------------------------------------------------

    fn group_of(&mut self, member: MemberId) -> Option<&mut Group> {
        self.groups.get_mut(&self.members.get(&member)?.group)
    }

    pub(super) fn has_step(&mut self, member: MemberId) -> bool {
        self.group_of(member).is_some_and(|group| group.has_step(member))
    }

    /// What the member's app has to be told next; it counts as told.
    pub(super) fn next_step(&mut self, member: MemberId) -> Option<Todo> {
        let step = self.group_of(member)?.next_step(member)?;
        self.end_readings(member);
        match step {
            Step::Lost(tps) => Some(Todo::Lost(tps)),
            Step::Revoke(tps) => Some(Todo::Revoke(tps)),
            Step::Own(tps) => Some(self.assign(member, tps).map_or_else(Todo::Failed, Todo::Assigned)),
        }
    }

    /// The member has answered a revocation, or has failed to (then without positions).
    pub(super) fn release(&mut self, member: MemberId, tps: &[Tp], positions: Vec<Position>) {
        self.commit(member, positions);
        if let Some(group) = self.group_of(member) {
            group.release(member, tps);
        }
        self.rebalance_group_of(member);
    }

    /// The member did not even hear that it should give up partitions: it loses them.
    pub(super) fn expire(&mut self, member: MemberId) {
        if let Some(group) = self.group_of(member) {
            group.expire(member);
        }
        self.end_readings(member);
        self.rebalance_group_of(member);
    }

    fn rebalance_group_of(&mut self, member: MemberId) {
        if let Some(id) = self.members.get(&member).map(|member| member.group.clone()) {
            self.rebalance(&id);
        }
    }

    /// Stops reading what the member may no longer read.
    fn end_readings(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(group) = self.groups.get(&member.group) else { return };
        member.readings.retain(|tp, _| group.reads(id, tp));
    }

    fn assign(&mut self, member: MemberId, tps: Vec<Tp>) -> Result<Vec<Assignment>> {
        tps.into_iter().map(|tp| self.assign_one(member, tp)).collect()
    }

    fn assign_one(&mut self, id: MemberId, tp: Tp) -> Result<Assignment> {
        let log = find(&self.topics, &tp)?;
        let member = self.members.get_mut(&id).ok_or_else(gone)?;
        let group = self.groups.get_mut(&member.group).ok_or_else(gone)?;
        let wanted = member.wanted.get(&tp.0).ok_or_else(gone)?;
        let (committed, note) = (group.offset(&tp), group.note(&tp));
        let Begin { from, reset } = begin(&tp, log, committed, wanted)?;
        // Reset once, not again at the next rebalance; and nobody needs what a member without a group begins behind.
        if reset || (committed.is_none() && matches!(member.group, GroupId::Solo(_))) {
            group.set_offset(tp.clone(), from, from);
        }
        let feed = member.read(tp, from);
        self.news.data = true;
        Ok(Assignment { feed, from, committed, note })
    }

    // ---- the driver's calls -----------------------------------------------------------------------------------------

    /// Keeps the positions of what is the member's own and forgets the others.
    pub(super) fn commit(&mut self, member: MemberId, positions: Vec<Position>) {
        let Some(group) = self.group_of(member) else { return };
        for Position { topic, partition, next, needed, note } in positions {
            let tp = (topic, partition);
            if group.holds(member, &tp) {
                group.set_note(tp.clone(), note);
                group.set_offset(tp, next, needed);
            }
        }
        self.trim_starved();
    }

    pub(super) fn resolve(&mut self, member: MemberId, tp: &Tp, to: SeekTo) -> Result<i64> {
        if !self.group_of(member).is_some_and(|group| group.reads(member, tp)) {
            return Err(not_ours(format!("{}[{}]", tp.0, tp.1)));
        }
        let log = find(&self.topics, tp)?;
        match to {
            SeekTo::Beginning => Ok(log.start()),
            SeekTo::End => Ok(log.end()),
            // As on Kafka, where a negative time means something else.
            SeekTo::Time(millis) if millis < 0 => {
                let message = format!("{millis} ms is before 1970");
                Err(Error::new(Kind::Seek, message).at(format!("{}[{}]", tp.0, tp.1)))
            }
            SeekTo::Time(millis) => Ok(log.at_time(millis)),
            SeekTo::Offset(offset) if log.covers(offset) => Ok(offset),
            SeekTo::Offset(offset) => {
                let message = format!("the log has {} to {}", log.start(), log.end());
                Err(Error::new(Kind::Seek, message).at(place(&tp.0, tp.1, offset)))
            }
        }
    }

    pub(super) fn seek(&mut self, id: MemberId, tp: Tp, offset: i64) -> Result<Assignment> {
        let from = self.resolve(id, &tp, SeekTo::Offset(offset))?;
        let committed = self.group_of(id).and_then(|group| group.offset(&tp));
        let feed = self.members.get_mut(&id).ok_or_else(gone)?.read(tp, from);
        self.news.data = true;
        Ok(Assignment { feed, from, committed, note: None })
    }

    // ---- feeding ----------------------------------------------------------------------------------------------------

    /// Takes a batch for every feed that has room; adds the feeds that had none while there is something for them to
    /// `blocked`.
    pub(super) fn deliver(&mut self, id: MemberId, blocked: &mut Vec<Arc<Feed>>) -> Vec<Delivery> {
        let Some(member) = self.members.get_mut(&id) else { return Vec::new() };
        let mut deliveries = Vec::new();
        for (tp, reading) in member.readings.iter_mut().filter(|(_, reading)| !reading.ended) {
            let Ok(log) = find(&self.topics, tp) else { continue };
            if reading.next >= log.end() {
                continue;
            }
            let room = reading.feed.queue.room().min(BATCH_MAX_RECORDS);
            if room == 0 {
                blocked.push(Arc::clone(&reading.feed));
                continue;
            }
            let mut records = Vec::with_capacity(room.min(64));
            let bytes = log.read(reading.next, room, BATCH_MAX_BYTES, &mut records);
            reading.next = records.last().map_or(reading.next, |record| record.offset + 1);
            deliveries.push(Delivery { feed: Arc::clone(&reading.feed), records, bytes });
        }
        if !deliveries.is_empty() {
            self.trim_starved();
        }
        deliveries
    }

    /// The feed's reader has gone; nothing more is read for it.
    pub(super) fn end_feed(&mut self, id: MemberId, feed: &Arc<Feed>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let readings = member.readings.values_mut();
        readings.filter(|reading| Arc::ptr_eq(&reading.feed, feed)).for_each(|reading| reading.ended = true);
    }
}

impl Member {
    fn read(&mut self, tp: Tp, next: i64) -> Arc<Feed> {
        let feed = Feed::new(&tp.0, tp.1);
        self.readings.insert(tp, Reading { feed: Arc::clone(&feed), next, ended: false });
        feed
    }
}

fn find<'a>(topics: &'a BTreeMap<Arc<str>, super::log::TopicLog>, tp: &Tp) -> Result<&'a PartitionLog> {
    topics.get(&tp.0).and_then(|topic| topic.partition(tp.1)).ok_or_else(|| unknown(&tp.0))
}

fn gone() -> Error {
    Error::new(Kind::Closed, "the member has left its group")
}
