//! Which partition a record belongs to.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::booblik::wire::Partitioner;
use crate::error::{Error, Kind, Result};
use crate::topic::driver::Outgoing;

/// Records without a key that go to one partition before the next one has its turn.
const RUN: u32 = 8;

/// Spreads records over the partitions of a topic: as all clients of the protocol by key, in turn without one.
pub(super) struct Spread {
    count: NonZeroU32,
    turn: AtomicU32,
}

impl Spread {
    /// Over `count` partitions; `None` for none.
    pub(super) fn new(count: usize) -> Option<Self> {
        let count = u32::try_from(count).ok().and_then(NonZeroU32::new)?;
        Some(Self { count, turn: AtomicU32::new(0) })
    }

    /// The place of the record's partition in the list of partitions.
    ///
    /// Errors: `Kind::UnknownTopic` for a partition that does not exist.
    #[inline]
    pub(super) fn choose(&self, record: &Outgoing) -> Result<usize> {
        let at = match (record.partition, &record.key) {
            (Some(partition), _) => return self.check(record, partition),
            (None, Some(key)) => Partitioner::default().partition(key, self.count),
            (None, None) => self.turn.fetch_add(1, Ordering::Relaxed) / RUN % self.count,
        };
        Ok(at as usize)
    }

    fn check(&self, record: &Outgoing, partition: i32) -> Result<usize> {
        let at = u32::try_from(partition).ok().filter(|at| *at < self.count.get());
        let unknown = || Error::new(Kind::UnknownTopic, format!("the topic has no partition {partition}"));
        at.map(|at| at as usize).ok_or_else(|| unknown().at(&*record.topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    fn record(key: Option<&'static str>, partition: Option<i32>) -> Outgoing {
        let key = key.map(Into::into);
        Outgoing { topic: "t".into(), partition, key, value: None, headers: Headers::new(), timestamp: None }
    }

    #[test]
    fn a_key_goes_where_every_client_of_the_protocol_sends_it() {
        let spread = Spread::new(3).unwrap();
        let chosen = ["user-1", "user-2"].map(|key| spread.choose(&record(Some(key), None)).unwrap());
        assert_eq!(chosen, [1, 1], "as the golden vectors of the wire format have it");
        assert_eq!(spread.choose(&record(Some("user-1"), Some(2))).unwrap(), 2);
        assert_eq!(spread.choose(&record(None, Some(3))).unwrap_err().kind(), Kind::UnknownTopic);
        assert_eq!(spread.choose(&record(None, Some(-1))).unwrap_err().kind(), Kind::UnknownTopic);
        assert!(Spread::new(0).is_none());
    }

    #[test]
    fn records_without_a_key_come_to_every_partition() {
        let spread = Spread::new(3).unwrap();
        let mut counts = [0; 3];
        (0..24 * 3).for_each(|_| counts[spread.choose(&record(None, None)).unwrap()] += 1);
        assert_eq!(counts, [24; 3]);
    }
}
