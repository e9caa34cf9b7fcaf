//! Tasks that wait for one change, woken together.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

/// Entries of a set. Two wakers of one task cannot always be told to be the same, so that more tasks than there are
/// may seem to wait; a set that is full wakes them all, and who still waits comes back.
const WAITING_MAX: usize = 1024;

/// A set of wakers, of those tasks that have registered since all were woken last.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    waiting: AtomicBool,
    list: Mutex<Vec<Waker>>,
}

impl WakerSet {
    /// Adds the current task. Check the condition again afterwards: a wake before this call is not seen.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken = Vec::new();
        if !list.iter().any(|waker| waker.will_wake(cx.waker())) {
            if list.len() >= WAITING_MAX {
                woken = std::mem::take(&mut *list);
            }
            list.push(cx.waker().clone());
        }
        self.waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        drop(list);
        woken.into_iter().for_each(Waker::wake);
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
