//! Which records go out when: pure, with the time given.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::batch::{Batch, Cell};

/// When a batch is full, and how long one that is not may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_records: usize,
    /// Of the request.
    pub(super) max_bytes: usize,
    pub(super) linger: Duration,
}

/// A record for one partition, with the room that it takes.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) record: Bytes,
    pub(super) cost: usize,
}

/// What the one who sends does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A batch can be [taken](Accumulator::take).
    Send,
    /// Nothing before this time, unless something comes.
    WaitUntil(Instant),
    /// Nothing until something comes.
    Wait,
    /// Nothing any more.
    Finish,
}

/// Batches that fill up, and batches that are to be sent.
///
/// All open batches share one window, which begins with the first record after the last window. When it ends, or any
/// batch is full, all of them are to be sent, in the order in which they were begun.
#[derive(Debug)]
pub(super) struct Accumulator {
    limits: Limits,
    room: Arc<Semaphore>,
    open: HashMap<Arc<str>, HashMap<i32, Batch>>,
    /// Batches that were begun so far.
    begun: u64,
    window: Option<Instant>,
    ready: VecDeque<Batch>,
    /// Outcomes that may still be awaited, in the order of the batches.
    outcomes: VecDeque<Cell>,
    is_closed: bool,
}

impl Accumulator {
    pub(super) fn new(limits: Limits, room: Arc<Semaphore>) -> Self {
        Self {
            limits,
            room,
            open: HashMap::new(),
            begun: 0,
            window: None,
            ready: VecDeque::new(),
            outcomes: VecDeque::new(),
            is_closed: false,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether a record has begun a window, or filled one up: the one who sends has to look again then.
    pub(super) fn push(&mut self, now: Instant, topic: &str, partition: i32, item: Item) -> (Cell, usize, bool) {
        let mut is_news = self.window.is_none();
        self.window.get_or_insert(now);
        if !self.fits(topic, partition, &item.record) {
            self.release(now);
            self.window = Some(now);
            is_news = true;
        }
        let limits = self.limits;
        let batch = self.open_batch(topic, partition);
        let index = batch.push(item.record, item.cost);
        let outcome = Arc::clone(batch.outcome());
        if batch.records.len() >= limits.max_records || batch.frame_bytes(0, 0) >= limits.max_bytes {
            self.release(now);
            is_news = true;
        }
        (outcome, index, is_news)
    }

    /// Whether the open batch of a partition, if there is one, has room for a record.
    fn fits(&self, topic: &str, partition: i32, record: &Bytes) -> bool {
        let open = self.open.get(topic).and_then(|open| open.get(&partition));
        open.is_none_or(|batch| batch.frame_bytes(1, record.len()) <= self.limits.max_bytes)
    }

    /// The open batch of a partition, which is begun if there is none.
    fn open_batch(&mut self, topic: &str, partition: i32) -> &mut Batch {
        let known = self.open.get_key_value(topic).map(|(name, _)| Arc::clone(name));
        let topic = known.unwrap_or_else(|| topic.into());
        let (begun, outcomes, room) = (&mut self.begun, &mut self.outcomes, &self.room);
        self.open.entry(Arc::clone(&topic)).or_default().entry(partition).or_insert_with(|| {
            *begun += 1;
            let batch = Batch::new(topic, partition, *begun, Arc::clone(room));
            remember(outcomes, batch.outcome());
            batch
        })
    }

    /// All open batches are to be sent, and the window is over.
    pub(super) fn release(&mut self, now: Instant) {
        self.window = None;
        let first = self.ready.len();
        for mut batch in self.open.drain().flat_map(|(_, open)| open.into_values()) {
            batch.ready_at = Some(now);
            self.ready.push_back(batch);
        }
        if let Some(new) = self.ready.make_contiguous().get_mut(first..) {
            new.sort_unstable_by_key(|batch| batch.number);
        }
    }

    pub(super) fn close(&mut self, now: Instant) {
        self.is_closed = true;
        self.release(now);
    }

    /// The outcomes of all batches that are not finished.
    pub(super) fn unfinished(&self) -> Vec<Cell> {
        self.outcomes.iter().filter(|outcome| !outcome.initialized()).cloned().collect()
    }

    pub(super) fn step(&mut self, now: Instant) -> Step {
        let due = self.window.map(|start| start + self.limits.linger);
        if due.is_some_and(|due| due <= now) {
            self.release(now);
        }
        match due {
            _ if !self.ready.is_empty() => Step::Send,
            _ if self.is_closed => Step::Finish,
            Some(due) => Step::WaitUntil(due),
            None => Step::Wait,
        }
    }

    /// The oldest batch that is to be sent.
    pub(super) fn take(&mut self) -> Option<Batch> {
        self.ready.pop_front()
    }
}

fn remember(outcomes: &mut VecDeque<Cell>, outcome: &Cell) {
    while outcomes.front().is_some_and(|outcome| outcome.initialized()) {
        outcomes.pop_front();
    }
    outcomes.push_back(Arc::clone(outcome));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn accumulator(max_records: usize, max_bytes: usize) -> Accumulator {
        let limits = Limits { max_records, max_bytes, linger: 5 * MILLI };
        Accumulator::new(limits, Arc::new(Semaphore::new(0)))
    }

    fn push(accumulator: &mut Accumulator, now: Instant, topic: &str, partition: i32, record: &'static str) -> usize {
        let item = Item { record: Bytes::from_static(record.as_bytes()), cost: record.len() };
        accumulator.push(now, topic, partition, item).1
    }

    fn taken(accumulator: &mut Accumulator) -> Vec<(String, i32, usize)> {
        let batches = std::iter::from_fn(|| accumulator.take());
        batches.map(|batch| (batch.topic.to_string(), batch.partition, batch.records.len())).collect()
    }

    #[test]
    fn a_window_begins_with_its_first_record_and_is_not_prolonged() {
        let (mut some, start) = (accumulator(100, 10_000), Instant::now());
        assert_eq!(some.step(start), Step::Wait);
        push(&mut some, start, "a", 0, "one");
        push(&mut some, start + 4 * MILLI, "b", 1, "two");
        assert_eq!(some.step(start + 4 * MILLI), Step::WaitUntil(start + 5 * MILLI));
        assert_eq!(some.step(start + 5 * MILLI), Step::Send);
        assert_eq!(taken(&mut some), [("a".to_owned(), 0, 1), ("b".to_owned(), 1, 1)]);
        assert_eq!(some.step(start + 5 * MILLI), Step::Wait);
    }

    #[test]
    fn the_next_window_lasts_as_long_as_the_first() {
        let (mut some, start) = (accumulator(100, 10_000), Instant::now());
        push(&mut some, start, "a", 0, "one");
        assert_eq!(some.step(start + 9 * MILLI), Step::Send);
        taken(&mut some);
        push(&mut some, start + 20 * MILLI, "a", 0, "two");
        assert_eq!(some.step(start + 20 * MILLI), Step::WaitUntil(start + 25 * MILLI));
    }

    #[test]
    fn a_full_batch_sends_all_of_them() {
        let (mut some, now) = (accumulator(3, 10_000), Instant::now());
        for (partition, record) in [(0, "one"), (1, "two"), (0, "three"), (0, "four")] {
            push(&mut some, now, "a", partition, record);
        }
        assert_eq!(some.step(now), Step::Send);
        assert_eq!(taken(&mut some), [("a".to_owned(), 0, 3), ("a".to_owned(), 1, 1)]);
    }

    #[test]
    fn a_record_that_does_not_fit_begins_the_next_batch() {
        // 19 + 1 for the request, 4 + 3 for each record.
        let (mut some, now) = (accumulator(100, 20 + 2 * 7), Instant::now());
        assert_eq!([push(&mut some, now, "a", 0, "one"), push(&mut some, now, "a", 0, "two!")], [0, 0]);
        assert_eq!(taken(&mut some), [("a".to_owned(), 0, 1)]);
        assert_eq!(some.step(now), Step::WaitUntil(now + 5 * MILLI));
        assert_eq!(push(&mut some, now, "b", 0, "far larger than the bytes of a batch"), 0);
        assert_eq!(taken(&mut some), [("a".to_owned(), 0, 1), ("b".to_owned(), 0, 1)]);
    }

    #[test]
    fn a_batch_that_is_given_up_fails_its_records_and_frees_its_room() {
        let (mut some, now) = (accumulator(100, 10_000), Instant::now());
        push(&mut some, now, "a", 0, "one");
        let (outcomes, room) = (some.unfinished(), Arc::clone(&some.room));
        drop(some);
        assert!(outcomes[0].get().unwrap().is_err());
        assert_eq!(room.available_permits(), 3);
    }

    #[test]
    fn closing_sends_what_is_there() {
        let (mut some, now) = (accumulator(100, 10_000), Instant::now());
        push(&mut some, now, "a", 0, "one");
        some.close(now);
        assert_eq!(some.step(now), Step::Send);
        assert_eq!(taken(&mut some).len(), 1);
        assert_eq!(some.step(now), Step::Finish);
    }
}
