//! Partitions that a group gives to nobody.
//!
//! A static member that comes back within its session gets what it had, and no new assignment is made: topics that its
//! new version reads as well, and partitions that were added while it was away, would be read by nobody (Kafka's
//! KIP-345 and KIP-814). A member that leaves and joins again makes the group assign everything anew.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use rdkafka::error::KafkaResult;

use super::client::Place;

/// How long they must have been nobody's: new topics and rebalances leave some alone for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two times that the member joins again although the first did not help.
const PATIENCE_MAX: Duration = Duration::from_mins(10);

/// What a look at the group found.
pub(super) enum Look {
    /// The group is about to move partitions, or is none whose assignments can be read.
    Moving,
    /// All partitions that somebody has.
    Stable(HashSet<Place>),
}

/// Decides when to join again.
pub(super) struct Leftover {
    since: Option<Instant>,
    patience: Duration,
    /// Whether the last look found all partitions with an owner.
    pub(super) none: bool,
}

impl Default for Leftover {
    fn default() -> Self {
        Self { since: None, patience: PATIENCE, none: false }
    }
}

impl Leftover {
    /// Those of `partitions` that are to be fetched by joining again now; none while it is too early.
    pub(super) fn after(&mut self, look: &Look, partitions: impl Iterator<Item = Place>, now: Instant) -> Vec<Place> {
        let Look::Stable(owned) = look else {
            self.since = None;
            return Vec::new();
        };
        let left: Vec<Place> = partitions.filter(|place| !owned.contains(place)).collect();
        self.none = left.is_empty();
        if self.none {
            *self = Self { none: true, ..Self::default() };
            return left;
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < self.patience {
            return Vec::new();
        }
        self.since = None;
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
        left
    }
}

/// The partitions of a member, from the bytes of the consumer protocol: version, topics each with its partitions. Bytes
/// of another form give none.
///
/// Source: Kafka's message `ConsumerProtocolAssignment`, whose later versions only append.
pub(super) fn decode(assignment: &[u8]) -> Option<Vec<Place>> {
    let mut bytes = Bytes::copy_from_slice(assignment);
    bytes.try_get_i16().ok()?;
    let mut places = Vec::new();
    for _ in 0..bytes.try_get_i32().ok()? {
        let length = usize::try_from(bytes.try_get_i16().ok()?).ok()?;
        if bytes.remaining() < length {
            return None;
        }
        let topic = std::sync::Arc::from(std::str::from_utf8(&bytes.split_to(length)).ok()?);
        for _ in 0..bytes.try_get_i32().ok()? {
            places.push((std::sync::Arc::clone(&topic), bytes.try_get_i32().ok()?));
        }
    }
    Some(places)
}

impl super::lookup::Lookup {
    /// Which partitions the members of a group have.
    pub(super) fn group(&self, group: &str) -> KafkaResult<Look> {
        let found = self.group_list(group)?;
        let Some(group) = found.groups().iter().find(|found| found.name() == group) else { return Ok(Look::Moving) };
        if group.state() != "Stable" || group.protocol_type() != "consumer" {
            return Ok(Look::Moving);
        }
        let decoded = group.members().iter().map(|member| member.assignment().map_or(Some(Vec::new()), decode));
        let owned = decoded.collect::<Option<Vec<_>>>();
        Ok(owned.map_or(Look::Moving, |owned| Look::Stable(owned.into_iter().flatten().collect())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn place(topic: &str, partition: i32) -> Place {
        (Arc::from(topic), partition)
    }

    #[test]
    fn reads_an_assignment_and_nothing_from_bytes_of_another_form() {
        let bytes = b"\0\x01\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x03\0\x02bc\0\0\0\0\xff\xff\xff\xff";
        assert_eq!(decode(bytes), Some(vec![place("a", 0), place("a", 3)]));
        for end in 0..bytes.len() - 4 {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        assert_eq!(decode(b"\0\0\x7f\xff\xff\xff\0\x01a\x7f\xff\xff\xff\0\0\0\x01"), None);
        assert_eq!(decode(b"\0\0\0\0\0\x01\xff\xff"), None, "a negative length");
        assert_eq!(decode(b"\0\0\0\0\0\x01\0\x01\xff\0\0\0\0"), None, "not UTF-8");
    }

    #[test]
    fn joins_again_when_partitions_were_nobodys_for_a_while_and_less_often_if_that_does_not_help() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let wanted = || [place("a", 0), place("b", 0)].into_iter();
        let some = Look::Stable([place("a", 0)].into());
        let all = Look::Stable(wanted().collect());
        let mut leftover = Leftover::default();

        assert!(leftover.after(&some, wanted(), at(0)).is_empty());
        assert!(leftover.after(&some, wanted(), at(4)).is_empty());
        assert_eq!(leftover.after(&some, wanted(), at(5)), [place("b", 0)]);
        assert!(!leftover.none);

        assert!(leftover.after(&some, wanted(), at(6)).is_empty());
        assert!(leftover.after(&some, wanted(), at(15)).is_empty());
        assert_eq!(leftover.after(&some, wanted(), at(16)), [place("b", 0)]);

        assert!(leftover.after(&all, wanted(), at(17)).is_empty());
        assert!(leftover.none);
        assert!(leftover.after(&some, wanted(), at(20)).is_empty());
        assert!(leftover.after(&Look::Moving, wanted(), at(23)).is_empty(), "a rebalance begins the wait anew");
        assert!(leftover.after(&some, wanted(), at(26)).is_empty());
        assert_eq!(leftover.after(&some, wanted(), at(31)), [place("b", 0)]);
    }
}
