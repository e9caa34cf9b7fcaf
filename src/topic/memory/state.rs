//! Everything that a broker in memory knows: topics, groups, members. Decides only; who has to be woken is noted in
//! [`News`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::assign::{MemberId, Tp};
use super::group::{Group, GroupId};
use super::limits::{MemoryLimits, PARTITIONS_MAX};
use super::log::TopicLog;
use super::reading::Member;
use crate::error::{Error, Kind, Result};
use crate::message::{Record, Timestamp};
use crate::topic::driver::{Outgoing, Receipt, TopicDescription};

/// Names of topics are as long as in Kafka.
const TOPIC_NAME_LIMIT_BYTES: usize = 249;

/// What has changed since it was last taken.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Some member has something to do.
    pub steps: bool,
    /// There is something to feed.
    pub data: bool,
    /// A topic that was full has room.
    pub room: bool,
}

/// What became of a record.
pub(super) enum Written {
    At(Receipt),
    Full(Outgoing),
    Failed(Error),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) limits: MemoryLimits,
    pub(super) topics: BTreeMap<Arc<str>, TopicLog>,
    pub(super) groups: BTreeMap<GroupId, Group>,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) last_member: MemberId,
    pub(super) news: News,
}

impl State {
    pub(super) fn new(limits: MemoryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.topics.values().map(TopicLog::bytes).sum()
    }

    // ---- topics -----------------------------------------------------------------------------------------------------

    /// Creates the topic; an error if it exists.
    pub(super) fn create(&mut self, name: &Arc<str>, partitions: u32) -> Result<()> {
        if self.topics.contains_key(name) {
            return Err(Error::new(Kind::Broker, "the topic exists already").at(&**name));
        }
        check_topic(name)?;
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            let message = format!("a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}");
            return Err(Error::new(Kind::Config, message).at(&**name));
        }
        self.topics.insert(Arc::clone(name), TopicLog::new(partitions as usize));
        self.rebalance_readers_of(name);
        Ok(())
    }

    /// Creates the topic unless it exists.
    pub(super) fn ensure(&mut self, name: &Arc<str>, partitions: Option<u32>) -> Result<()> {
        if self.topics.contains_key(name) {
            return Ok(());
        }
        self.create(name, partitions.unwrap_or(self.limits.partitions))
    }

    pub(super) fn delete(&mut self, name: &Arc<str>) -> Result<()> {
        if self.topics.remove(name).is_none() {
            return Err(unknown(name));
        }
        self.groups.values_mut().for_each(|group| group.forget(name));
        self.members.values_mut().for_each(|member| member.forget(name));
        self.rebalance_readers_of(name);
        self.news.room = true;
        Ok(())
    }

    pub(super) fn describe(&self, name: &Arc<str>) -> Option<TopicDescription> {
        let topic = self.topics.get(name)?;
        let partitions = topic.partitions().iter().map(|log| (log.start(), log.end())).collect();
        Some(TopicDescription { name: name.to_string(), partitions })
    }

    // ---- writing ----------------------------------------------------------------------------------------------------

    /// Appends the record, stamped `now` (milliseconds since 1970-01-01 UTC) if it has no time of its own.
    pub(super) fn append(&mut self, record: Outgoing, now: i64) -> Written {
        match self.try_append(record, now) {
            Ok(Ok(receipt)) => {
                self.news.data = true;
                Written::At(receipt)
            }
            Ok(Err(record)) => Written::Full(record),
            Err(error) => Written::Failed(error),
        }
    }

    fn try_append(&mut self, record: Outgoing, now: i64) -> Result<std::result::Result<Receipt, Outgoing>> {
        let size = record.size_bytes();
        if size > self.limits.record_bytes {
            let message = format!("a record of {size} bytes; the broker takes {}", self.limits.record_bytes);
            return Err(Error::new(Kind::TooLarge, message).at(&*record.topic));
        }
        self.ensure(&record.topic, None)?;
        if !self.make_room(&record.topic, size + Record::default().size_bytes()) {
            return Ok(Err(record));
        }
        let name = Arc::clone(&record.topic);
        let topic = self.topics.get_mut(&name).ok_or_else(|| unknown(&name))?;
        let partition = record.partition.unwrap_or_else(|| topic.choose(record.key.as_deref()));
        match topic.append(partition, to_record(record, now)) {
            Some(offset) => Ok(Ok(Receipt { partition, offset })),
            None => Err(Error::new(Kind::UnknownTopic, format!("the topic has no partition {partition}")).at(&*name)),
        }
    }

    /// Whether a record of `size` fits, after a look for what may be dropped if it seems not.
    fn make_room(&mut self, name: &Arc<str>, size: usize) -> bool {
        let max = self.limits.topic_bytes;
        let fits = |state: &Self| state.topics.get(name).is_some_and(|topic| topic.has_room(size, max));
        // A starved topic was looked at; only a commit helps, and that looks by itself.
        let starved = self.topics.get(name).is_some_and(|topic| topic.starved);
        if fits(self) || (!starved && self.trim(name) && fits(self)) {
            return true;
        }
        if let Some(topic) = self.topics.get_mut(name) {
            topic.starved = true;
        }
        false
    }

    /// Drops what every reader of the topic is done with; whether that freed anything.
    fn trim(&mut self, name: &Arc<str>) -> bool {
        let Some(floors) = self.floors(name) else { return false };
        let Some(topic) = self.topics.get_mut(name) else { return false };
        let freed = topic.trim(&floors);
        topic.starved &= !freed;
        freed
    }

    /// To be called when a reader has moved on or left: makes room where a writer waits for it.
    pub(super) fn trim_starved(&mut self) {
        let starved = self.topics.iter().filter(|(_, topic)| topic.starved).map(|(name, _)| Arc::clone(name));
        for name in starved.collect::<Vec<_>>() {
            self.news.room |= self.trim(&name);
        }
    }

    /// For each partition the offset below which no group needs anything: not committed is needed, and so is what a
    /// member has gone back to. `None` when no group has ever read the topic: the first one will want all of it.
    fn floors(&self, name: &Arc<str>) -> Option<Vec<i64>> {
        let topic = self.topics.get(name)?;
        let groups: Vec<&Group> = self.groups.values().filter(|group| group.knows(name)).collect();
        if groups.is_empty() {
            return None;
        }
        let floor = |(partition, start): (i32, i64)| {
            let tp: Tp = (Arc::clone(name), partition);
            let committed = groups.iter().map(|group| group.needed(&tp).unwrap_or(start));
            let reading = self.members.values().filter_map(|member| member.next(&tp));
            committed.chain(reading).min().unwrap_or(start)
        };
        let starts = topic.partitions().iter().map(super::log::PartitionLog::start);
        Some(topic.numbers().zip(starts).map(floor).collect())
    }
}

fn to_record(record: Outgoing, now: i64) -> Record {
    let timestamp = Timestamp::Created(record.timestamp.unwrap_or(now));
    Record { key: record.key, value: record.value, headers: record.headers, timestamp, offset: 0 }
}

pub(super) fn unknown(name: &str) -> Error {
    Error::new(Kind::UnknownTopic, "there is no such topic").at(name)
}

/// As strict as Kafka, so that a name that works here works there.
fn check_topic(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=TOPIC_NAME_LIMIT_BYTES).contains(&name.len()) && !matches!(name, "." | "..") && name.chars().all(legal) {
        return Ok(());
    }
    let rule = "up to 249 ASCII letters, digits, `.`, `_` and `-`";
    Err(Error::new(Kind::Config, format!("topic `{}` is not a valid name: {rule}", name.escape_debug())))
}
