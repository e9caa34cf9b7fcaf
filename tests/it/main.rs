//! Integration tests, in one binary. Folders are named after what they are about.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "rocksdb")]
mod caches;
mod cancellation;
mod declarations;
mod engine;
mod failures;
mod handle;
mod preludes;
mod scenarios;
mod topics;
