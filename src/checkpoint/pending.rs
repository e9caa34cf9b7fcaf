//! What one partition of the dependent has handled ahead of its dependencies.

use std::collections::VecDeque;

use super::mark::Mark;

/// Messages that are told apart; beyond them neighbours merge.
pub(super) const PENDING_MAX: usize = 1024;

/// Offsets with their markers, in the order of offsets. An entry may stand for several messages, by the lowest offset
/// and the highest marker of them, so that merging only makes the first one earlier.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending(VecDeque<(i64, Mark)>);

impl Pending {
    pub(super) fn push(&mut self, offset: i64, mark: Mark) {
        if self.0.len() >= PENDING_MAX {
            self.merge();
        }
        self.0.push_back((offset, mark));
    }

    /// Every two neighbours become one.
    fn merge(&mut self) {
        let old: Vec<_> = self.0.drain(..).collect();
        let merged = old.chunks(2).filter_map(|pair| {
            let (offset, _) = pair.first()?;
            Some((*offset, pair.iter().map(|(_, mark)| *mark).max()?))
        });
        self.0.extend(merged);
    }

    /// Forgets what is covered, up to the first that is not.
    pub(super) fn trim(&mut self, is_covered: impl Fn(Mark) -> bool) {
        while self.0.front().is_some_and(|(_, mark)| is_covered(*mark)) {
            self.0.pop_front();
        }
    }

    /// Forgets the last message, if it is this one.
    pub(super) fn forget(&mut self, offset: i64) {
        if self.0.back().is_some_and(|(own, _)| *own == offset) {
            self.0.pop_back();
        }
    }

    /// Forgets what lies at this offset and behind it.
    pub(super) fn cut(&mut self, at: i64) {
        self.0.retain(|(offset, _)| *offset < at);
    }

    /// The first message that is not covered.
    pub(super) fn first(&self) -> Option<i64> {
        self.0.front().map(|(offset, _)| *offset)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Marker as _;

    #[test]
    fn beyond_its_bound_the_first_message_only_gets_earlier() {
        let mut pending = Pending::default();
        let last = i64::try_from(PENDING_MAX * 5).unwrap();
        (0..last).for_each(|offset| pending.push(offset, offset.mark()));
        assert!(pending.0.len() <= PENDING_MAX);
        for covered in 0..last {
            pending.trim(|mark| mark <= covered.mark());
            let exact = covered + 1;
            assert!(pending.first().unwrap_or(last) <= exact, "{:?} after {covered}", pending.first());
        }
        assert!(pending.is_empty());
    }
}
