//! Checkpoints: what the model's suite checks (CP, BD, INT-2, S8), what cannot work, and random schedules on every
//! backend.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may panic and print"
)]

mod bindings;
mod bound;
mod callbacks;
mod channels;
mod ends;
#[cfg(all(feature = "log", feature = "macros"))]
mod examples;
mod joined;
mod kept;
mod known;
mod meanwhile;
#[cfg(feature = "kafka")]
mod members;
mod outages;
mod parity;
mod phases;
mod property;
mod refusals;
mod rewinds;
#[cfg(feature = "rocksdb")]
mod rows;
#[path = "../chaos/schedule.rs"]
#[expect(dead_code, reason = "what only kills need")]
mod schedule;
mod sought;
#[cfg(feature = "rocksdb")]
mod tables;
mod world;
