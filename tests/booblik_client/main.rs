//! The booblik client over real sockets: against a broker that a test plays by hand, and against one with a memory.
//!
//! The defects that the specification lists for other clients each have a test here that shows their absence.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

mod broker;
mod consuming;
mod fake;
mod lost;
mod pipelining;
mod producing;
mod requests;
mod unacknowledged;
