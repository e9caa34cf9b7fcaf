//! Topics on brokers: the declaration ([`Topic`]), what an app opens of it, and the backends behind one interface.

mod admin;
mod assigned;
mod back;
#[cfg(any(feature = "booblik", feature = "kafka"))]
mod begin;
mod broker;
mod declare;
pub(crate) mod driver;
pub(crate) mod fills;
mod hub;
mod lane;
mod lockfile;
mod offsets;
#[cfg(any(feature = "booblik", feature = "kafka"))]
mod opaque;
mod open;
mod over;
mod record;
mod room;
mod sink;

mod seeks;
mod source;
mod tables;

#[cfg(feature = "booblik")]
mod booblik;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;

pub use admin::Admin;
pub use declare::Topic;
pub use driver::{OutOfRange, Receipt, SeekTo, Start, TopicDescription};
pub use memory::{Memory, MemoryLimits};
pub use record::{IntoRecord, Parts};
pub use sink::TopicSink;
