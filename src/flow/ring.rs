//! The ack ring: which units of a lane are still held open by a sink, and how far the lane is done without a gap.
//!
//! A lane numbers its units densely. Each unit that a pipelined sink holds open has a counter of outstanding guards in
//! its slot; a unit that nobody holds never touches the ring. The ring's length is the bound of units in flight. Only
//! the lane (its [`Tracker`]) moves the watermark; guards only count down. Rings are leaked and pooled, so that a
//! guard is a plain reference and a number, and an acknowledgement that comes after its lane has gone meets a ring that
//! nobody else uses yet.

use std::task::{Context, Poll};

use super::pool;
use super::primitives::{AtomicBool, AtomicU32, AtomicWaker, Mutex, Ordering, fence, fence_after_rmw};
use crate::error::{Error, Kind, Result};

/// Set in a slot when one of its guards failed: such a slot never becomes zero again.
const FAILED: u32 = 1 << 31;
/// No slot is watched by the lane.
pub(super) const NONE: u32 = u32::MAX;

pub(crate) struct Ring {
    slots: Box<[AtomicU32]>,
    /// The slot whose completion wakes the lane.
    watched: AtomicU32,
    has_failed: AtomicBool,
    errors: Mutex<Option<Error>>,
    owner: AtomicWaker,
    /// Its place in the table of all rings, which lets a guard travel as a number.
    id: u32,
}

impl Ring {
    pub(super) fn new(len: u32, id: u32) -> Self {
        Self {
            id,
            slots: (0..len).map(|_| AtomicU32::new(0)).collect(),
            watched: AtomicU32::new(NONE),
            has_failed: AtomicBool::new(false),
            errors: Mutex::new(None),
            owner: AtomicWaker::new(),
        }
    }

    #[inline]
    fn slot(&self, slot: u32) -> &AtomicU32 {
        #[expect(clippy::indexing_slicing, reason = "slots are made by `Tracker::slot`, modulo the length")]
        &self.slots[slot as usize]
    }

    #[inline]
    fn complete(&self, slot: u32) {
        if self.slot(slot).fetch_sub(1, Ordering::AcqRel) == 1 {
            // Paired with the fence in `Tracker::watch`: either this sees the watch or the lane sees the zero.
            fence_after_rmw();
            if self.watched.load(Ordering::Relaxed) == slot {
                self.watched.store(NONE, Ordering::Relaxed);
                self.owner.wake();
            }
        }
    }

    fn fail(&self, slot: u32, error: Error) {
        self.slot(slot).fetch_or(FAILED, Ordering::AcqRel);
        if let Ok(mut first) = self.errors.lock() {
            first.get_or_insert(error);
        }
        self.has_failed.store(true, Ordering::Release);
        self.slot(slot).fetch_sub(1, Ordering::AcqRel);
        self.owner.wake();
    }

    pub(super) fn is_clear(&self) -> bool {
        self.slots.iter().all(|slot| slot.load(Ordering::Acquire) & !FAILED == 0)
    }

    pub(super) fn reset(&self) {
        for slot in &self.slots {
            slot.store(0, Ordering::Relaxed);
        }
        self.watched.store(NONE, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Relaxed);
        if let Ok(mut error) = self.errors.lock() {
            *error = None;
        }
        self.owner.take();
    }
}

/// Holds one unit of work open: it is not done before every guard of it ended.
///
/// A guard ends by [`ok`](Self::ok), by [`fail`](Self::fail), or by being dropped, which counts as abandoned: the unit
/// is not done and its position is not committed.
#[must_use = "dropping a guard abandons its unit"]
pub struct Guard {
    ring: &'static Ring,
    slot: u32,
    ended: bool,
}

impl Guard {
    /// This part of the unit is done.
    #[inline]
    pub fn ok(mut self) {
        self.ended = true;
        self.ring.complete(self.slot);
    }

    /// This part of the unit failed for good.
    pub fn fail(mut self, error: Error) {
        self.ended = true;
        self.ring.fail(self.slot, error);
    }

    /// The guard as a number that a C library can carry; gives it back when its ring is not in the table.
    #[cfg_attr(
        not(any(feature = "booblik", feature = "kafka")),
        expect(dead_code, reason = "only logs and librdkafka carry guards as numbers")
    )]
    pub(crate) fn into_raw(mut self) -> Result<u64, Self> {
        if self.ring.id == NONE {
            return Err(self);
        }
        self.ended = true;
        Ok(u64::from(self.ring.id) << 32 | u64::from(self.slot))
    }

    /// The guard that became `raw`. To be called once for each number.
    #[cfg_attr(
        not(any(feature = "booblik", feature = "kafka")),
        expect(dead_code, reason = "only logs and librdkafka carry guards as numbers")
    )]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
    pub(crate) fn from_raw(raw: u64) -> Option<Self> {
        let ring = pool::by_id((raw >> 32) as u32)?;
        Some(Self { ring, slot: raw as u32, ended: false })
    }
}

