//! Topics in a directory, and the server that answers for them.
//!
//! A [`Broker`] owns a data directory: a directory per partition, in the format of booblik 0.3, and three files of its
//! own. One process has it open at a time. Within the process a [`Partition`] is appended to and read without sockets.
//!
//! # Limits
//!
//! | what | default | where |
//! |---|---|---|
//! | bytes and records that wait for a partition's writer | 1 MiB, 16,384 | [`BrokerOptions`] |
//! | a batch, as it is stored | 16 MiB | [`Partition::append`] |
//! | a record | 8 MiB less 26 bytes, and a segment less 8 bytes | [`Partition::max_record_bytes`] |
//! | partitions of a topic | 10,000 | [`Broker::ensure_topic`] |
//! | threads that write | 4 | [`BrokerOptions`] |
//! | open files | one per segment | |

mod done;
mod handle;
mod health;
mod keeper;
mod open;
mod options;
mod partition;
mod pool;
mod queue;
mod registry;
mod server;
mod store;
mod topics;
mod writer;

#[cfg(test)]
mod tests;

pub use crate::booblik::wire::Acks;
pub use done::{Acknowledge, AppendError, Appended, Done, Outcome};
pub use handle::Broker;
pub use health::{Health, PartitionMetrics, Unavailable};
pub use options::{BrokerOptions, TopicOptions};
pub use partition::Partition;
pub use server::{Server, ServerMetrics, ServerOptions};
