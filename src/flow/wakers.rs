//! Tasks that wait for one change, woken together.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

/// A set of wakers; one entry per waiting task, so it is bounded by the number of lanes and writers.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    waiting: AtomicBool,
    list: Mutex<Vec<Waker>>,
}

impl WakerSet {
    /// Adds the current task. Check the condition again afterwards: a wake before this call is not seen.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.iter().any(|waker| waker.will_wake(cx.waker())) {
            list.push(cx.waker().clone());
        }
        self.waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether a task waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Wakes and forgets every task of the set. Free when nobody waits.
    #[inline]
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if !self.waiting.load(Ordering::Relaxed) {
            return;
        }
        let woken = {
            let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            self.waiting.store(false, Ordering::Relaxed);
            std::mem::take(&mut *list)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}
