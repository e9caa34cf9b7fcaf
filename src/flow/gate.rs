//! Pausing: a source runs while its set of pause reasons is empty.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use super::WakerSet;

/// The desired state of one source, kept by reason, so that two that pause it do not undo each other.
///
/// It belongs to the source, not to a partition or a connection: partitions that come later start paused, and nothing
/// a rebalance does can lose it. Cloning gives another handle on the same gate.
///
/// ```
/// use slipstream::Gate;
///
/// let gate = Gate::new();
/// gate.pause("user");
/// gate.pause_counted("retry:orders");
/// gate.pause_counted("retry:orders");
/// gate.resume("user");
/// gate.resume_counted("retry:orders");
/// assert!(!gate.is_open());           // one of the two counted pauses is left
/// gate.resume_counted("retry:orders");
/// assert!(gate.is_open());
/// gate.resume_counted("retry:orders"); // a surplus resume is harmless
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    paused: AtomicBool,
    reasons: Mutex<BTreeMap<String, u32>>,
    waiting: WakerSet,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pauses for `reason`; pausing twice for the same reason equals pausing once.
    pub fn pause(&self, reason: &str) {
        self.change(|reasons| {
            reasons.insert(reason.to_owned(), 1);
        });
    }

    /// Ends the pause for `reason`, however often it was counted.
    pub fn resume(&self, reason: &str) {
        self.change(|reasons| {
            reasons.remove(reason);
        });
    }

    /// Pauses for `reason` once more.
    pub fn pause_counted(&self, reason: &str) {
        self.change(|reasons| {
            let count = reasons.entry(reason.to_owned()).or_default();
            *count = count.saturating_add(1);
        });
    }

    /// Takes back one counted pause for `reason`.
    pub fn resume_counted(&self, reason: &str) {
        self.change(|reasons| {
            if let Some(count) = reasons.get_mut(reason) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    reasons.remove(reason);
                }
            }
        });
    }

    /// Whether no reason is left.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.0.paused.load(Ordering::Acquire)
    }

    /// The reasons it is paused for, in alphabetical order.
    pub fn reasons(&self) -> Vec<String> {
        self.0.reasons.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Ready while the gate is open; otherwise the task is woken when it opens.
    #[inline]
    pub(crate) fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_open() {
            return Poll::Ready(());
        }
        self.0.waiting.register(cx);
        if self.is_open() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, u32>)) {
        let mut reasons = self.0.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut reasons);
        self.0.paused.store(!reasons.is_empty(), Ordering::Release);
        drop(reasons);
        self.0.waiting.wake_all();
    }
}

/// What a lane asks before each message.
pub(crate) trait Opening: Send {
    fn is_open(&self) -> bool;
    /// Ready while it is open; otherwise the task is woken when it opens.
    fn poll_open(&self, cx: &Context<'_>) -> Poll<()>;
}

impl Opening for Gate {
    #[inline]
    fn is_open(&self) -> bool {
        self.is_open()
    }

    #[inline]
    fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll_open(cx)
    }
}

/// The gate of a source that nobody can pause. Asking a [`Gate`] is a look at what other threads write, around which the
/// compiler keeps everything in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlwaysOpen;

impl Opening for AlwaysOpen {
    #[inline]
    fn is_open(&self) -> bool {
        true
    }

    #[inline]
    fn poll_open(&self, _cx: &Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_compose() {
        // PS-5 of the model's checklist.
        let gate = Gate::new();
        gate.pause("");
        gate.pause_counted("produce");
        gate.resume_counted("produce");
        assert!(!gate.is_open());
        gate.resume("");
        assert!(gate.is_open());
    }

    #[test]
    fn counted_pauses_are_counted() {
        // PS-6 of the model's checklist.
        let gate = Gate::new();
        gate.pause_counted("produce");
        gate.pause_counted("produce");
        gate.resume_counted("produce");
        assert_eq!(gate.reasons(), ["produce"]);
        gate.resume_counted("produce");
        assert!(gate.is_open());
    }

    #[test]
    fn an_uncounted_resume_removes_the_reason_whatever_its_count() {
        let gate = Gate::new();
        gate.pause_counted("user");
        gate.pause_counted("user");
        gate.resume("user");
        assert!(gate.is_open());
    }
}
