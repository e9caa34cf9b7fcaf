//! Reading over the protocol: each partition has a connection of its own, whose fetches wait for records.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Remote;
use crate::booblik::client::{ClientError, Consumer, Start};
use crate::booblik::wire::{Damage, Ending, ErrorCode, Fetch, MAX_FETCH_BYTES, PartitionInfo, Records, crc32c};
use crate::error::{Error, Result};
use crate::message::Record;
use crate::topic::begin::Bounds;
use crate::topic::booblik::log::{Log, Reader};
use crate::topic::booblik::{envelope, place};
use crate::topic::driver::Wanted;

/// What is fetched at once. Records share the memory of what they came with: who keeps one keeps as much.
const FETCH_BYTES: u32 = 256 * 1024;
/// How long the broker waits for records before it answers with none.
const FETCH_WAIT: Duration = Duration::from_secs(5);
/// What is fetched to learn a record's checksum, if that is enough.
const PEEK_BYTES: u32 = 4096;
/// How often to look whether a broker has come back with more partitions.
const GROWN: Duration = Duration::from_secs(30);

type Fetched = <Records as IntoIterator>::IntoIter;

/// Reads one partition.
pub(in crate::topic::booblik) struct RemoteReader {
    consumer: Consumer,
    left: Option<Fetched>,
    next: i64,
    /// A record larger than usual is fetched.
    is_large: bool,
}

impl RemoteReader {
    /// Fetches on, after waiting for something to fetch; none when there was none for a while.
    async fn fill(&mut self) -> Result<Fetched> {
        loop {
            match self.consumer.poll().await {
                Ok(records) => {
                    if !records.is_empty() && std::mem::take(&mut self.is_large) {
                        self.consumer.set_max_bytes(FETCH_BYTES)?;
                    }
                    return Ok(records.into_iter());
                }
                Err(ClientError::ExceedsMaxBytes { .. }) if !self.is_large => {
                    self.is_large = true;
                    self.consumer.set_max_bytes(MAX_FETCH_BYTES)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Reader for RemoteReader {
    async fn next(&mut self, records: &mut Vec<Record>, max: usize) -> Result<usize> {
        let mut left = match self.left.take() {
            Some(left) => left,
            None => self.fill().await?,
        };
        let mut bytes = 0;
        for record in left.by_ref().take(max) {
            let record = envelope::decode(&record.value, 0..record.value.len(), record.offset);
            bytes += record.size_bytes();
            self.next = record.offset + 1;
            records.push(record);
        }
        self.left = Some(left).filter(|left| left.size_hint().0 > 0);
        Ok(bytes)
    }

    fn position(&self) -> i64 {
        self.next
    }
}

impl Log for Remote {
    type Reader = RemoteReader;

    const LOOK_AGAIN: Option<Duration> = Some(GROWN);

    async fn partitions(&self, wanted: &Wanted) -> Result<Option<Vec<(i32, Bounds)>>> {
        let found = self.describe(&wanted.name).await?.filter(|partitions| !partitions.is_empty());
        if let Some(found) = &found {
            self.counts.compare(&wanted.name, wanted.partitions, found.len());
        }
        let ends = |own: PartitionInfo| (own.partition, Bounds { low: own.log_start_offset, high: own.high_watermark });
        Ok(found.map(|partitions| partitions.into_iter().map(ends).collect()))
    }

    async fn reader(&self, topic: &Arc<str>, partition: i32, from: i64) -> Result<RemoteReader> {
        let consumer = self.client.consumer(Arc::clone(topic), partition).start(Start::At(from));
        let consumer = consumer.max_bytes(FETCH_BYTES).max_wait(FETCH_WAIT).open().await?;
        Ok(RemoteReader { consumer, left: None, next: from, is_large: false })
    }

    async fn crc(&self, topic: &str, partition: i32, offset: i64) -> Result<Option<u32>> {
        let mut max_bytes = PEEK_BYTES;
        loop {
            let fetch = Fetch { topic, partition, offset, max_bytes, max_wait_millis: 0, min_bytes: 0 };
            let fetched = match self.client.fetch(fetch).await {
                Ok(fetched) => fetched,
                // Retention was faster.
                Err(ClientError::Refused { code: ErrorCode::OffsetOutOfRange, .. }) => return Ok(None),
                Err(error) => return Err(Error::from(error).at(place(topic, partition))),
            };
            let first = fetched.records.values().next().map(crc32c);
            match (first, fetched.ending) {
                (None, Ending::Cut { .. }) if max_bytes < MAX_FETCH_BYTES => max_bytes = MAX_FETCH_BYTES,
                (first, _) => return Ok(first),
            }
        }
    }

    async fn next_readable(&self, topic: &str, partition: i32, offset: i64) -> Result<i64> {
        let mut offset = offset;
        loop {
            let fetch = Fetch { topic, partition, offset, max_bytes: PEEK_BYTES, max_wait_millis: 0, min_bytes: 0 };
            match self.client.fetch(fetch).await.map(|fetched| (fetched.records.is_empty(), fetched.ending)) {
                Ok((true, Ending::Damaged(Damage::Gap { next }))) if next > offset => return Ok(next),
                // A broker that does not say where what it has lost ends: the next offset can be the first one.
                Err(ClientError::Refused { code: ErrorCode::OffsetOutOfRange, .. }) => offset += 1,
                Ok(_) => return Ok(offset),
                Err(error) => return Err(Error::from(error).at(place(topic, partition))),
            }
        }
    }

    /// What the broker has is the broker's to keep.
    async fn sync(&self, _topic: &str, _partition: i32) -> Result<()> {
        Ok(())
    }

    fn missing(&self, wanted: &Wanted) -> String {
        Self::missing(self, &wanted.name)
    }

    fn away(&self) -> Option<watch::Receiver<Option<Arc<str>>>> {
        Some(self.client.away())
    }
}
