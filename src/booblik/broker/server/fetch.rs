//! Requests to read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep_until};

use crate::booblik::log::{Found, Slice};
use crate::booblik::wire::{ErrorCode, FETCHED_HEAD_BYTES, Fetch, fetched_head, gap_record};

use super::super::partition::Partition;
use super::counts::{Gauge, count};
use super::session::{End, Session};

/// After so much nothing is read on while a fetch waits: the buffer of a read is not outgrown.
const AHEAD_BYTES: usize = 16 << 10;

/// What there is to answer with.
struct Ready {
    high_watermark: i64,
    found: Result<Found, ErrorCode>,
}

impl Session {
    /// Answers with records as they are stored, after waiting for them if that was asked for. Everything before this
    /// request was answered.
    pub(super) async fn fetch(&mut self, correlation_id: i32, fetch: &Fetch<'_>) -> Result<(), End> {
        count(&self.shared.counts.fetches);
        let Some(partition) = self.find(fetch.topic, fetch.partition) else {
            self.refuse(correlation_id, ErrorCode::UnknownTopicOrPartition, false);
            return Ok(());
        };
        let ready = self.ready(&partition, fetch).await?;
        match ready.found {
            Ok(Found::Slice(slice)) => {
                let bytes = slice.bytes.min(fetch.payload_limit().into());
                self.send(correlation_id, ready.high_watermark, &slice, bytes).await
            }
            Ok(Found::CaughtUp) => {
                self.out.extend_from_slice(&fetched_head(correlation_id, ready.high_watermark, 0));
                Ok(())
            }
            Ok(Found::Gap { next }) => {
                let record = gap_record(next);
                let bytes = record.len().min(fetch.payload_limit() as usize);
                let length = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.out.extend_from_slice(&fetched_head(correlation_id, ready.high_watermark, length));
                self.out.extend_from_slice(record.get(..bytes).unwrap_or_default());
                Ok(())
            }
            Ok(Found::OutOfRange) => {
                self.refuse(correlation_id, ErrorCode::OffsetOutOfRange, false);
                Ok(())
            }
            Err(code) => {
                self.refuse(correlation_id, code, false);
                Ok(())
            }
        }
    }

    /// The slice is held until its last byte is sent, so that retention cannot make the answer shorter than it says.
    async fn send(&self, correlation_id: i32, high_watermark: i64, slice: &Slice, bytes: u64) -> Result<(), End> {
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let head: [u8; FETCHED_HEAD_BYTES] = fetched_head(correlation_id, high_watermark, length);
        self.socket.write_all(&head, bytes > 0).await?;
        self.socket.send_file(slice.segment.file(), slice.position, bytes).await?;
        self.shared.counts.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until there is enough, or an error, or the time is over.
    async fn ready(&mut self, partition: &Partition, fetch: &Fetch<'_>) -> Result<Ready, End> {
        let ready = look(partition, fetch.offset);
        if fetch.max_wait_millis == 0 || is_enough(&ready, fetch) {
            return Ok(ready);
        }
        let shared = Arc::clone(&self.shared);
        let _held = Gauge::raise(&shared.counts.held);
        let deadline = Instant::now() + fetch.wait();
        let mut watch = partition.watch();
        loop {
            // Seen before it is looked: what comes after the look is news.
            watch.borrow_and_update();
            let ready = look(partition, fetch.offset);
            if is_enough(&ready, fetch) || self.is_stopping() || Instant::now() >= deadline {
                return Ok(ready);
            }
            tokio::select! {
                changed = watch.changed() => drop(changed),
                () = shared.stop.cancelled() => {}
                () = sleep_until(deadline) => {}
                end = self.watch_client() => return Err(end),
            }
        }
    }

    /// Ends when the client has left. What it sends is kept for later, up to a bound.
    async fn watch_client(&mut self) -> End {
        loop {
            if self.frames.buffered_bytes() >= AHEAD_BYTES {
                return std::future::pending().await;
            }
            if let Err(error) = self.socket.stream.readable().await {
                return End::lost(&error);
            }
            if let Err(end) = self.read() {
                return end;
            }
            if let Some(end) = self.take_closed() {
                return end;
            }
        }
    }
}

fn look(partition: &Partition, offset: i64) -> Ready {
    match partition.0.view.find(offset) {
        Ok((high_watermark, found)) => Ready { high_watermark, found: Ok(found) },
        Err(error) => {
            tracing::error!(%error, "{partition}: cannot be read at {offset}");
            Ready { high_watermark: partition.high_watermark(), found: Err(ErrorCode::PartitionUnavailable) }
        }
    }
}

/// Whether waiting would not make the answer better: there is as much as was asked for, the segment ends here, or it is
/// an error.
fn is_enough(ready: &Ready, fetch: &Fetch<'_>) -> bool {
    match &ready.found {
        Ok(Found::Slice(slice)) => slice.sealed || slice.bytes >= fetch.wanted_bytes().into(),
        Ok(Found::CaughtUp) => false,
        Ok(Found::Gap { .. } | Found::OutOfRange) | Err(_) => true,
    }
}
