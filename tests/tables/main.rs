//! Tables through the public API: rows equal a fold over the topic, whatever happens between.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
#![expect(clippy::needless_pass_by_value, reason = "what a handler takes is its own")]

mod attribute;
mod damage;
mod disk;
mod failures;
mod folding;
mod ids;
mod io;
mod kills;
mod members;
mod refusals;
mod replay;
mod scans;
#[path = "../support/small.rs"]
#[expect(dead_code, reason = "what only other tests need")]
mod small;
mod support;
