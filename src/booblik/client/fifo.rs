//! Which request an answer belongs to. Answers come in the order of the requests, so that a queue is enough, and shows
//! an answer that is out of turn.

use std::collections::VecDeque;

/// The unacknowledged requests that are remembered on a connection that sends nothing else.
const MAX_SILENT: usize = 4096;

/// The requests that wait for an answer, oldest first, and between them those that only a refusal would answer.
#[derive(Debug)]
pub(super) struct Fifo<T> {
    entries: VecDeque<Entry<T>>,
    silent: usize,
    last_id: i32,
}

#[derive(Debug)]
enum Entry<T> {
    Awaited(i32, T),
    Silent(i32),
}

/// What an answer is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match<T> {
    /// The one that was due.
    Answer(T),
    /// The refusal of a request that wanted no answer: some brokers send one.
    SilentRefusal,
    /// Nobody's.
    OutOfTurn,
}

impl<T> Fifo<T> {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), silent: 0, last_id: 0 }
    }

    /// The id of the next request: from 1 on; 0 is what a broker answers to a request without an id.
    pub(super) fn next_id(&self) -> i32 {
        self.last_id.checked_add(1).unwrap_or(1)
    }

    /// Adds the request with [`next_id`](Self::next_id), which waits for an answer.
    pub(super) fn push(&mut self, waiter: T) {
        self.last_id = self.next_id();
        self.entries.push_back(Entry::Awaited(self.last_id, waiter));
    }

    /// Adds the request with [`next_id`](Self::next_id), which does not. The oldest of very many are forgotten.
    pub(super) fn push_silent(&mut self) {
        self.last_id = self.next_id();
        self.entries.push_back(Entry::Silent(self.last_id));
        self.silent += 1;
        if self.silent > MAX_SILENT {
            self.forget_oldest_silent();
        }
    }

    fn forget_oldest_silent(&mut self) {
        if let Some(at) = self.entries.iter().position(|entry| matches!(entry, Entry::Silent(_))) {
            self.entries.remove(at);
            self.silent -= 1;
        }
    }

    /// Takes the request out that the answer with this id belongs to, and all unacknowledged ones before it: an answer to
    /// a later request proves that they were read.
    pub(super) fn accept(&mut self, id: i32, is_refusal: bool) -> Match<T> {
        while let Some(entry) = self.entries.pop_front() {
            match entry {
                Entry::Awaited(own, waiter) if own == id => return Match::Answer(waiter),
                Entry::Awaited(own, waiter) => {
                    self.entries.push_front(Entry::Awaited(own, waiter));
                    return Match::OutOfTurn;
                }
                Entry::Silent(own) => {
                    self.silent -= 1;
                    if own == id {
                        return if is_refusal { Match::SilentRefusal } else { Match::OutOfTurn };
                    }
                }
            }
        }
        Match::OutOfTurn
    }

    /// Takes out all that still wait.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.silent = 0;
        let entries = std::mem::take(&mut self.entries).into_iter();
        entries.filter_map(|entry| match entry {
            Entry::Awaited(_, waiter) => Some(waiter),
            Entry::Silent(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo(requests: &[Option<char>]) -> Fifo<char> {
        let mut fifo = Fifo::new();
        for request in requests {
            match request {
                Some(waiter) => fifo.push(*waiter),
                None => fifo.push_silent(),
            }
        }
        fifo
    }

    #[test]
    fn answers_come_in_turn_or_are_nobodys() {
        let mut fifo = fifo(&[Some('a'), Some('b'), Some('c')]);
        assert_eq!(fifo.accept(1, false), Match::Answer('a'));
        assert_eq!(fifo.accept(3, false), Match::OutOfTurn);
        assert_eq!(fifo.accept(2, true), Match::Answer('b'));
        assert_eq!(fifo.drain().collect::<Vec<_>>(), ['c']);
        assert_eq!(fifo.accept(3, false), Match::OutOfTurn, "nobody waits any more");
    }

    #[test]
    fn silence_of_an_unacknowledged_request_is_no_gap() {
        let mut fifo = fifo(&[None, Some('a'), None, None, Some('b')]);
        assert_eq!(fifo.accept(2, false), Match::Answer('a'));
        assert_eq!(fifo.accept(5, false), Match::Answer('b'));
        assert_eq!(fifo.silent, 0);
    }

    #[test]
    fn a_refusal_of_an_unacknowledged_request_is_told_from_an_answer() {
        let mut fifo = fifo(&[None, None, Some('a'), None]);
        assert_eq!(fifo.accept(2, true), Match::SilentRefusal);
        assert_eq!(fifo.accept(3, true), Match::Answer('a'));
        assert_eq!(fifo.accept(4, true), Match::SilentRefusal);
        assert_eq!(fifo.accept(4, true), Match::OutOfTurn);
    }

    #[test]
    fn a_success_for_an_unacknowledged_request_is_out_of_turn() {
        assert_eq!(fifo(&[None, Some('a')]).accept(1, false), Match::OutOfTurn);
        assert_eq!(fifo(&[Some('a'), None]).accept(2, true), Match::OutOfTurn, "the first one is still due");
    }

    #[test]
    fn many_unacknowledged_requests_take_bounded_room() {
        let mut fifo = fifo(&[Some('a')]);
        (0..3 * MAX_SILENT).for_each(|_| fifo.push_silent());
        assert_eq!(fifo.entries.len(), MAX_SILENT + 1);
        assert_eq!(fifo.accept(1, false), Match::Answer('a'));
    }

    #[test]
    fn ids_never_become_zero() {
        let mut fifo = fifo(&[]);
        fifo.last_id = i32::MAX;
        fifo.push('a');
        assert_eq!((fifo.last_id, fifo.next_id()), (1, 2));
    }
}
