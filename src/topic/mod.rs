//! Topics on brokers.
pub(crate) mod driver;
#[cfg(feature = "kafka")]
mod kafka;
