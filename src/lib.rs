//! Stateful stream processing in Rust: plain functions bound between topics, caches, proxies and any `Stream`.

pub mod app;
pub mod codec;
pub mod conf;
mod error;
mod flow;
pub mod handler;
#[cfg(feature = "log")]
pub mod log;
mod message;
mod pipe;
pub mod prelude;
pub mod proxy;
pub mod sink;
pub mod source;
mod store;
pub mod testing;
pub mod topic;
mod util;

pub use app::{App, Run, RunHandle, Signals, pipe, stream};
pub use conf::Conf;
pub use error::{BoxError, Error, Kind, Result};
pub use flow::Gate;
pub use handler::{Ext, One, Output, Unit};
pub use message::{Header, Headers, Message, Timestamp};
pub use pipe::Piped;
pub use proxy::Proxy;
pub use sink::{debug, print};
pub use source::every;
pub use topic::Topic;

pub use async_stream::{stream, try_stream};

#[cfg(feature = "macros")]
pub use slipstream_macros::handle;

/// What the code of `#[handle]` uses; not for anyone else.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private;
#[cfg(feature = "rocksdb")]
pub use store::cache::{self, Cache, Retention};
pub use store::keys;
