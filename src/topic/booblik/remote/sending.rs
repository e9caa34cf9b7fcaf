//! The task that sends a partition's records, one request after the other.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::writer::{Progress, Waiting};
use crate::booblik::client::{Client, ClientError};
use crate::booblik::wire::{Acks, ErrorCode, Produced};
use crate::error::Error;
use crate::flow::Queue;
use crate::topic::booblik::place;
use crate::topic::driver::Receipt;

/// How long a partition that refuses is left alone.
const TRY_AGAIN: Duration = Duration::from_millis(200);

pub(super) struct Sending {
    pub client: Client,
    pub topic: Arc<str>,
    pub partition: i32,
    pub acks: Acks,
    pub queue: Arc<Queue<Waiting>>,
    pub progress: Arc<Progress>,
}

impl Sending {
    /// Sends what waits, all of it together, until the queue is closed.
    pub(super) async fn run(self) {
        let mut batch = VecDeque::new();
        while poll_fn(|cx| self.queue.poll_take(&mut batch, cx)).await {
            self.progress.room.made();
            self.send(&mut batch).await;
        }
    }

    async fn send(&self, batch: &mut VecDeque<Waiting>) {
        let payloads: Vec<Bytes> = batch.iter().map(|waiting| waiting.payload.clone()).collect();
        match self.produce(&payloads).await {
            Ok(produced) => self.acknowledge(batch, produced),
            // One of them is refused for good: which one is learnt by sending each alone.
            Err(_) if batch.len() > 1 => {
                while let Some(waiting) = batch.pop_front() {
                    let mut alone = VecDeque::from([waiting]);
                    Box::pin(self.send(&mut alone)).await;
                }
            }
            Err(error) => {
                let count = batch.len();
                let failed = |error: &ClientError| Error::from(error.clone()).at(place(&self.topic, self.partition));
                batch.drain(..).for_each(|waiting| waiting.end(Err(failed(&error))));
                self.progress.end(count);
            }
        }
    }

    fn acknowledge(&self, batch: &mut VecDeque<Waiting>, produced: Option<Produced>) {
        let (count, base) = (batch.len(), produced.map_or(-1, |produced| produced.base_offset));
        for (offset, waiting) in (base..).zip(batch.drain(..)) {
            waiting.end(Ok(Receipt { partition: self.partition, offset }));
        }
        self.progress.end(count);
    }

    /// Sends until the broker has answered. That it cannot be reached is no failure: its writers wait.
    async fn produce(&self, payloads: &[Bytes]) -> Result<Option<Produced>, ClientError> {
        let mut is_said = false;
        loop {
            let error = match self.produce_once(payloads, &mut is_said).await {
                Ok(produced) => {
                    if is_said {
                        self.say_well();
                    }
                    return Ok(produced);
                }
                Err(error) => error,
            };
            // A broker that comes back may need a while until it has its topics.
            if !error.is_retryable() && error.code() != Some(ErrorCode::UnknownTopicOrPartition) {
                return Err(error);
            }
            self.say(&error.to_string(), &mut is_said);
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// Sends, and says it as soon as the broker cannot be reached, which is before the client gives up.
    async fn produce_once(&self, payloads: &[Bytes], is_said: &mut bool) -> Result<Option<Produced>, ClientError> {
        let mut away = self.client.away();
        let mut call = std::pin::pin!(self.client.produce(&self.topic, self.partition, self.acks, payloads));
        let why = tokio::select! {
            biased;
            produced = &mut call => return produced,
            Ok(away) = away.wait_for(Option::is_some) => away.clone(),
        };
        self.say(why.as_deref().unwrap_or_default(), is_said);
        call.await
    }

    fn say(&self, why: &str, is_said: &mut bool) {
        self.progress.set_trouble(self.partition, Some(why.into()));
        if !std::mem::replace(is_said, true) {
            let (topic, partition) = (&*self.topic, self.partition);
            tracing::warn!(topic, partition, "cannot be written, tried again: {why}");
        }
    }

    fn say_well(&self) {
        self.progress.set_trouble(self.partition, None);
        tracing::info!(topic = &*self.topic, partition = self.partition, "written again");
    }
}
