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
//! | open files | one per segment; the limit of the process is raised as far as it may be | `ulimit -n` |
//! | memory for finding records | 2 MiB per GiB of log | `TopicOptions::index_interval_bytes` |
//! | connections | 4,096, or what the limit of open files leaves beside segments | [`ServerOptions`] |
//! | requests under way, per connection | 1,024 | [`ServerOptions`] |
//! | a request | 8 MiB | [`ServerOptions`] |
//! | requests that are not complete or wait for a partition, together | 256 MiB, and 128 KiB per connection | [`ServerOptions`] |
//! | silence, a request that stalls, a request as a whole, a client that does not read | 1 h, 60 s, 120 s, 30 s | [`ServerOptions`] |
//! | a fetch's wait and the bytes of its answer | 60 s, 8 MiB | the protocol |
//!
//! # Threads
//!
//! Writing and syncing take place on threads of the broker's own, so that a slow disk holds up no task. Reading takes
//! place where it is called: it is short as long as what is read is in the operating system's cache, as it is for
//! readers that keep up; one that reads old records from a slow disk holds up its thread meanwhile.

mod catalog;
mod descriptors;
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
#[cfg(feature = "cli")]
pub(crate) use catalog::topics_in;
pub use done::{Acknowledge, AppendError, Appended, Done, Outcome};
pub use handle::Broker;
pub use health::{Health, PartitionMetrics, Unavailable};
pub use options::{BrokerOptions, TopicOptions};
pub use partition::Partition;
pub use server::{Server, ServerMetrics, ServerOptions};
