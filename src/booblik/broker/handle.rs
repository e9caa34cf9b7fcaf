//! The handle of an open broker.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};

use super::health::{Health, PartitionMetrics};
use super::open::Open;
use super::options::BrokerOptions;
use super::partition::Partition;
use super::registry;

/// An open data directory.
///
/// Cheap to clone. It is closed when its last handle is dropped: what was accepted is written first, and until that is
/// done the drop blocks; [`close`](Self::close) does it without blocking.
///
/// ```
/// # use slipstream::booblik::broker::{Acks, Broker, BrokerOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// broker.ensure_topic("words", 4).await?;
/// broker.partition("words", 3)?.append(["hello"], Acks::Forced).await?;
/// broker.close().await?;
///
/// let again = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// assert_eq!(again.topics()["words"], 4);
/// assert_eq!(again.partition("words", 3)?.high_watermark(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Broker(pub(super) Arc<Open>);

impl Broker {
    /// Opens the data directory `directory`, which is created if it is not there. Every topic in it is opened and read
    /// once to its end. If this process has it open already, that broker is shared.
    ///
    /// # Errors
    ///
    /// `Kind::Locked` when another process has it open; the error names it. `Kind::AlreadyOpen` when this process has,
    /// with other options. `Kind::Corrupt` for damage, `Kind::Config` for options that cannot work, `Kind::Io`,
    /// `Kind::DiskFull`.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the opening goes on to its end and the broker is closed again.
    pub async fn open(directory: impl AsRef<Path>, options: BrokerOptions) -> Result<Self> {
        let directory = directory.as_ref().to_owned();
        let opened = tokio::task::spawn_blocking(move || {
            registry::open(&directory, options).map_err(|error| {
                if error.place().is_none() { error.at(directory.display().to_string()) } else { error }
            })
        });
        Ok(Self(opened.await.map_err(|error| Error::new(Kind::Panic, "opening a broker").because(error))??))
    }

    /// Who this broker is: 32 hexadecimal digits that were drawn when the directory was first opened.
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// The data directory.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// The topics and how many partitions each has.
    pub fn topics(&self) -> BTreeMap<String, usize> {
        let served = self.0.topics().served();
        served.iter().map(|(topic, partitions)| (topic.to_string(), partitions.len())).collect()
    }

    /// Creates a topic with `partitions` partitions unless it is there. Returns how many it has: a topic keeps the
    /// number that it was created with.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for a name or a number that cannot be; `Kind::Io`, `Kind::DiskFull`.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the topic is created all the same.
    pub async fn ensure_topic(&self, name: &str, partitions: usize) -> Result<usize> {
        if let Some(found) = self.0.topics().get(name) {
            return Ok(found.len());
        }
        let (topics, name) = (Arc::clone(self.0.topics()), name.to_owned());
        let count = i32::try_from(partitions).unwrap_or(i32::MAX);
        let created = self.0.pool().call(move || topics.ensure(&name, count)).await;
        Ok(created.ok_or_else(|| Error::new(Kind::Closed, "the broker is closed"))??.len())
    }

    /// The partition of that number of the topic with that name.
    ///
    /// # Errors
    ///
    /// `Kind::UnknownTopic` when one of them is not there.
    pub fn partition(&self, topic: &str, number: i32) -> Result<Partition> {
        self.find(topic, number).ok_or_else(|| {
            let text = format!("there is no partition {number} of a topic {topic}");
            Error::new(Kind::UnknownTopic, text).at(self.directory().display().to_string())
        })
    }

    pub(super) fn find(&self, topic: &str, number: i32) -> Option<Partition> {
        let partitions = self.0.topics().get(topic)?;
        partitions.get(usize::try_from(number).ok()?).cloned()
    }

    /// Brings everything that was appended to stable storage, in all partitions.
    ///
    /// # Errors
    ///
    /// The first that occurs; the other partitions are synced all the same.
    pub async fn sync(&self) -> Result<()> {
        let mut result = Ok(());
        for partition in self.0.topics().partitions() {
            result = result.and(partition.sync().await);
        }
        result
    }

    /// Writes what was accepted, brings it to stable storage, and lets go of the directory if this is the last handle.
    ///
    /// # Errors
    ///
    /// When syncing fails; the broker is closed all the same.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the broker is closed as by dropping its handle.
    pub async fn close(self) -> Result<()> {
        let partitions = self.0.topics().partitions();
        let wrote = self.0.pool().call(move || partitions.iter().for_each(|partition| partition.0.write_group())).await;
        let synced = self.sync().await;
        let closed = tokio::task::spawn_blocking(move || drop(self)).await;
        closed.map_err(|error| Error::new(Kind::Panic, "closing a broker").because(error))?;
        wrote.map_or(Ok(()), |()| synced)
    }

    /// Whether all partitions can write, and which cannot.
    pub fn health(&self) -> Health {
        Health::of(&self.0.topics().partitions())
    }

    /// What each partition has done and how it stands, by topic and number.
    pub fn metrics(&self) -> Vec<PartitionMetrics> {
        self.0.topics().partitions().iter().map(|partition| PartitionMetrics::of(&partition.0)).collect()
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Broker({})", self.directory().display())
    }
}
