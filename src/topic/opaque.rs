//! Acknowledgements on their way through what carries one number per record: librdkafka, and the log of a broker in
//! this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::driver::Ack;
use crate::flow::Guard;

/// Set in the numbers that are places in the table; the others are guards.
const IN_TABLE: usize = 1;

/// Turns acknowledgements into numbers and back. A guard is a number by itself; what is not waits in a table, which
/// holds at most as many as librdkafka holds records.
#[derive(Default)]
pub(crate) struct Opaques(Mutex<Table>);

#[derive(Default)]
struct Table {
    places: Vec<Option<Ack>>,
    free: Vec<usize>,
}

impl Opaques {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn pack(&self, ack: Ack) -> usize {
        match ack {
            Ack::Unit(guard) => match guard.into_raw() {
                Ok(raw) => Self::pack_raw(raw).unwrap_or_else(|| self.keep_raw(raw)),
                Err(guard) => self.keep(Ack::Unit(guard)),
            },
            reply @ Ack::Reply(_) => self.keep(reply),
        }
    }

    fn pack_raw(raw: u64) -> Option<usize> {
        raw.checked_mul(2).and_then(|even| usize::try_from(even).ok())
    }

    /// For a number that does not fit, where pointers are short.
    #[cold]
    fn keep_raw(&self, raw: u64) -> usize {
        self.keep_entry(Guard::from_raw(raw).map(Ack::Unit))
    }

    fn keep(&self, ack: Ack) -> usize {
        self.keep_entry(Some(ack))
    }

    fn keep_entry(&self, entry: Option<Ack>) -> usize {
        let mut table = self.lock();
        let place = if let Some(place) = table.free.pop() {
            if let Some(slot) = table.places.get_mut(place) {
                *slot = entry;
            }
            place
        } else {
            table.places.push(entry);
            table.places.len() - 1
        };
        place * 2 + IN_TABLE
    }

    /// The acknowledgement that became `number`. To be called once for each number.
    #[inline]
    pub(crate) fn unpack(&self, number: usize) -> Option<Ack> {
        if number & IN_TABLE == 0 {
            return Guard::from_raw((number / 2) as u64).map(Ack::Unit);
        }
        let place = number / 2;
        let mut table = self.lock();
        let ack = table.places.get_mut(place)?.take();
        table.free.push(place);
        ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Tracker;
    use tokio::sync::oneshot;

    #[test]
    fn a_guard_travels_as_a_number_and_replies_use_their_places_again() {
        let opaques = Opaques::default();
        let mut tracker = Tracker::new(4);
        let number = opaques.pack(Ack::Unit(tracker.guard()));
        tracker.end_unit();
        assert_eq!(number & IN_TABLE, 0);
        let replies: Vec<usize> = (0..3).map(|_| opaques.pack(Ack::Reply(oneshot::channel().0))).collect();
        assert_eq!(replies, [1, 3, 5]);
        assert!(matches!(opaques.unpack(3), Some(Ack::Reply(_))));
        assert_eq!(opaques.pack(Ack::Reply(oneshot::channel().0)), 3);
        assert_eq!(tracker.scan(), 0);
        match opaques.unpack(number) {
            Some(Ack::Unit(guard)) => guard.ok(),
            _ => panic!("no guard"),
        }
        assert_eq!(tracker.scan(), 1);
    }
}
