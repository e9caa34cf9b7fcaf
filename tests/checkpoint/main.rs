//! Checkpoints: what the model's suite checks (CP, BD, INT-2, S8), what cannot work, and random schedules on every
//! backend.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod bindings;
mod channels;
mod ends;
mod known;
#[cfg(feature = "kafka")]
mod members;
mod outages;
mod property;
mod refusals;
#[cfg(feature = "rocksdb")]
mod tables;
mod world;
