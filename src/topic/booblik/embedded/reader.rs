//! Reading the log's files.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crc32c::crc32c;
use tokio::sync::watch;

use super::place::Place;
use crate::booblik::broker::Partition;
use crate::booblik::log::HEADER_BYTES;
use crate::error::{Error, Kind, Result};
use crate::message::Record;
use crate::topic::begin::Bounds;
use crate::topic::booblik::envelope;
use crate::topic::booblik::log::{Log, Reader};
use crate::topic::driver::Wanted;

/// What is read at once. Records share the memory of what they were read with: who keeps one keeps as much.
const READ_BYTES: usize = 64 * 1024;

/// Reads one partition. Woken by the log's end when it has caught up.
pub(in crate::topic::booblik) struct LogReader {
    partition: Partition,
    end: watch::Receiver<i64>,
    next: i64,
    /// Records that were read, as they are stored.
    stored: Bytes,
    /// Where the next one begins in `stored`.
    at: usize,
}

impl LogReader {
    fn new(partition: Partition, next: i64) -> Self {
        Self { end: partition.watch(), partition, next, stored: Bytes::new(), at: 0 }
    }

    /// Reads on, after waiting for something to read.
    async fn fill(&mut self) -> Result<()> {
        while self.at == self.stored.len() {
            let next = self.next;
            // The log lives as long as its partition.
            let _ = self.end.wait_for(|end| *end != next).await;
            self.stored = self.partition.read(next, READ_BYTES)?.stored;
            self.at = 0;
        }
        Ok(())
    }

    /// Takes the next record out of what was read.
    #[inline]
    fn take(&mut self) -> Result<Option<Record>> {
        let rest = self.stored.get(self.at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some((crc, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*length) as usize;
        let payload = rest.get(..bytes).unwrap_or_default();
        let (stored, computed) = (u32::from_be_bytes(*crc), crc32c(payload));
        if stored != computed || payload.len() != bytes {
            return Err(self.damaged(stored, computed));
        }
        let start = self.at + HEADER_BYTES;
        let record = envelope::decode(&self.stored, start..start + bytes, self.next);
        self.at = start + bytes;
        self.next += 1;
        Ok(Some(record))
    }

    fn damaged(&self, stored: u32, computed: u32) -> Error {
        let text = format!("record {}: its checksum is {computed:08x}, stored is {stored:08x}", self.next);
        Error::new(Kind::Corrupt, text).at(self.partition.to_string())
    }
}

impl Reader for LogReader {
    async fn next(&mut self, records: &mut Vec<Record>, max: usize) -> Result<usize> {
        self.fill().await?;
        let mut bytes = 0;
        for _ in 0..max {
            let Some(record) = self.take()? else { break };
            bytes += record.size_bytes();
            records.push(record);
        }
        Ok(bytes)
    }

    fn position(&self) -> i64 {
        self.next
    }
}

impl Log for Place {
    type Reader = LogReader;

    const LOOK_AGAIN: Option<Duration> = None;

    async fn partitions(&self, wanted: &Wanted) -> Result<Option<Vec<(i32, Bounds)>>> {
        let partitions = self.ensure(&wanted.name, wanted.partitions).await?;
        let bounds = |own: &Partition| Bounds { low: own.log_start(), high: own.high_watermark() };
        Ok(Some(partitions.iter().map(|own| (own.number(), bounds(own))).collect()))
    }

    async fn reader(&self, topic: &Arc<str>, partition: i32, from: i64) -> Result<LogReader> {
        Ok(LogReader::new(self.partition(topic, partition).await?, from))
    }

    async fn crc(&self, topic: &str, partition: i32, offset: i64) -> Result<Option<u32>> {
        let partition = self.partition(topic, partition).await?;
        match partition.read(offset, 1) {
            Ok(batch) => Ok(batch.records().next().map(|record| record.crc)),
            // Retention was faster.
            Err(error) if error.kind() == Kind::OutOfRange => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn next_readable(&self, topic: &str, partition: i32, offset: i64) -> Result<i64> {
        Ok(self.partition(topic, partition).await?.next_readable(offset))
    }

    async fn sync(&self, topic: &str, partition: i32) -> Result<()> {
        self.partition(topic, partition).await?.sync().await
    }

    fn missing(&self, wanted: &Wanted) -> String {
        format!("topic {} does not exist yet", wanted.name)
    }

    fn away(&self) -> Option<watch::Receiver<Option<Arc<str>>>> {
        None
    }
}
