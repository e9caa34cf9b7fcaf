//! How the reading thread sleeps: it parks, and whoever has something for it sets a flag and unparks it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::Thread;

/// Wakes the reading thread.
#[derive(Default)]
pub(super) struct Alarm {
    thread: OnceLock<Thread>,
}

impl Alarm {
    /// From here on it wakes the current thread.
    pub(super) fn set_current_thread(&self) {
        self.thread.get_or_init(std::thread::current);
    }

    pub(super) fn ring(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Says that one queue or feed wants a visit.
pub(super) struct Signal {
    raised: AtomicBool,
    alarm: Arc<Alarm>,
}

impl Signal {
    /// Raised, so that the first visit happens whatever came before.
    pub(super) fn new(alarm: &Arc<Alarm>) -> Arc<Self> {
        Arc::new(Self { raised: AtomicBool::new(true), alarm: Arc::clone(alarm) })
    }

    pub(super) fn raise(&self) {
        // Unparking leaves a token behind, so a thread that is about to park sees the flag on its next turn.
        self.raised.store(true, Ordering::Release);
        self.alarm.ring();
    }

    /// Whether it was raised since the last call.
    pub(super) fn take(&self) -> bool {
        self.raised.load(Ordering::Relaxed) && self.raised.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raised_before_the_thread_parks_is_not_missed() {
        let alarm = Arc::new(Alarm::default());
        alarm.set_current_thread();
        let signal = Signal::new(&alarm);
        assert!(signal.take() && !signal.take());
        std::thread::scope(|scope| {
            scope.spawn(|| signal.raise()).join().unwrap();
        });
        std::thread::park();
        assert!(signal.take());
    }
}
