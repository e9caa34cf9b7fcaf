//! `memory:`: topics in the memory of this process, with the semantics of Kafka's.
//!
//! What is decided lives apart from what waits: [`log`], [`assign`], [`group`], [`state`] and [`reading`] never await;
//! [`member`] and [`feeder`] are the tasks around them.

mod assign;
mod backend;
mod broker;
mod feeder;
mod group;
mod limits;
mod log;
mod member;
mod partitioner;
mod reading;
mod scratch;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use backend::MemoryBackend;
pub use broker::Memory;
pub use limits::MemoryLimits;
