//! The few primitives the ring stands on, by name, so that the model checker can put its own in their place.

pub(super) use futures::task::AtomicWaker;
pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// A full fence right after an atomic read-modify-write. On x86 the read-modify-write is one already.
#[inline]
pub(super) fn fence_after_rmw() {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    fence(Ordering::SeqCst);
}
