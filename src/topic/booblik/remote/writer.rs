//! Writing over the protocol: a queue and a task for each partition, one request under way in each, sent again until
//! the broker has answered. Order is kept; a record whose answer was lost may be there twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Remote;
use super::sending::Sending;
use crate::booblik::wire::{Acks, MAX_FRAME_BYTES, MAX_RECORD_BYTES, produce_frame_bytes};
use crate::conf::{Durability, Encoding};
use crate::error::{Error, Kind, Result};
use crate::flow::{Push, Queue};
use crate::topic::booblik::envelope;
use crate::topic::booblik::format::Format;
use crate::topic::booblik::spread::Spread;
use crate::topic::driver::{Ack, Outgoing, Receipt, Refusal, Refused, Writer};
use crate::topic::room::Room;

/// Records and bytes that may wait for a partition's task, which sends them together.
const WAITING_MAX_RECORDS: usize = 8192;
const WAITING_MAX_BYTES: usize = 1024 * 1024;

/// A record on its way.
pub(super) struct Waiting {
    pub payload: Bytes,
    pub ack: Ack,
}

impl Waiting {
    /// Says what became of it.
    pub(super) fn end(self, outcome: Result<Receipt>) {
        match (self.ack, outcome) {
            (Ack::Unit(guard), Ok(_)) => guard.ok(),
            (Ack::Unit(guard), Err(error)) => guard.fail(error),
            // A caller that has gone does not want to know.
            (Ack::Reply(reply), outcome) => drop(reply.send(outcome)),
        }
    }
}

/// What a writer and its tasks share.
#[derive(Default)]
pub(super) struct Progress {
    pub room: Room,
    /// Records that wait or are under way.
    under_way: AtomicU64,
    ended: Notify,
    /// Why what waits is not written, by partition.
    trouble: watch::Sender<Trouble>,
}

/// Reasons by partition.
pub(super) type Trouble = BTreeMap<i32, Arc<str>>;

impl Progress {
    /// So many records have been acknowledged, or have failed.
    pub(super) fn end(&self, records: usize) {
        if self.under_way.fetch_sub(records as u64, Ordering::SeqCst) == records as u64 {
            self.ended.notify_waiters();
        }
    }

    /// Says why a partition cannot be written, or that it can.
    pub(super) fn set_trouble(&self, partition: i32, why: Option<Arc<str>>) {
        self.trouble.send_if_modified(|trouble| match why {
            Some(why) => trouble.insert(partition, Arc::clone(&why)).is_none_or(|known| known != why),
            None => trouble.remove(&partition).is_some(),
        });
    }

    async fn all_ended(&self) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.under_way.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// Writes one topic.
pub(super) struct RemoteWriter(Arc<Inner>);

struct Inner {
    remote: Arc<Remote>,
    format: Format,
    acks: Acks,
    progress: Arc<Progress>,
    open: OnceLock<Open>,
    /// Ends the tasks.
    stop: CancellationToken,
}

struct Open {
    parts: Vec<Arc<Queue<Waiting>>>,
    spread: Spread,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
        self.discard();
    }
}

impl Inner {
    /// Gives up what waits.
    fn discard(&self) {
        self.open.get().iter().flat_map(|open| &open.parts).for_each(|queue| queue.discard());
    }

    fn payload(&self, record: &Outgoing) -> Result<Bytes> {
        self.format.check(record)?;
        let payload = match self.format.encoding {
            Encoding::Envelope => {
                let mut bytes = Vec::new();
                envelope::encode(record, envelope::now(), &mut bytes);
                Bytes::from(bytes)
            }
            Encoding::Plain => record.value.clone().unwrap_or_default(),
        };
        let frame_bytes = produce_frame_bytes(&record.topic, 1, payload.len());
        if payload.len() > MAX_RECORD_BYTES || frame_bytes > MAX_FRAME_BYTES {
            let text = format!("a record of {} bytes; the protocol takes {MAX_RECORD_BYTES}", payload.len());
            return Err(Error::new(Kind::TooLarge, text).at(&*record.topic));
        }
        Ok(payload)
    }

