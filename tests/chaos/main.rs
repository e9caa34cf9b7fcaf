//! `make chaos`: kills, stops and cuts off an app on a real Kafka, kills one whose log is its own, and counts what came
//! of it.
//!
//! Each test draws what it does from a seed and, when it fails, prints the seed, what it did and the last lines of the
//! app's log. `CHAOS_SEED` repeats a seed. `CHAOS_LENGTH` is `short` (the default, part of `make test`), `full`, or a
//! number of kills. `KAFKA_BOOTSTRAP` names the broker; without it the tests that need it say so
//! and pass. What may be broken is the
//! tests' own: each has its topics and its group, and those that stop the broker start one of their own.

#![cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "most of it is for the tests on Kafka"))]
#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test may panic and print")]

mod child;
mod ledger;
mod schedule;

mod embedded;
#[cfg(feature = "rocksdb")]
mod folds;
#[cfg(feature = "rocksdb")]
mod joined;

#[cfg(feature = "kafka")]
mod broker;
#[cfg(feature = "kafka")]
mod echoes;
#[cfg(feature = "kafka")]
mod kills;
#[cfg(feature = "kafka")]
mod members;
#[cfg(feature = "kafka")]
mod outages;
#[cfg(feature = "kafka")]
mod pauses;
#[cfg(feature = "kafka")]
mod shutdown;
#[cfg(feature = "kafka")]
mod sinks;
#[cfg(feature = "kafka")]
mod slow;
#[cfg(feature = "kafka")]
mod watch;
