//! What passes through topics: JSON of about 100 bytes.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use slipstream::prelude::*;
use slipstream::testing::until;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payment {
    pub id: u64,
    pub user: String,
    pub amount: u64,
    pub note: String,
}

pub fn payment(id: u64) -> Payment {
    Payment { id, user: format!("u-{}", (id * 7919) % 10_000), amount: id % 1000, note: "x".repeat(40) }
}

/// What handlers do with them.
pub fn double(message: Message<Payment>) -> (Option<String>, Payment) {
    let Message { key, mut value, .. } = message;
    value.amount *= 2;
    (key, value)
}

/// Runs it until all of `source` is handled and acknowledged, and stops it. The times from the first message until then,
/// and until it has closed.
pub async fn pass(run: slipstream::Run, source: &str, count: u64) -> (Duration, Duration) {
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.stats().handled(source) > 0).await;
    let began = Instant::now();
    let lanes = || handle.health().sources.into_iter().flat_map(|source| source.lanes);
    let open = || lanes().map(|lane| lane.in_flight).sum::<u64>();
    until(|| handle.stats().handled(source) == count && open() == 0).await;
    let acknowledged = began.elapsed();
    handle.trigger();
    task.await.unwrap().unwrap();
    (acknowledged, began.elapsed())
}
