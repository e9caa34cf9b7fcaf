//! Writing: a record goes to its partition's queue at once, and is acknowledged from the thread that has written it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::place::Place;
use crate::booblik::broker::{Acknowledge, Acks, AppendError, Done, Outcome, Partition};
use crate::conf::{Durability, Encoding};
use crate::error::{Error, Kind, Result};
use crate::topic::booblik::format::Format;
use crate::topic::booblik::spread::Spread;
use crate::topic::booblik::{envelope, place};
use crate::topic::driver::{Ack, Outgoing, Receipt, Refusal, Refused, Writer};
use crate::topic::opaque::Opaques;
use crate::topic::room::Room;

/// A buffer that grew beyond this is given back.
const KEPT_BYTES: usize = 64 * 1024;

/// Writes one topic.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<Inner>);

struct Inner {
    place: Arc<Place>,
    format: Format,
    acks: Acks,
    room: Room,
    /// The topic, once it was prepared.
    open: OnceLock<Open>,
}

struct Open {
    parts: Box<[Part]>,
    spread: Spread,
    runtime: Handle,
}

/// One partition.
struct Part {
    partition: Partition,
    told: Arc<Told>,
    /// Records handed over.
    taken: AtomicU64,
    /// Someone waits for room.
    watched: AtomicBool,
}

impl LogWriter {
    pub(super) fn new(place: Arc<Place>, format: Format, durability: Durability) -> Self {
        let acks = match durability {
            Durability::Written => Acks::Written,
            Durability::Forced => Acks::Forced,
        };
        Self(Arc::new(Inner { place, format, acks, room: Room::default(), open: OnceLock::new() }))
    }

    async fn open(&self, topic: &str, partitions: Option<u32>) -> Result<()> {
        if self.0.open.get().is_some() {
            return Ok(());
        }
        let parts: Box<[Part]> = self.0.place.ensure(topic, partitions).await?.into_iter().map(Part::new).collect();
        let none = || Error::new(Kind::UnknownTopic, "the topic has no partitions").at(topic);
        let spread = Spread::new(parts.len()).ok_or_else(none)?;
        // Another caller may have been faster: its parts are as good.
        let _ = self.0.open.set(Open { parts, spread, runtime: Handle::current() });
        Ok(())
    }

    /// Says that there is room as soon as the partition has some, to all who wait.
    fn watch(&self, open: &Open, at: usize) {
        let Some(part) = open.parts.get(at) else { return };
        if part.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let (writer, partition) = (self.clone(), part.partition.clone());
        open.runtime.spawn(async move {
            partition.room().await;
            if let Some(part) = writer.0.open.get().and_then(|open| open.parts.get(at)) {
                part.watched.store(false, Ordering::Release);
            }
            writer.0.room.made();
        });
    }

    async fn flushed(&self) {
        for part in self.0.open.get().iter().flat_map(|open| &open.parts) {
            part.flushed().await;
        }
    }

    fn waiting(&self) -> u64 {
        self.0.open.get().iter().flat_map(|open| &open.parts).map(Part::waiting).sum()
    }
}

impl Writer for LogWriter {
    fn write(&self, record: Outgoing, ack: Ack) -> std::result::Result<(), Refused> {
        let Some(open) = self.0.open.get() else {
            let error = Error::new(Kind::Closed, "the topic is not open").at(&*record.topic);
            return Err(Refused::Failed(error, ack));
        };
        let at = match self.0.format.check(&record).and_then(|()| open.spread.choose(&record)) {
            Ok(at) => at,
            Err(error) => return Err(Refused::Failed(error, ack)),
        };
        // Before the attempt: room that is made meanwhile only means one attempt more.
        let refusal = self.0.room.refusal();
        let Some(part) = open.parts.get(at) else { return Err(Refused::Full(record, ack, refusal)) };
        match part.submit(&record, ack, self.0.format.encoding, self.0.acks) {
            Ok(()) => Ok(()),
            Err((AppendError::Full, ack)) => {
                self.watch(open, at);
                Err(Refused::Full(record, ack, refusal))
            }
            Err((error, ack)) => Err(Refused::Failed(Error::from(error).at(&*part.told.name), ack)),
        }
    }

    fn poll_room(&self, since: Refusal, cx: &Context<'_>) -> Poll<()> {
        self.0.room.poll(since, cx)
    }

    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>> {
        let writer = self.clone();
        async move {
            if tokio::time::timeout(limit, writer.flushed()).await.is_ok() {
                return Ok(());
            }
            let text = format!("{} records were not written within {limit:?}", writer.waiting());
            Err(Error::new(Kind::Timeout, text).at(writer.0.place.directory().display().to_string()))
        }
        .boxed()
    }

