//! The task that sends the batches of a producer.

use std::pin::pin;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::accumulator::Step;
use super::batch::{Batch, Outcome};
use crate::booblik::client::ClientError;
use crate::booblik::client::call::{answer_of, placed};
use crate::booblik::client::connection::Ask;
use crate::booblik::client::error::Ended;
use crate::booblik::client::link::{Deadline, Link, Pending};
use crate::booblik::wire::{self, Acks};

/// Sends batches in the order in which they are ready, several in flight, until the producer is closed and everything is
/// answered.
///
/// Records are taken from the accumulator by nothing that could be dropped half-way.
pub(super) async fn run(shared: Arc<Shared>, link: Link) {
    let mut in_flight = FuturesUnordered::new();
    loop {
        let step = shared.lock().step(Instant::now());
        if step == Step::Send && in_flight.len() < shared.max_in_flight {
            let Some(batch) = shared.lock().take() else { continue };
            if let Some(sent) = send(&shared, &link, batch, &mut in_flight).await {
                in_flight.push(sent.finish(&link, shared.acks));
            }
            continue;
        }
        if step == Step::Finish && in_flight.is_empty() {
            break;
        }
        wait(&shared, step, &mut in_flight).await;
    }
    shared.finished.cancel();
}

/// Waits for an answer, for news, or for the end of a window.
async fn wait<F: Future<Output = ()>>(shared: &Shared, step: Step, in_flight: &mut FuturesUnordered<F>) {
    let (due, is_due) = match step {
        Step::WaitUntil(due) => (due, true),
        _ => (Instant::now(), false),
    };
    tokio::select! {
        Some(()) = in_flight.next() => {}
        () = shared.news.notified() => {}
        () = sleep_until(due), if is_due => {}
    }
}

/// A batch on its way.
struct InFlight {
    batch: Batch,
    pending: Pending,
}

/// Sends a batch; one that cannot be sent has failed when this returns.
async fn send<F: Future<Output = ()>>(
    shared: &Shared,
    link: &Link,
    batch: Batch,
    in_flight: &mut FuturesUnordered<F>,
) -> Option<InFlight> {
    match submit(shared, link, &batch, in_flight).await {
        Ok(pending) => Some(InFlight { batch, pending }),
        Err(error) => {
            let error = placed(error, &batch.topic, Some(batch.partition));
            batch.finish(Err(error));
            None
        }
    }
}

/// Puts a batch on its way, and goes on hearing of those before it meanwhile.
async fn submit<F: Future<Output = ()>>(
    shared: &Shared,
    link: &Link,
    batch: &Batch,
    in_flight: &mut FuturesUnordered<F>,
) -> Result<Pending, ClientError> {
    let encode =
        |out: &mut _, id| wire::encode_produce(out, id, &batch.topic, batch.partition, shared.acks, &batch.records);
    let ask = Ask { encode: &encode, frame_bytes: batch.frame_bytes(0, 0), answer: answer_of(shared.acks) };
    let ready_at = batch.ready_at.unwrap_or_else(Instant::now);
    let deadline = Deadline { at: ready_at + shared.timeout, after: shared.timeout };
    let mut submitted = pin!(link.submit(&ask, deadline));
    loop {
        tokio::select! {
            submitted = &mut submitted => return submitted,
            Some(()) = in_flight.next() => {}
        }
    }
}

impl InFlight {
    async fn finish(mut self, link: &Link, acks: Acks) {
        let outcome = self.outcome(link, acks).await;
        self.batch.finish(outcome);
    }

    async fn outcome(&mut self, link: &Link, acks: Acks) -> Outcome {
        let answered = self.pending.answer().await;
        let body = answered.map_err(|error| placed(error, &self.batch.topic, Some(self.batch.partition)))?;
        if acks == Acks::None {
            return Ok(None);
        }
        let produced = wire::decode_produced(&body).map_err(|error| {
            link.end(&Ended::Malformed(error));
            ClientError::Answer(error)
        });
        produced.map(|produced| Some(produced.base_offset))
    }
}
