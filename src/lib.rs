//! Stateful stream processing in Rust: plain functions bound between topics, caches, proxies and any `Stream`.

pub mod codec;
pub mod conf;
mod error;
#[cfg(feature = "log")]
pub mod log;
mod message;
mod util;

pub use conf::{BrokerUrl, Conf, ConfValue, KafkaConfig, OffsetReset, Settings, TopicSettings};
pub use error::{BoxError, Error, Kind, Result};
pub use message::{Header, Headers, Message, Timestamp};
