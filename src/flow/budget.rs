//! A bound on the bytes that a source keeps in flight, shared by its lanes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use super::WakerSet;

/// What a lane takes at once at most, also as a share of the whole.
const AHEAD_MAX_BYTES: usize = 16 * 1024;
const AHEAD_SHARE: usize = 256;

/// Bytes in flight of one source. One record larger than the whole budget passes alone.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
    waiting: WakerSet,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit, waiting: WakerSet::default() }
    }

    /// Takes `bytes`, or registers the task to be woken when some are given back.
    pub(crate) fn poll_take(&self, bytes: usize, cx: &Context<'_>) -> Poll<()> {
        if self.try_take(bytes) {
            return Poll::Ready(());
        }
        self.waiting.register(cx);
        if self.try_take(bytes) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes a little more than `bytes`, so that a lane asks once for many small messages; gives how much that was. What
    /// is not used is given back before the lane waits for anything.
    pub(crate) fn poll_take_ahead(&self, bytes: usize, cx: &Context<'_>) -> Poll<usize> {
        let ahead = AHEAD_MAX_BYTES.min(self.limit / AHEAD_SHARE);
        if bytes < ahead && self.try_take(ahead) {
            return Poll::Ready(ahead);
        }
        self.poll_take(bytes, cx).map(|()| bytes)
    }

    fn try_take(&self, bytes: usize) -> bool {
        let fits = |used: usize| (used == 0 || used + bytes <= self.limit).then_some(used + bytes);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_sub(bytes, Ordering::AcqRel);
            self.waiting.wake_all();
        }
    }

    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::task::noop_waker;

    #[test]
    fn one_record_larger_than_the_budget_passes_alone() {
        let budget = Budget::new(10);
        let waker = noop_waker();
        let cx = Context::from_waker(&waker);
        assert!(budget.poll_take(50, &cx).is_ready());
        assert!(budget.poll_take(1, &cx).is_pending());
        budget.give_back(50);
        assert!(budget.poll_take(6, &cx).is_ready());
        assert!(budget.poll_take(5, &cx).is_pending());
        assert_eq!(budget.used_bytes(), 6);
    }
}
