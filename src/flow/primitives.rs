//! The few primitives the ring stands on, by name, so that the model checker can put its own in their place.

pub(super) use futures::task::AtomicWaker;
pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
