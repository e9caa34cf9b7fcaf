//! Stateful stream processing in Rust: plain functions bound between topics, caches, proxies and any `Stream`.

pub mod codec;
mod error;
mod message;
mod store;

pub use error::{BoxError, Error, Kind, Result};
pub use message::{Header, Headers, Message, Timestamp};
#[cfg(feature = "rocksdb")]
pub use store::cache::{self, Cache, Retention};
pub use store::keys;
