//! Topics on brokers.
pub(crate) mod driver;
mod memory;

pub use memory::{Memory, MemoryLimits};
