//! Topics on brokers.
pub(crate) mod driver;