    fn has_headers(&self) -> bool {
        self.0.format.encoding == Encoding::Envelope
    }

    fn prepare(&self, topic: Arc<str>, partitions: Option<u32>) -> BoxFuture<'static, Result<()>> {
        let writer = self.clone();
        async move { writer.open(&topic, partitions).await }.boxed()
    }
}

thread_local! {
    /// Where envelopes are put together.
    static ENVELOPE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Part {
    fn new(partition: Partition) -> Self {
        let told = Told {
            name: place(partition.topic(), partition.number()),
            number: partition.number(),
            opaques: Opaques::default(),
            done: AtomicU64::new(0),
            flushing: AtomicBool::new(false),
            flushed: Notify::new(),
        };
        Self { partition, told: Arc::new(told), taken: AtomicU64::new(0), watched: AtomicBool::new(false) }
    }

    fn submit(
        &self,
        record: &Outgoing,
        ack: Ack,
        encoding: Encoding,
        acks: Acks,
    ) -> std::result::Result<(), (AppendError, Ack)> {
        match encoding {
            Encoding::Plain => self.submit_bytes(record.value.as_deref().unwrap_or_default(), ack, acks),
            Encoding::Envelope => ENVELOPE.with_borrow_mut(|bytes| {
                envelope::encode(record, envelope::now(), bytes);
                let submitted = self.submit_bytes(bytes, ack, acks);
                if bytes.capacity() > KEPT_BYTES {
                    *bytes = Vec::new();
                }
                submitted
            }),
        }
    }

    fn submit_bytes(&self, bytes: &[u8], ack: Ack, acks: Acks) -> std::result::Result<(), (AppendError, Ack)> {
        let is_awaited = matches!(ack, Ack::Reply(_));
        let token = self.told.opaques.pack(ack);
        // Counted first: it may be done before the call returns.
        self.taken.fetch_add(1, Ordering::SeqCst);
        let done = Done::Token(Arc::clone(&self.told) as Arc<dyn Acknowledge>, token as u64);
        match self.partition.submit([bytes], acks, done) {
            Ok(()) if is_awaited => self.partition.hurry(),
            Ok(()) => {}
            Err(error) => {
                self.taken.fetch_sub(1, Ordering::SeqCst);
                // What was packed a moment ago is there.
                let Some(ack) = self.told.opaques.unpack(token) else { return Ok(()) };
                return Err((error, ack));
            }
        }
        Ok(())
    }

    fn waiting(&self) -> u64 {
        self.taken.load(Ordering::SeqCst).saturating_sub(self.told.done.load(Ordering::SeqCst))
    }

    /// Waits until everything that was handed over is acknowledged.
    async fn flushed(&self) {
        self.told.flushing.store(true, Ordering::SeqCst);
        self.partition.hurry();
        loop {
            let mut told = std::pin::pin!(self.told.flushed.notified());
            told.as_mut().enable();
            if self.waiting() == 0 {
                return;
            }
            told.await;
        }
    }
}

/// Is told what became of the records of a partition.
struct Told {
    /// For errors.
    name: String,
    number: i32,
    opaques: Opaques,
    /// Records that are acknowledged, or failed.
    done: AtomicU64,
    /// Someone waits for all of them.
    flushing: AtomicBool,
    flushed: Notify,
}

impl Acknowledge for Told {
    fn acknowledge(&self, token: u64, outcome: Outcome) {
        // It came from a `usize`.
        let ack = usize::try_from(token).ok().and_then(|token| self.opaques.unpack(token));
        match (ack, outcome) {
            (Some(Ack::Unit(guard)), Ok(_)) => guard.ok(),
            (Some(Ack::Unit(guard)), Err(error)) => guard.fail(Error::from(error).at(&*self.name)),
            (Some(Ack::Reply(reply)), outcome) => {
                let receipt = outcome.map(|at| Receipt { partition: self.number, offset: at.base_offset });
                // A caller that has gone does not want to know.
                let _ = reply.send(receipt.map_err(|error| Error::from(error).at(&*self.name)));
            }
            (None, _) => {}
        }
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    fn group_ended(&self) {
        if self.flushing.load(Ordering::SeqCst) {
            self.flushed.notify_waiters();
        }
    }
}
