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
    /// When something was done last.
    seen: Duration,
    /// Something is being handled.
    is_busy: bool,
    /// What was kept of it is there.
    is_assigned: bool,
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
    /// Messages that came when others had been told that theirs were all.
    late: u64,
    expected: Expected,
}

/// How many partitions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Those that come.
    Any,
    /// Nobody knows yet.
    Unknown,
    Count(usize),
}

impl Watermark {
    pub(super) fn new(idle_after: Option<Duration>) -> Self {
        Self {
            parts: BTreeMap::new(),
            idle_after,
            reach: Reach::Nothing,
            highest: None,
            late: 0,
            expected: Expected::Any,
        }
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    pub(super) fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn highest(&self) -> Option<Mark> {
        self.highest
    }

    /// How many partitions there are, `None` while nobody knows: those that have not come yet hold it back.
    pub(super) fn expects(&mut self, partitions: Option<usize>, now: Duration) {
        self.expected = partitions.map_or(Expected::Unknown, Expected::Count);
        for partition in 0..i32::try_from(partitions.unwrap_or(0)).unwrap_or(i32::MAX) {
            self.parts.entry(partition).or_default();
        }
        self.update(now);
    }

    /// Whether what was kept of its partitions is there.
    pub(super) fn is_assigned(&self) -> bool {
        match self.expected {
            Expected::Any => !self.parts.is_empty(),
            Expected::Unknown => false,
            Expected::Count(_) => self.parts.values().all(|part| part.is_assigned || part.has_ended),
        }
    }

    /// A partition is read from another place, by someone's wish: what it has brought is not known. The only way back.
    pub(super) fn sought(&mut self, partition: i32, now: Duration) {
        let part = self.parts.entry(partition).or_default();
        (part.mark, part.seen) = (None, now);
        self.reach = Reach::Nothing;
        self.update(now);
    }

    /// These partitions are read, each with what was kept of it.
    pub(super) fn assigned(&mut self, partitions: &[(i32, Option<Mark>)], now: Duration) {
        for (partition, kept) in partitions {
            let part = self.parts.entry(*partition).or_default();
            part.mark = part.mark.max(*kept);
            part.seen = now;
            part.is_assigned = true;
            self.highest = self.highest.max(*kept);
        }
        self.update(now);
    }

    /// Everything up to this marker is done in a partition. Markers only move forward.
    pub(super) fn advance(&mut self, partition: i32, mark: Mark, now: Duration) {
        self.late += u64::from(Reach::At(mark) < self.reach);
        let part = self.parts.entry(partition).or_default();
        part.mark = part.mark.max(Some(mark));
        part.seen = now;
        self.highest = self.highest.max(Some(mark));
        self.update(now);
    }

    /// Whether anything of a partition is being handled: then it is not silent.
    pub(super) fn busy(&mut self, partition: i32, is_busy: bool, now: Duration) {
        let part = self.parts.entry(partition).or_default();
        part.is_busy = is_busy;
        part.seen = now;
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
        let is_read = part.is_assigned || self.expected == Expected::Any;
        is_read && !part.is_busy && self.idle_after.is_some_and(|limit| now.saturating_sub(part.seen) >= limit)
    }

    fn update(&mut self, now: Duration) {
        if self.parts.is_empty() || self.expected == Expected::Unknown {
            return;
        }
        if self.parts.values().all(|part| part.has_ended) {
            self.reach = Reach::Everything;
            return;
        }
        let open = || self.parts.values().filter(|part| !part.has_ended);
        let lowest = match open().filter(|part| !self.is_idle(part, now)).map(|part| part.mark).min() {
            Some(lowest) => lowest,
            // All are silent: it is where it was when the last of those fell silent that brought anything.
            None => {
                let brought = || open().filter(|part| part.mark.is_some());
                let last = brought().map(|part| part.seen).max();
                brought().filter(|part| Some(part.seen) == last).map(|part| part.mark).min().flatten()
            }
        };
        // It never goes back.
        self.reach = lowest.map_or(self.reach, |lowest| self.reach.max(Reach::At(lowest)));
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
        assert_eq!(watermark.late(), 1);
    }

    #[test]
    fn b_41_an_empty_partition_leaves_the_minimum_also_when_all_fall_silent_together() {
        let mut watermark = Watermark::new(Some(at(10)));
        watermark.assigned(&[(0, None), (1, None), (2, None)], T0);
        watermark.advance(0, 9.mark(), T0);
        watermark.advance(1, 8.mark(), T0);
        assert!(watermark.tick(at(11)));
        assert_eq!(watermark.reach(), Reach::At(8.mark()), "what both have brought");
        let mut again = Watermark::new(Some(at(10)));
        again.assigned(&[(0, Some(9.mark())), (1, None)], T0);
        assert!(again.tick(at(10)), "as after a restart");
        assert_eq!(again.reach(), Reach::At(9.mark()));
    }

    #[test]
    fn a_partition_whose_message_is_being_handled_is_not_silent() {
        let mut watermark = Watermark::new(Some(at(10)));
        watermark.assigned(&[(0, None), (1, None)], T0);
        watermark.busy(0, true, at(1));
        watermark.advance(1, 9.mark(), at(2));
        assert!(!watermark.tick(at(60)));
        assert_eq!(watermark.reach(), Reach::Nothing);
        watermark.busy(0, false, at(60));
        assert!(!watermark.tick(at(69)));
        watermark.advance(1, 12.mark(), at(69));
        assert!(watermark.tick(at(70)), "ten seconds after it was done");
        assert_eq!(watermark.reach(), Reach::At(12.mark()));
    }

    #[test]
    fn partitions_that_have_not_come_yet_hold_it_back() {
        let mut watermark = Watermark::new(Some(at(10)));
        watermark.expects(None, T0);
        watermark.assigned(&[(1, Some(9.mark()))], T0);
        assert_eq!((watermark.reach(), watermark.is_assigned()), (Reach::Nothing, false), "nobody knows how many");
        watermark.expects(Some(2), T0);
        watermark.tick(at(60));
        assert_eq!((watermark.reach(), watermark.is_assigned()), (Reach::Nothing, false), "silent is who is read");
        watermark.assigned(&[(0, Some(4.mark()))], at(60));
        assert_eq!((watermark.reach(), watermark.is_assigned()), (Reach::At(4.mark()), true));
    }

    #[test]
    fn a_seek_takes_back_what_its_partition_has_brought() {
        let mut watermark = Watermark::new(None);
        watermark.assigned(&[(0, Some(9.mark())), (1, Some(8.mark()))], T0);
        watermark.sought(0, T0);
        assert_eq!((watermark.reach(), watermark.of(0)), (Reach::Nothing, None));
        watermark.advance(0, 3.mark(), T0);
        assert_eq!(watermark.reach(), Reach::At(3.mark()));
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
