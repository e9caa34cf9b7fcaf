//! One partition, as its users see it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::booblik::log::Batch;
use crate::booblik::wire::Acks;
use crate::error::{Error, Kind, Result};

use super::done::{AppendError, Appended, Done};
use super::queue::Turn;
use super::writer::Writer;

/// A partition of an open [`Broker`](super::Broker): a log that is appended to and read by offset.
///
/// Cheap to clone. It can be read as long as it is held, and appended to as long as its broker is open.
///
/// ```
/// # use slipstream::booblik::broker::{Acks, Broker, BrokerOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// broker.ensure_topic("words", 1).await?;
/// let words = broker.partition("words", 0)?;
///
/// let appended = words.append(["some", "words"], Acks::Written).await?;
/// assert_eq!(appended.end_offset, 2);
///
/// let batch = words.read(1, 1 << 20)?;
/// let record = batch.records().next().unwrap();
/// assert_eq!((record.offset, &record.payload[..]), (1, &b"words"[..]));
/// record.check()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Partition(pub(super) Arc<Writer>);

impl Partition {
    /// The name of its topic.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// Its number within the topic.
    pub fn number(&self) -> i32 {
        self.0.number
    }

    /// The largest payload that is accepted: 8 MiB less 26 bytes, or what a segment holds.
    pub fn max_record_bytes(&self) -> usize {
        self.0.max_payload_bytes
    }

    /// Appends `records`, all or none while the process lives; they get offsets that follow each other. Waits while the
    /// queue is full, and for what `ack` says.
    ///
    /// # Errors
    ///
    /// All of [`AppendError`] but `Full`.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the queue had room, nothing was taken. Dropped later, the records are written all the same.
    pub async fn append<R: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = R>,
        ack: Acks,
    ) -> Result<Appended, AppendError> {
        let (sender, receiver) = oneshot::channel();
        let (mut records, mut done) = (Some(records), Some(Done::Send(sender)));
        loop {
            match self.0.push(&mut records, ack, &mut done, Turn::Now) {
                Ok(()) => break,
                Err(AppendError::Full) => self.room().await,
                Err(error) => return Err(error),
            }
        }
        receiver.await.unwrap_or(Err(AppendError::Closed))
    }

    /// Hands `records` over without waiting; `done` is told later. For a caller that has many batches under way: they
    /// are gathered for a moment (`BrokerOptions::gather`) and written together, in the order in which they were
    /// handed over.
    ///
    /// # Errors
    ///
    /// All of [`AppendError`]. Nothing was taken then, and `done` is not told.
    pub fn submit<R: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = R>,
        ack: Acks,
        done: Done,
    ) -> Result<(), AppendError> {
        self.0.push(&mut Some(records), ack, &mut Some(done), Turn::Soon)
    }

    /// What was submitted is written without further gathering.
    pub fn hurry(&self) {
        self.0.hurry();
    }

    /// Waits until the queue has room. Another caller may be faster.
    pub async fn room(&self) {
        let mut notified = std::pin::pin!(self.0.room.notified());
        notified.as_mut().enable();
        if !self.0.queue.has_room() {
            notified.await;
        }
    }

    /// Whether it can write. `false` from a failed write on until one would succeed again.
    pub fn is_available(&self) -> bool {
        *self.0.available.borrow()
    }

    /// Waits until it can write.
    pub async fn available(&self) {
        // The sender lives as long as `self`.
        drop(self.0.available.subscribe().wait_for(|available| *available).await);
    }

    /// The first offset that is still here.
    pub fn log_start(&self) -> i64 {
        self.0.view.start()
    }

    /// The offset behind the last record: the one that the next record gets.
    pub fn high_watermark(&self) -> i64 {
        self.0.view.end()
    }

    /// Follows [`high_watermark`](Self::high_watermark). The value is the latest, and none that is awaited is missed.
    pub fn watch(&self) -> watch::Receiver<i64> {
        self.0.view.watch()
    }

    /// The records from `offset` on: as many as fit into `max_bytes`, whole ones of one segment; one larger record
    /// comes alone. None when `offset` is the high watermark. A batch that ends early says nothing about the log's end.
    ///
    /// This is a call to the operating system, one per batch for a reader that goes on where it stopped. It is short
    /// when the file is in memory, as it is for a reader that keeps up.
    ///
    /// # Errors
    ///
    /// `Kind::OutOfRange` for an offset below the start, above the high watermark, or in a gap: see
    /// [`next_readable`](Self::next_readable). `Kind::Io`, `Kind::Corrupt`.
    pub fn read(&self, offset: i64, max_bytes: usize) -> Result<Batch> {
        self.0.view.read(offset, max_bytes).map_err(|error| error.at(self.to_string()))
    }

    /// The first offset at or behind `offset` that can be read or will be written: past what retention removed, and
    /// past a gap that damage left.
    pub fn next_readable(&self, offset: i64) -> i64 {
        self.0.view.next_readable(offset)
    }

    /// The offset up to which everything is on stable storage.
    pub fn synced(&self) -> i64 {
        self.0.durable.synced()
    }

    /// Brings everything that was appended before this call to stable storage. Costs nothing if it is there already.
    ///
    /// # Errors
    ///
    /// `Kind::Io`; `Kind::Closed` after the broker was closed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the sync takes place all the same.
    pub async fn sync(&self) -> Result<()> {
        if self.0.durable.unsynced() == 0 {
            return Ok(());
        }
        let writer = Arc::clone(&self.0);
        let synced = self.0.blocking(move || writer.durable.sync()).await?;
        synced.map(drop).map_err(|error| Error::from(error).at(self.to_string()))
    }
}

impl Writer {
    /// Runs `work` on a thread that may wait.
    pub(super) async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.pool().call(work).await.ok_or_else(|| Error::new(Kind::Closed, "the broker is closed"))
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.topic, self.0.number)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({self})")
    }
}
