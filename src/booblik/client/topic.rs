//! A topic to which records are sent by key.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::{Client, ClientError};
use crate::booblik::wire::{Acks, Partitioner, Produced};

/// A topic and its partitions as they were when it was asked for; a broker does not change them while it runs.
///
/// A key always goes to the same partition, with every client of this protocol. An empty key is a key too.
///
/// ```
/// # use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
/// use slipstream::booblik::client::Client;
/// use slipstream::booblik::wire::Acks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// # broker.ensure_topic("users", 3).await?;
/// # let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
/// # let address = server.local_addr().to_string();
/// let client = Client::connect(&address).await?;
/// let users = client.topic("users").await?;
/// users.send(Some(b"user-1"), "signed in", Acks::Forced).await?;
/// assert_eq!(users.partition_for(Some(b"user-1")), 1);
/// # assert_eq!(broker.partition("users", 1)?.high_watermark(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Topic {
    client: Client,
    name: Arc<str>,
    partitions: Vec<i32>,
    count: NonZeroU32,
    partitioner: Partitioner,
    /// Where the next record without a key goes.
    turn: AtomicU32,
}

impl Topic {
    pub(super) fn new(client: Client, name: Arc<str>, partitions: Vec<i32>) -> Result<Self, ClientError> {
        let count = u32::try_from(partitions.len()).ok().and_then(NonZeroU32::new);
        let Some(count) = count else { return Err(ClientError::NoPartitions { topic: name }) };
        Ok(Self { client, name, partitions, count, partitioner: Partitioner::default(), turn: AtomicU32::new(0) })
    }

    /// Chooses partitions as writers of this topic always did, where that is not FNV-1a.
    #[must_use]
    pub fn partitioner(mut self, partitioner: Partitioner) -> Self {
        self.partitioner = partitioner;
        self
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The numbers of its partitions, in the order in which keys are spread over them.
    pub fn partitions(&self) -> &[i32] {
        &self.partitions
    }

    /// The partition of a key; without one the next in turn, also when nothing is sent there.
    pub fn partition_for(&self, key: Option<&[u8]>) -> i32 {
        let at = match key {
            Some(key) => self.partitioner.partition(key, self.count),
            None => self.turn.fetch_add(1, Relaxed) % self.count,
        };
        self.partitions.get(at as usize).copied().unwrap_or_default()
    }

    /// Sends one record with a request of its own. The key is not stored. For many records there is
    /// [`Producer::send_keyed`](super::Producer::send_keyed).
    ///
    /// # Errors
    ///
    /// Those of [`Client::produce`].
    pub async fn send(
        &self,
        key: Option<&[u8]>,
        record: impl AsRef<[u8]> + Sync,
        acks: Acks,
    ) -> Result<Option<Produced>, ClientError> {
        self.client.produce(&self.name, self.partition_for(key), acks, &[record]).await
    }
}
