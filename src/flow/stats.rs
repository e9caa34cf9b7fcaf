//! Counters that lanes write and `stats()` and `health()` read.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::Instant;

use super::Gate;

/// One lane's counters.
#[derive(Debug, Default)]
pub(crate) struct LaneStats {
    pub partition: i32,
    /// Messages whose handlers have returned.
    pub handled: AtomicU64,
    /// Units that are done without a gap, and the offset to read next; -1 before the first.
    pub position: AtomicI64,
    pub committed: AtomicI64,
    /// Whether there is work that is neither done nor held by a pause.
    pub busy: AtomicBool,
    pub in_flight: AtomicU64,
    /// Offset of the newest record handed to the lane.
    pub received: AtomicI64,
    /// Units that are done without a gap, as the watchdog counts them.
    done: AtomicU64,
    /// Wakes the lane, so that its counters are fresh.
    waker: AtomicWaker,
    /// For the watchdog: what was done at its last look, and since when.
    seen: Mutex<Option<(u64, Instant)>>,
}

impl LaneStats {
    pub(crate) fn new(partition: i32) -> Self {
        Self {
            partition,
            position: AtomicI64::new(-1),
            committed: AtomicI64::new(-1),
            received: AtomicI64::new(-1),
            ..Self::default()
        }
    }

    /// The lane is to be woken by [`poke`](Self::poke).
    pub(crate) fn register(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }

    /// Makes the lane look at what is done.
    pub(crate) fn poke(&self) {
        self.waker.wake();
    }

    /// How far the lane is, and how many messages are not done.
    pub(crate) fn set_progress(&self, done: u64, in_flight: u64, is_busy: bool) {
        self.done.store(done, Ordering::Relaxed);
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.busy.store(is_busy, Ordering::Relaxed);
    }

    /// The lane has ended: nothing of it is in flight.
    pub(crate) fn set_ended(&self) {
        self.in_flight.store(0, Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Whether nothing was done for `limit` although there is work. Pokes the lane for the next look.
    pub(crate) fn is_stuck(&self, is_excused: bool, limit: Duration, now: Instant) -> bool {
        self.poke();
        let done = self.done.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((before, since)) if before == done && !is_excused && self.busy.load(Ordering::Relaxed) => {
                now.duration_since(since) >= limit
            }
            _ => {
                *seen = Some((done, now));
                false
            }
        }
    }

    /// Messages in flight, and the first that is not done as partition and offset where there are any.
    pub(crate) fn open(&self) -> (u64, Option<(i32, i64)>) {
        let position = self.position.load(Ordering::Relaxed);
        (self.in_flight.load(Ordering::Relaxed), (position >= 0).then_some((self.partition, position)))
    }
}

/// One source's counters and its present lanes.
#[derive(Debug)]
pub(crate) struct SourceStats {
    pub name: Arc<str>,
    pub gate: Gate,
    /// By whom messages are kept waiting in this run only; lanes do not ask it.
    pub held: Gate,
    lanes: Mutex<Vec<Arc<LaneStats>>>,
    handled_before: AtomicU64,
    notice: Mutex<Option<String>>,
    /// What the watchdog found.
    stalled: Mutex<Option<String>>,
    /// Whether other sources wait for it: a proxy, changes of a cache.
    is_channel: AtomicBool,
}

impl SourceStats {
    pub(crate) fn new(name: Arc<str>, gate: Gate) -> Self {
        let (lanes, handled_before) = (Mutex::default(), AtomicU64::new(0));
        let (notice, stalled, is_channel) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self { name, gate, held: Gate::new(), lanes, handled_before, notice, stalled, is_channel }
    }

    /// Whether nothing pauses or holds it.
    pub(crate) fn is_open(&self) -> bool {
        self.gate.is_open() && self.held.is_open()
    }

    /// By whom it is paused or held.
    pub(crate) fn paused_by(&self) -> Vec<String> {
        let mut reasons = self.gate.reasons();
        reasons.extend(self.held.reasons());
        reasons
    }

    pub(crate) fn add_lane(&self, partition: i32) -> Arc<LaneStats> {
        let lane = Arc::new(LaneStats::new(partition));
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&lane));
        lane
    }

    pub(crate) fn remove_lane(&self, lane: &Arc<LaneStats>) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).retain(|own| !Arc::ptr_eq(own, lane));
        self.handled_before.fetch_add(lane.handled.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<LaneStats>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn handled(&self) -> u64 {
        let now: u64 = self.lanes().iter().map(|lane| lane.handled.load(Ordering::Relaxed)).sum();
        now + self.handled_before.load(Ordering::Relaxed)
    }

    /// What the source waits for, or what is wrong with it; `None` when all is well.
    pub(crate) fn set_notice(&self, notice: Option<String>) {
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = notice;
    }

    pub(crate) fn notice(&self) -> Option<String> {
        let notice = self.notice.lock().unwrap_or_else(PoisonError::into_inner).clone();
        notice.or_else(|| self.stalled.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// What the watchdog found; an error event when it is new.
    pub(crate) fn set_stalled(&self, found: Option<String>) {
        let mut stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(text)) = (&*stalled, &found) {
            tracing::error!("{text}");
        }
        *stalled = found;
    }

    pub(crate) fn set_channel(&self) {
        self.is_channel.store(true, Ordering::Relaxed);
    }

    /// Whether messages of other sources are held here by a pause.
    pub(crate) fn holds_others(&self) -> bool {
        let is_held = self.is_channel.load(Ordering::Relaxed) && !self.is_open();
        is_held && self.lanes().iter().any(|lane| lane.busy.load(Ordering::Relaxed))
    }
}
