//! Offset → position within a segment, sparse.

/// Entries after which every second one is given up.
const MAX_ENTRIES: usize = 131_072;

/// Places that readers or the writer came by lately.
const HINTS: usize = 8;

/// Where a record begins, counted from the beginning of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Records before it.
    pub(super) record: u32,
    /// Bytes before it.
    pub(super) position: u32,
}

impl Place {
    pub(super) fn new(record: u64, position: u64) -> Option<Self> {
        Some(Self { record: u32::try_from(record).ok()?, position: u32::try_from(position).ok()? })
    }
}

/// One entry for the first record and then one at least every `interval` bytes; at most [`MAX_ENTRIES`], 1 MiB.
#[derive(Debug)]
pub(super) struct Index {
    interval: u64,
    entries: Vec<Place>,
    hints: [Place; HINTS],
    turn: usize,
}

impl Index {
    pub(super) fn new(interval: u64) -> Self {
        Self { interval: interval.max(1), entries: Vec::new(), hints: [Place::default(); HINTS], turn: 0 }
    }

    /// Takes note of a record. Records come in order.
    #[inline]
    pub(super) fn note(&mut self, record: u64, position: u64) {
        if self.entries.last().is_some_and(|last| position < u64::from(last.position) + self.interval) {
            return;
        }
        if self.entries.len() == MAX_ENTRIES {
            self.thin();
        }
        self.entries.extend(Place::new(record, position));
    }

    /// Remembers a place that is likely to be asked for next.
    pub(super) fn hint(&mut self, record: u64, position: u64) {
        let Some(place) = Place::new(record, position) else { return };
        if let Some(slot) = self.hints.get_mut(self.turn) {
            *slot = place;
        }
        self.turn = (self.turn + 1) % HINTS;
    }

    /// The nearest known place that is not behind `record`.
    pub(super) fn floor(&self, record: u64) -> Place {
        let not_behind = |place: &&Place| u64::from(place.record) <= record;
        let after = self.entries.partition_point(|place| u64::from(place.record) <= record);
        let entry = self.entries.get(..after).and_then(<[Place]>::last).copied().unwrap_or_default();
        let hint = self.hints.iter().filter(not_behind).max_by_key(|place| place.record).copied().unwrap_or_default();
        if hint.record > entry.record { hint } else { entry }
    }

    /// Forgets what lies at or behind `record`: the log was cut there.
    pub(super) fn cut(&mut self, record: u64) {
        self.entries.retain(|place| u64::from(place.record) < record);
        self.hints = self.hints.map(|place| if u64::from(place.record) < record { place } else { Place::default() });
    }

    fn thin(&mut self) {
        let mut keep = false;
        self.entries.retain(|_| {
            keep = !keep;
            keep
        });
        self.interval *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_last_entry_or_hint_that_is_not_behind() {
        let mut index = Index::new(100);
        for record in 0..100 {
            index.note(record, record * 30);
        }
        assert_eq!(index.floor(0), Place::default());
        assert_eq!(index.floor(9), Place { record: 8, position: 240 });
        index.hint(9, 270);
        assert_eq!(index.floor(9), Place { record: 9, position: 270 });
        assert_eq!(index.floor(8), Place { record: 8, position: 240 });
        index.cut(8);
        assert_eq!(index.floor(50), Place { record: 4, position: 120 });
    }

    #[test]
    fn a_full_index_keeps_every_second_entry() {
        let mut index = Index::new(1);
        for record in 0..=MAX_ENTRIES as u64 {
            index.note(record, record * 9);
        }
        assert!(index.entries.len() <= MAX_ENTRIES / 2 + 1);
        assert_eq!(index.floor(7), Place { record: 6, position: 54 });
    }
}
