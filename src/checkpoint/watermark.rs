//! How far a dependency is: the minimum over its partitions, each at the highest marker of what is done there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::mark::Mark;

/// How far a dependency is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Nowhere: it covers nothing.
    Nothing,
    /// At this marker.
    At(Mark),
    /// It has ended: what it had to bring is there.
    Everything,
}

impl Reach {
    pub(super) fn mark(self) -> Option<Mark> {
        match self {
            Self::At(mark) => Some(mark),
            Self::Nothing | Self::Everything => None,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Partition {
    mark: Option<Mark>,
    /// When something came last.
    seen: Duration,
    has_ended: bool,
}

/// The partitions of one dependency.
#[derive(Debug, Clone)]
pub(super) struct Watermark {
    parts: BTreeMap<i32, Partition>,
    idle_after: Option<Duration>,
    reach: Reach,
    /// The highest marker of all partitions.
    highest: Option<Mark>,
}

impl Watermark {
    pub(super) fn new(idle_after: Option<Duration>) -> Self {
        Self { parts: BTreeMap::new(), idle_after, reach: Reach::Nothing, highest: None }
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    pub(super) fn highest(&self) -> Option<Mark> {
        self.highest
    }

    /// These partitions are read, each with what was kept of it.
    pub(super) fn assigned(&mut self, partitions: &[(i32, Option<Mark>)], now: Duration) {
        for (partition, kept) in partitions {
            let part = self.parts.entry(*partition).or_default();
            part.mark = part.mark.max(*kept);
            part.seen = now;
            self.highest = self.highest.max(*kept);
        }
        self.update(now);
    }

    /// Everything up to this marker is done in a partition. Markers only move forward.
    pub(super) fn advance(&mut self, partition: i32, mark: Mark, now: Duration) {
        let part = self.parts.entry(partition).or_default();
        part.mark = part.mark.max(Some(mark));
        part.seen = now;
        self.highest = self.highest.max(Some(mark));
        self.update(now);
    }

    /// A marker for all partitions that have none.
    pub(super) fn seed(&mut self, mark: Mark) {
        self.reach = self.reach.max(Reach::At(mark));
    }

    pub(super) fn end(&mut self, partition: i32, now: Duration) {
        self.parts.entry(partition).or_default().has_ended = true;
        self.update(now);
    }

    /// Looks who is silent; true when that moved the watermark.
    pub(super) fn tick(&mut self, now: Duration) -> bool {
        let before = self.reach;
        self.update(now);
        self.reach != before
    }

    /// What is kept of a partition.
    pub(super) fn of(&self, partition: i32) -> Option<Mark> {
        self.parts.get(&partition).and_then(|part| part.mark)
    }

    /// The partitions that hold it back: those with the lowest marker, or without one.
    pub(super) fn holding_back(&self) -> Vec<i32> {
        let open = self.parts.iter().filter(|(_, part)| !part.has_ended);
        let lowest = open.clone().map(|(_, part)| part.mark).min();
        open.filter(|(_, part)| Some(part.mark) == lowest).map(|(partition, _)| *partition).collect()
    }

    fn is_idle(&self, part: &Partition, now: Duration) -> bool {
        self.idle_after.is_some_and(|limit| now.saturating_sub(part.seen) >= limit)
    }

    fn update(&mut self, now: Duration) {
        if self.parts.is_empty() {
            return;
        }
        if self.parts.values().all(|part| part.has_ended) {
            self.reach = Reach::Everything;
            return;
        }
        let open = self.parts.values().filter(|part| !part.has_ended && !self.is_idle(part, now));
        // When all are silent it stays where it is; it never goes back.
        if let Some(Some(lowest)) = open.map(|part| part.mark).min() {
            self.reach = self.reach.max(Reach::At(lowest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Marker as _;

    const T0: Duration = Duration::ZERO;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_partition_without_a_marker_holds_it_back() {
        let mut watermark = Watermark::new(None);
        watermark.assigned(&[(0, None), (1, None)], T0);
        watermark.advance(0, 9.mark(), T0);
        assert_eq!(watermark.reach(), Reach::Nothing);
        assert_eq!(watermark.holding_back(), [1]);
        watermark.advance(1, 5.mark(), T0);
        assert_eq!(watermark.reach(), Reach::At(5.mark()));
        watermark.assigned(&[(2, None)], T0);
        assert_eq!(watermark.reach(), Reach::At(5.mark()), "a new partition does not take it back");
        watermark.advance(1, 8.mark(), T0);
        assert_eq!(watermark.reach(), Reach::At(5.mark()), "but holds it");
    }

    #[test]
    fn b_41_a_silent_partition_leaves_the_minimum_and_when_all_are_silent_it_stays() {
        let mut watermark = Watermark::new(Some(at(10)));
        watermark.assigned(&[(0, None), (1, None)], T0);
        watermark.advance(0, 5.mark(), at(1));
        watermark.advance(0, 7.mark(), at(9));
        assert!(watermark.tick(at(10)), "1 said nothing for ten seconds");
        assert_eq!(watermark.reach(), Reach::At(7.mark()));
        assert!(!watermark.tick(at(100)));
        assert_eq!(watermark.reach(), Reach::At(7.mark()));
        watermark.advance(1, 6.mark(), at(101));
        watermark.advance(0, 9.mark(), at(101));
        assert_eq!(watermark.reach(), Reach::At(7.mark()), "one that comes back late does not take it back");
    }

    #[test]
    fn what_has_ended_holds_nothing_back() {
        let mut watermark = Watermark::new(None);
        watermark.assigned(&[(0, Some(3.mark())), (1, None)], T0);
        watermark.end(1, T0);
        assert_eq!(watermark.reach(), Reach::At(3.mark()));
        watermark.end(0, T0);
        assert_eq!(watermark.reach(), Reach::Everything);
    }
}
