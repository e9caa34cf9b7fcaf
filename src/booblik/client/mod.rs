//! A client: connections, producer and consumer.
//!
//! ```
//! # use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
//! use slipstream::booblik::client::{Client, Start};
//! use slipstream::booblik::wire::Acks;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> slipstream::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
//! # broker.ensure_topic("words", 1).await?;
//! # let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
//! # let address = server.local_addr().to_string();
//! let client = Client::connect(&address).await?; // host:port, or [address]:port for IPv6
//! client.produce("words", 0, Acks::Written, &["hello", "world"]).await?;
//!
//! let mut consumer = client.consumer("words", 0).start(Start::Earliest).open().await?;
//! let record = consumer.next().await?;
//! assert_eq!((record.offset, &record.value[..]), (0, &b"hello"[..]));
//! assert_eq!(consumer.lag(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | ask for topics, append and read with single requests | [`Client`] |
//! | let a key choose the partition | [`Topic`] |
//! | write many records | [`Producer`] |
//! | read a partition from end to end | [`Consumer`] |
//!
//! # Connections
//!
//! Requests of a [`Client`] share one connection, with many in flight. A fetch that waits has a connection of its own,
//! since a broker holds everything behind it; so does each producer and each consumer. A connection that has ended is made
//! again by the next call, with pauses that double up to a cap.
//!
//! Every call has a deadline. When it passes, the connection is closed, as an answer may still come that nobody could
//! tell from the next one. Metadata and fetches are asked again as long as there is time; a produce only when no byte of
//! it was sent, unless [`Resend::Always`] is set.
//!
//! # Cancel safety
//!
//! A call that is dropped while it waits for its answer keeps its place in the queue of its connection: the answer is
//! thrown away when it comes, and the next caller gets its own. What a dropped produce asked for may be done.

mod address;
mod backoff;
mod call;
mod connection;
mod consumer;
mod error;
mod fifo;
mod gap;
mod link;
mod options;
mod producer;
mod stats;
mod topic;

pub use address::Address;
pub use call::Client;
pub use consumer::{Consumer, ConsumerBuilder};
pub use error::{ClientError, Ended, Fate, Place};
pub use gap::{OutOfRange, Start};
pub use options::{ClientBuilder, Resend};
pub use producer::{Delivery, Outcome, Producer, ProducerBuilder, Sent};
pub use stats::ClientStats;
pub use topic::Topic;
