//! Tables through the public API: rows equal a fold over the topic, whatever happens between.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod failures;
mod folding;
mod refusals;
mod support;
