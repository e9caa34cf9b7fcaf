#![doc = include_str!("../../docs/configuration.md")]

mod aiokafka;
mod broker;
mod builder;
mod entry;
mod framework;
mod kafka;
mod kafka_keys;
mod key;
mod load;
mod name;
mod owned;
mod process;
mod secret;
mod settings;
#[cfg(test)]
mod tests;
mod units;
mod value;

pub use broker::BrokerUrl;
pub use builder::Conf;
pub use framework::{Durability, Encoding, OffsetReset};
pub use kafka::KafkaConfig;
pub use settings::{Settings, TopicSettings};
pub use value::ConfValue;
