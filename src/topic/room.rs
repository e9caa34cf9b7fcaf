//! Writers that wait for room.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::driver::Refusal;
use crate::flow::WakerSet;

/// Says to a task that was refused when to try again: when room was made since.
#[derive(Debug, Default)]
pub(crate) struct Room {
    made: AtomicU64,
    waiting: WakerSet,
}

impl Room {
    /// What a writer that is refused now has to wait for.
    pub(crate) fn refusal(&self) -> Refusal {
        Refusal(self.made.load(Ordering::SeqCst))
    }

    /// There may be room now.
    pub(crate) fn made(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
        self.waiting.wake_all();
    }

    /// Ready when room was made since.
    pub(crate) fn poll(&self, since: Refusal, cx: &Context<'_>) -> Poll<()> {
        if self.refusal() != since {
            return Poll::Ready(());
        }
        self.waiting.register(cx);
        if self.refusal() == since { Poll::Pending } else { Poll::Ready(()) }
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    #[test]
    fn ready_when_room_was_made_since_the_refusal_and_not_again() {
        let room = Room::default();
        let cx = Context::from_waker(noop_waker_ref());
        let first = room.refusal();
        assert!(room.poll(first, &cx).is_pending());
        room.made();
        assert!(room.poll(first, &cx).is_ready());
        assert!(room.poll(room.refusal(), &cx).is_pending(), "tried again since");
    }
}
