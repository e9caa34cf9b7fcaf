//! Records that go out together, and the outcome that they share.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, SetOnce};
use tokio::time::Instant;

use crate::booblik::client::ClientError;
use crate::booblik::wire::produce_frame_bytes;

/// The offset of the first record, which is unknown where nobody acknowledges.
pub(super) type Outcome = Result<Option<i64>, ClientError>;

/// Where the outcome of a batch will be.
pub(super) type Cell = Arc<SetOnce<Outcome>>;

/// Records for one partition.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    /// Batches are numbered in the order in which they were begun.
    pub(super) number: u64,
    pub(super) records: Vec<Bytes>,
    payload_bytes: usize,
    /// When it began to wait to be sent.
    pub(super) ready_at: Option<Instant>,
    outcome: Cell,
    /// Where its room is given back.
    room: Arc<Semaphore>,
    cost: usize,
}

impl Batch {
    pub(super) fn new(topic: Arc<str>, partition: i32, number: u64, room: Arc<Semaphore>) -> Self {
        let (records, outcome) = (Vec::new(), Arc::new(SetOnce::new()));
        Self { topic, partition, number, records, payload_bytes: 0, ready_at: None, outcome, room, cost: 0 }
    }

    /// Adds a record and returns its place in the batch.
    pub(super) fn push(&mut self, record: Bytes, cost: usize) -> usize {
        self.payload_bytes += record.len();
        self.cost += cost;
        self.records.push(record);
        self.records.len() - 1
    }

    /// The size of its request with `more` further records of `bytes` together.
    pub(super) fn frame_bytes(&self, more: usize, bytes: usize) -> usize {
        produce_frame_bytes(&self.topic, self.records.len() + more, self.payload_bytes + bytes)
    }

    pub(super) fn outcome(&self) -> &Cell {
        &self.outcome
    }

    /// Tells the outcome to whoever waits for it.
    pub(super) fn finish(self, outcome: Outcome) {
        // It is set nowhere else before it is dropped.
        self.outcome.set(outcome).ok();
    }
}

impl Drop for Batch {
    /// A batch that is given up fails its records; in any case its room is free again.
    fn drop(&mut self) {
        self.outcome.set(Err(ClientError::Closed)).ok();
        self.room.add_permits(self.cost);
    }
}
