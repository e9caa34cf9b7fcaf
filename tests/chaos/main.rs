//! `make chaos`: kills, stops and cuts off an app on a real Kafka, and counts what came of it.
//!
//! Each test draws what it does from a seed and, when it fails, prints the seed, what it did and the last lines of the
//! app's log. `CHAOS_SEED` repeats a seed. `CHAOS_LENGTH` is `short` (the default, part of `make test`), `full`, or a
//! number of kills. `KAFKA_BOOTSTRAP` names the broker; without it the tests say so and pass. What may be broken is the
//! tests' own: each has its topics and its group, and those that stop the broker start one of their own.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test may panic and print")]

mod broker;
mod child;
mod ledger;
mod schedule;
mod watch;

mod kills;
mod members;
mod outages;
mod pauses;
mod shutdown;
mod sinks;
mod slow;