    async fn open(&self, topic: &Arc<str>, wanted: Option<u32>) -> Result<()> {
        if self.open.get().is_some() {
            return Ok(());
        }
        let missing = || Error::new(Kind::UnknownTopic, self.remote.missing(topic)).retryable();
        let partitions = self.remote.describe_or_say(topic).await?.ok_or_else(missing)?;
        let spread = Spread::new(partitions.len()).ok_or_else(missing)?;
        self.remote.counts.compare(topic, wanted, partitions.len());
        let (mut parts, mut sendings) = (Vec::new(), Vec::new());
        for partition in partitions {
            let queue = Arc::new(Queue::new(WAITING_MAX_RECORDS, WAITING_MAX_BYTES));
            sendings.push(Sending {
                client: self.remote.client.clone(),
                topic: Arc::clone(topic),
                partition: partition.partition,
                acks: self.acks,
                queue: Arc::clone(&queue),
                progress: Arc::clone(&self.progress),
            });
            parts.push(queue);
        }
        // Another caller may have been faster: then these are dropped.
        if self.open.set(Open { parts, spread }).is_ok() {
            for sending in sendings {
                let stop = self.stop.clone();
                tokio::spawn(async move { stop.run_until_cancelled(sending.run()).await });
            }
        }
        Ok(())
    }
}

impl RemoteWriter {
    pub(super) fn new(remote: Arc<Remote>, format: Format, durability: Durability) -> Self {
        let acks = match durability {
            Durability::Written => Acks::Written,
            Durability::Forced => Acks::Forced,
        };
        let (progress, open, stop) = (Arc::default(), OnceLock::new(), CancellationToken::new());
        Self(Arc::new(Inner { remote, format, acks, progress, open, stop }))
    }
}

impl Writer for RemoteWriter {
    fn write(&self, record: Outgoing, ack: Ack) -> std::result::Result<(), Refused> {
        let Some(open) = self.0.open.get() else {
            let error = Error::new(Kind::Closed, "the topic is not open").at(&*record.topic);
            return Err(Refused::Failed(error, ack));
        };
        let prepared = open.spread.choose(&record).and_then(|at| Ok((at, self.0.payload(&record)?)));
        let (at, payload) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Refused::Failed(error, ack)),
        };
        // Before the attempt: room that is made meanwhile only means one attempt more.
        let refusal = self.0.progress.room.refusal();
        let Some(queue) = open.parts.get(at) else { return Err(Refused::Full(record, ack, refusal)) };
        self.0.progress.under_way.fetch_add(1, Ordering::SeqCst);
        let bytes = payload.len();
        match queue.push(Waiting { payload, ack }, bytes) {
            Push::Taken => Ok(()),
            Push::Full(back) => {
                self.0.progress.end(1);
                Err(Refused::Full(record, back.ack, refusal))
            }
            Push::Closed(back) => {
                self.0.progress.end(1);
                let error = Error::new(Kind::Closed, "the connection is closed").at(&*record.topic);
                Err(Refused::Failed(error, back.ack))
            }
        }
    }

    fn poll_room(&self, since: Refusal, cx: &Context<'_>) -> Poll<()> {
        self.0.progress.room.poll(since, cx)
    }

    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>> {
        let inner = Arc::clone(&self.0);
        async move {
            if tokio::time::timeout(limit, inner.progress.all_ended()).await.is_ok() {
                return Ok(());
            }
            let lost = inner.progress.under_way.load(Ordering::SeqCst);
            inner.stop.cancel();
            inner.discard();
            let text = format!("{lost} records were not acknowledged within {limit:?}");
            Err(Error::new(Kind::Timeout, text).at(inner.remote.url.clone()))
        }
        .boxed()
    }

    fn troubles(&self) -> Option<BoxStream<'static, Option<String>>> {
        let trouble = self.0.progress.trouble.subscribe();
        let next = |mut trouble: watch::Receiver<Trouble>| async move {
            trouble.changed().await.ok()?;
            let why =
                trouble.borrow_and_update().iter().next().map(|(number, why)| format!("partition {number}: {why}"));
            Some((why, trouble))
        };
        Some(stream::unfold(trouble, next).boxed())
    }

    fn has_headers(&self) -> bool {
        self.0.format.encoding == Encoding::Envelope
    }

    fn prepare(&self, topic: Arc<str>, partitions: Option<u32>) -> BoxFuture<'static, Result<()>> {
        let inner = Arc::clone(&self.0);
        async move { inner.open(&topic, partitions).await }.boxed()
    }
}
