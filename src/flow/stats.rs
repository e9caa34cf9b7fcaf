//! Counters that lanes write and `stats()` and `health()` read.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
}

/// One source's counters and its present lanes.
#[derive(Debug)]
pub(crate) struct SourceStats {
    pub name: Arc<str>,
    pub gate: Gate,
    lanes: Mutex<Vec<Arc<LaneStats>>>,
    handled_before: AtomicU64,
    notice: Mutex<Option<String>>,
}

impl SourceStats {
    pub(crate) fn new(name: Arc<str>, gate: Gate) -> Self {
        Self { name, gate, lanes: Mutex::default(), handled_before: AtomicU64::new(0), notice: Mutex::default() }
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
        self.notice.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
