//! Stateful stream processing: plain functions bound between topics, caches, proxies, timers and any `Stream`.
//!
//! ```standalone_crate
//! use slipstream::prelude::*;
//!
//! #[handle(stream::iter("🏆📞🐟👌".chars()), sink = [print])]
//! fn greet(emoji: char) -> String {
//!     format!("Hello {emoji}!")
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     slipstream::log::init();
//!     stream().await
//! }
//! ```
//!
//! | to | look at |
//! |---|---|
//! | bind a function | [`#[handle]`](macro@handle), or [`App::handle`] |
//! | run what is bound | [`stream()`](fn@stream), [`App::run`], [`Run`], [`RunHandle`] |
//! | read and write topics, on disk or on a broker | [`Topic`], [`Message`], [`codec`] |
//! | keep rows on disk | [`Cache`], [`Retention`], [`keys`] |
//! | keep counts and the like, exactly right after any crash | [`Table`], [`Rows`] |
//! | connect handlers, or an HTTP server | [`Proxy`] |
//! | put a stream function in between | [`pipe`](fn@pipe) |
//! | ask for more than the message | [`Unit`], [`Ext`] |
//! | send a list as one value | [`One`] |
//! | tick | [`every`] |
//! | pause a source | [`Gate`], [`Topic::pause`] |
//! | configure | [`Conf`], [`conf`] |
//! | know what went wrong | [`Error`], [`Kind`] |
//!
//! # What is promised
//!
//! **At least once.** The unit of work is one message with all its handlers, outputs and sinks. It is done when
//! everything is acknowledged, through proxies too; a position is committed when all units before it are done and what
//! they wrote is on disk. Nothing is lost when the process is killed; what was in flight is handled again. Handlers get
//! the messages of a partition in order. With the first error everything stops.
//!
//! # Features
//!
//! `macros`, `json`, `rocksdb`, `kafka`, `booblik` and `log` are on by default; `msgpack`, `avro`, `ssl` and `zstd` are
//! not. C and C++ are built for `rocksdb` and `kafka` only. `booblik` is the log on disk in which topics live when nothing
//! is configured, and its protocol; without it and `kafka`, topics live in `memory:`.

pub mod app;
#[cfg(feature = "booblik")]
pub mod booblik;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
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
pub use checkpoint::{Checkpoint, CheckpointHandle, Dependency, Downtime};
pub use conf::Conf;
pub use error::{BoxError, Error, Kind, Result};
pub use flow::Gate;
pub use handler::{Ext, One, Output, Unit};
pub use message::{Header, Headers, Message, StableId, Timestamp};
pub use pipe::Piped;
pub use proxy::Proxy;
pub use sink::{debug, print};
pub use source::{SharedStream, every};
pub use topic::Topic;

pub use async_stream::{stream, try_stream};

/// ```standalone_crate
/// use std::time::Duration;
/// use slipstream::prelude::*;
///
/// static SHOUTS: Proxy<String> = Proxy::new("shouts");
///
/// #[handle(stream::iter(["hi", "ho"]), sink = [print, SHOUTS.map(|word: String| word.to_uppercase())])]
/// fn greet(word: &'static str) -> String {
///     format!("{word}!")
/// }
///
/// #[handle(SHOUTS, sink = [print], timeout = Duration::from_secs(1))]
/// async fn repeat(shout: String, unit: Unit) -> Vec<String> {
///     vec![shout.clone(), format!("{} again: {shout}", unit.handler())]
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     assert_eq!(greet("hey"), "hey!"); // still a plain function
///     stream().await
/// }
/// ```
///
#[cfg(feature = "macros")]
pub use slipstream_macros::handle;

/// What the code of `#[handle]` uses; not for anyone else.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private;
#[cfg(feature = "rocksdb")]
pub use store::cache::{self, Cache, Retention};
pub use store::keys;
#[cfg(feature = "rocksdb")]
pub use store::table::{self, Rows, Table};

/// The pages in `docs/` and the first page: their examples are compiled and run with the others.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/architecture.md")]
    mod architecture {}
    #[doc = include_str!("../docs/caches.md")]
    mod caches {}
    #[doc = include_str!("../docs/checkpoints.md")]
    mod checkpoints {}
    #[doc = include_str!("../docs/compare.md")]
    mod compare {}
    #[doc = include_str!("../docs/errors.md")]
    mod errors {}
    #[doc = include_str!("../docs/handlers.md")]
    mod handlers {}
    #[doc = include_str!("../docs/proxies.md")]
    mod proxies {}
    #[doc = include_str!("../docs/tables.md")]
    mod tables {}
    #[doc = include_str!("../docs/topics.md")]
    mod topics {}
}
