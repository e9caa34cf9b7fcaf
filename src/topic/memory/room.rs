//! Writers that wait for room in any topic of a broker.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Says to a task that was refused when to try again.
///
/// A task does not say which topic refused it, and several wait at once. So a task is ready when room was made since
/// the first refusal that nobody may have heard about, or else when room is made after it was registered: an answer
/// may come once too often, never too rarely.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How often room was made for somebody who had been refused.
    made: u64,
    /// `made` at the first refusal.
    first_refusal: Option<u64>,
    /// Registered since room was last made.
    waiting: Vec<Waker>,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer was sent away.
    pub(super) fn refused(&self) {
        let mut inner = self.lock();
        let made = inner.made;
        inner.first_refusal.get_or_insert(made);
    }

    /// There may be room now.
    pub(super) fn made(&self) {
        let woken = {
            let mut inner = self.lock();
            inner.made += 1;
            std::mem::take(&mut inner.waiting)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Ready when a refused write may be tried again. A task that has been registered since room was last made has
    /// tried since, so it waits.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        inner.waiting.push(cx.waker().clone());
        let unheard = inner.first_refusal.is_none_or(|first| first < inner.made);
        if unheard { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    fn poll(room: &Room) -> Poll<()> {
        room.poll(&Context::from_waker(noop_waker_ref()))
    }

    #[test]
    fn ready_without_a_refusal_and_after_room_was_made() {
        assert!(poll(&Room::default()).is_ready());
        let room = Room::default();
        room.refused();
        assert!(poll(&room).is_pending());
        room.made();
        assert!(poll(&room).is_ready());
    }

    #[test]
    fn room_made_between_the_refusal_and_the_first_poll_is_not_missed() {
        let room = Room::default();
        room.refused();
        room.made();
        room.refused();
        assert!(poll(&room).is_ready(), "of which refusal this is, nobody knows");
        room.refused();
        assert!(poll(&room).is_pending(), "tried again since");
    }
}