impl Clone for Guard {
    #[inline]
    fn clone(&self) -> Self {
        self.ring.slot(self.slot).fetch_add(1, Ordering::Relaxed);
        Self { ring: self.ring, slot: self.slot, ended: false }
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if !self.ended {
            let error = Error::new(Kind::Abandoned, "a message was dropped before all its outputs were acknowledged");
            self.ring.fail(self.slot, error);
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("slot", &self.slot).finish_non_exhaustive()
    }
}

/// The lane's end of a ring: numbers units, hands out guards, finds how far everything is done.
pub(crate) struct Tracker {
    ring: &'static Ring,
    len: u32,
    /// The first unit that is not known to be done.
    low: u64,
    /// The unit being worked on, or the next one.
    next: u64,
    /// Behind the last unit that a guard was given for: from here on the ring was not touched.
    guarded: u64,
}

impl Tracker {
    /// A tracker for at most `max_in_flight` units, rounded up to a power of two.
    pub(crate) fn new(max_in_flight: u32) -> Self {
        let len = max_in_flight.clamp(1, 1 << 20).next_power_of_two();
        Self { ring: pool::take(len), len, low: 0, next: 0, guarded: 0 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked by a length below 2^21")]
    #[inline]
    fn slot(&self, seq: u64) -> u32 {
        (seq & u64::from(self.len - 1)) as u32
    }

    /// Index of a unit in arrays as long as the ring.
    #[inline]
    pub(crate) fn index(&self, seq: u64) -> usize {
        self.slot(seq) as usize
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The unit being worked on, or the next one to be.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether another unit may begin, after a look at what is done if it seems not.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        if self.next - self.low < u64::from(self.len) {
            return true;
        }
        self.scan();
        self.next - self.low < u64::from(self.len)
    }

    /// How many units may begin without another look.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        u64::from(self.len) - (self.next - self.low)
    }

    /// Whether every unit that ended is done.
    #[inline]
    pub(crate) fn is_idle(&mut self) -> bool {
        self.scan();
        self.low == self.next
    }

    /// A guard on the unit being worked on.
    #[inline]
    pub(crate) fn guard(&mut self) -> Guard {
        self.guarded = self.next + 1;
        let slot = self.slot(self.next);
        self.ring.slot(slot).fetch_add(1, Ordering::Relaxed);
        Guard { ring: self.ring, slot, ended: false }
    }

    /// The unit being worked on ended: from here on only its guards hold it open.
    #[inline]
    pub(crate) fn end_unit(&mut self) {
        self.next += 1;
    }

    /// Moves the watermark over everything that is done; returns it.
    #[inline]
    pub(crate) fn scan(&mut self) -> u64 {
        if self.guarded <= self.low {
            self.low = self.next;
            return self.low;
        }
        self.scan_ring()
    }

    fn scan_ring(&mut self) -> u64 {
        while self.low < self.next && self.ring.slot(self.slot(self.low)).load(Ordering::Acquire) == 0 {
            self.low += 1;
        }
        self.low
    }

    /// Asks to be woken when the lane can go on: with `last`, when the newest open unit is done; otherwise when there is
    /// room for more than a few, that is when a unit a quarter into the ring is done, or the oldest if that one already
    /// is. (Acknowledgements come in batches; a lane woken by the first of them would sleep and wake for each.)
    /// Returns false when something moved meanwhile and the lane should look again instead of waiting.
    pub(crate) fn watch(&mut self, cx: &Context<'_>, last: bool) -> bool {
        self.ring.owner.register(cx.waker());
        // A failure wakes the lane whatever it watches, but only one that comes after the line above.
        if self.ring.has_failed.load(Ordering::Acquire) {
            return false;
        }
        let before = self.low;
        self.scan();
        if self.low == self.next {
            return before == self.low;
        }
        let open = |seq: &u64| self.ring.slot(self.slot(*seq)).load(Ordering::Acquire) != 0;
        let later = self.low + u64::from(self.len / 4);
        let seq = if last {
            (self.low..self.next).rev().find(open)
        } else {
            Some(if later < self.next && open(&later) { later } else { self.low })
        };
        let Some(seq) = seq else { return false };
        let slot = self.slot(seq);
        self.ring.watched.store(slot, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.ring.slot(slot).load(Ordering::Acquire) != 0 && before == self.low
    }

    /// The error of a guard that failed, once.
    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        // A unit that failed is never passed by the watermark.
        if self.guarded <= self.low || !self.ring.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.ring.errors.lock().ok().and_then(|mut error| error.take())
    }

    /// Ready when every unit that ended is done, or one of them failed.
    pub(crate) fn poll_done(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        loop {
            if let Some(error) = self.take_failure() {
                return Poll::Ready(Err(error));
            }
            if self.is_idle() {
                return Poll::Ready(Ok(()));
            }
            if self.watch(cx, true) {
                return Poll::Pending;
            }
        }
    }
}

impl Tracker {
    /// Whether a guard failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.ring.has_failed.load(Ordering::Acquire)
    }

    /// Ready when the watermark can go no further: every unit that ended is done, or the first that is not has failed.
    pub(crate) fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<()> {
        loop {
            let low = self.scan();
            let slot = self.slot(low);
            if self.low == self.next || self.ring.slot(slot).load(Ordering::Acquire) & FAILED != 0 {
                return Poll::Ready(());
            }
            self.ring.owner.register(cx.waker());
            self.ring.watched.store(slot, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let open = self.ring.slot(slot).load(Ordering::Acquire);
            if open != 0 && open & FAILED == 0 {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Tracker {
    #[inline]
    fn drop(&mut self) {
        pool::give_back(self.len, self.ring);
    }
}
