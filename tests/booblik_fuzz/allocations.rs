//! How much a piece of code has allocated at once.
#![expect(unsafe_code, reason = "an allocator that counts has to be one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The most bytes that `work` had allocated at any moment, on this thread.
pub(crate) fn peak_bytes<T>(work: impl FnOnce() -> T) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    drop(result);
    PEAK.get().saturating_sub(before)
}

// SAFETY: everything is passed on to `System`; the counters are cells of this thread and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get().saturating_add(layout.size());
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.dealloc(place, layout) }
    }
}
