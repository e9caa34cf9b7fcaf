//! Writing: one producer, acknowledged by its delivery reports.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer as _, ProducerContext, PurgeConfig};
use tokio::sync::Notify;

use super::client;
use super::lookup::{self, Lookup};
use super::manage::Admin;
use super::produce::Handles;
use crate::conf::KafkaConfig;
use crate::error::{Error, Kind, Result};
use crate::flow::WakerSet;
use crate::topic::driver::{Ack, Outgoing, Receipt, Refusal, Refused, Writer};
use crate::topic::opaque::Opaques;

/// How long the thread listens for delivery reports at a time. The wrapper spins through the last millisecond of it.
const SLICE: Duration = Duration::from_millis(100);
/// The same while a writer waits for room: librdkafka counts a record until the whole report is dealt with, so that
/// the wake by the report itself may come too early.
const SLICE_WHEN_FULL: Duration = Duration::from_millis(5);
/// How long the reports of purged records may take.
const PURGE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct KafkaWriter {
    producer: Arc<BaseProducer<Deliveries>>,
    handles: Handles<Deliveries>,
    state: Arc<State>,
    admin: Admin,
    lookup: Arc<Lookup>,
}

/// What writers and the thread know together.
#[derive(Default)]
struct State {
    opaques: Opaques,
    /// Records that were taken and not reported yet.
    outstanding: AtomicUsize,
    /// A writer waits for room, until `outstanding` is down to `resume_at`.
    is_full: AtomicBool,
    /// How often room was made.
    made: AtomicU64,
    resume_at: AtomicUsize,
    room: WakerSet,
    /// Told when nothing is outstanding.
    empty: Notify,
    /// No broker can be reached; said once.
    is_away: AtomicBool,
    fatal: OnceLock<String>,
    stop: AtomicBool,
}

struct Deliveries(Arc<State>);

impl KafkaWriter {
    pub(super) fn new(config: &KafkaConfig, admin: Admin, lookup: Arc<Lookup>) -> Result<Self> {
        let state = Arc::new(State::default());
        let context = Deliveries(Arc::clone(&state));
        let producer: BaseProducer<Deliveries> = client::create(&client::client_config(config), context, config)?;
        let producer = Arc::new(producer);
        let (polled, seen) = (Arc::clone(&producer), Arc::clone(&state));
        let thread = std::thread::Builder::new().name("kafka-writer".to_owned());
        thread.spawn(move || serve(polled, &seen))?;
        let handles = Handles::new(Arc::clone(&producer));
        Ok(Self { producer, handles, state, admin, lookup })
    }
}

/// Listens for delivery reports until the writer is dropped. The producer is dropped here, where waiting is allowed.
fn serve(producer: Arc<BaseProducer<Deliveries>>, state: &State) {
    while !state.stop.load(Ordering::Acquire) {
        let is_full = state.is_full.load(Ordering::Acquire);
        producer.poll(if is_full { SLICE_WHEN_FULL } else { SLICE });
        if is_full {
            state.make_room();
        }
    }
    drop(producer);
}

impl Drop for KafkaWriter {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
    }
}

impl State {
    fn make_room(&self) {
        self.is_full.store(false, Ordering::Release);
        self.made.fetch_add(1, Ordering::SeqCst);
        self.room.wake_all();
    }

    /// Has the next writers woken when a quarter of what is outstanding now is delivered: not for each record.
    fn fill(&self) {
        let outstanding = self.outstanding.load(Ordering::Relaxed);
        self.resume_at.store(outstanding - outstanding.div_ceil(4), Ordering::Relaxed);
        self.is_full.store(true, Ordering::Release);
    }

    fn refusal(&self) -> Refusal {
        Refusal(self.made.load(Ordering::SeqCst))
    }

    #[inline]
    fn one_less(&self) {
        let left = self.outstanding.fetch_sub(1, Ordering::AcqRel) - 1;
        if self.is_full.load(Ordering::Acquire) && left <= self.resume_at.load(Ordering::Relaxed) {
            self.make_room();
        }
        if left == 0 {
            self.empty.notify_waiters();
        }
    }

    async fn until_empty(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.empty.notified());
            emptied.as_mut().enable();
            if self.outstanding.load(Ordering::Acquire) == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn fatal(&self) -> Option<Error> {
        let reason = self.fatal.get()?;
        Some(Error::new(Kind::Broker, format!("the Kafka producer cannot go on: {reason}")))
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match client::code_of(&error) {
            Some(RDKafkaErrorCode::Fatal) => {
                tracing::error!(reason, "the Kafka producer cannot go on");
                self.0.fatal.get_or_init(|| reason.to_owned());
            }
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                if !self.0.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(reason, "no broker can be reached: writes wait");
                }
            }
            Some(code) if client::is_final(code) => tracing::error!(%code, reason, "the Kafka producer is refused"),
            _ => tracing::debug!(%error, reason, "the Kafka producer reports an error"),
        }
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        if result.is_ok() && self.0.is_away.load(Ordering::Relaxed) {
            self.0.is_away.store(false, Ordering::Relaxed);
            tracing::info!("the broker takes writes again");
        }
        match (self.0.opaques.unpack(number), result) {
            (Some(Ack::Unit(guard)), Ok(_)) => guard.ok(),
            (Some(Ack::Unit(guard)), Err((error, message))) => guard.fail(undelivered(error, message.topic())),
            (Some(Ack::Reply(reply)), result) => {
                let answer = match result {
                    Ok(message) => Ok(Receipt { partition: message.partition(), offset: message.offset() }),
                    Err((error, message)) => Err(undelivered(error, message.topic())),
                };
                // Whoever asked may have given up waiting.
                let _gave_up = reply.send(answer);
            }
            (None, _) => {}
        }
        self.0.one_less();
    }
}

fn undelivered(error: &KafkaError, topic: &str) -> Error {
    let doing = match client::code_of(error) {
        Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight) => "given up before the broker had it",
        _ => "not written",
    };
    client::to_error(error, doing).at(format!("topic {topic}"))
}

impl Writer for KafkaWriter {
    fn write(&self, record: Outgoing, ack: Ack) -> std::result::Result<(), Refused> {
        if let Some(error) = self.state.fatal() {
            return Err(Refused::Failed(error, ack));
        }
        // Before the attempt: room that is made meanwhile only means one attempt more.
        let refusal = self.state.refusal();
        let number = self.state.opaques.pack(ack);
        self.state.outstanding.fetch_add(1, Ordering::AcqRel);
        let Err(error) = self.handles.send(&record, number) else { return Ok(()) };
        self.state.one_less();
        // Packed just now, and given to nobody.
        let Some(ack) = self.state.opaques.unpack(number) else { return Ok(()) };
        if client::code_of(&error) == Some(RDKafkaErrorCode::QueueFull) {
            self.state.fill();
            return Err(Refused::Full(record, ack, refusal));
        }
        Err(Refused::Failed(client::to_error(&error, "not written").at(format!("topic {}", record.topic)), ack))
    }

    fn poll_room(&self, since: Refusal, cx: &TaskContext<'_>) -> Poll<()> {
        self.state.room.register(cx);
        if self.state.refusal() == since { Poll::Pending } else { Poll::Ready(()) }
    }

    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>> {
        let (state, producer) = (Arc::clone(&self.state), Arc::clone(&self.producer));
        async move {
            if tokio::time::timeout(limit, state.until_empty()).await.is_ok() {
                return Ok(());
            }
            let given_up = state.outstanding.load(Ordering::Acquire);
            producer.purge(PurgeConfig::default().queue().inflight());
            if tokio::time::timeout(PURGE_TIMEOUT, state.until_empty()).await.is_err() {
                tracing::warn!("records that were given up are still not reported after {PURGE_TIMEOUT:?}");
            }
            let message = format!("{given_up} records were not acknowledged within {limit:?} and are given up");
            Err(Error::new(Kind::Timeout, message))
        }
        .boxed()
    }

    fn prepare(&self, topic: Arc<str>, partitions: Option<u32>) -> BoxFuture<'static, Result<()>> {
        let (admin, lookup) = (self.admin.clone(), Arc::clone(&self.lookup));
        async move {
            let asked = Arc::clone(&topic);
            let find = move |lookup: &Lookup| lookup.partitions(&asked);
            if lookup::blocking(&lookup, "cannot look the topic up", find).await?.is_some() {
                return Ok(());
            }
            match partitions {
                Some(partitions) => admin.create(&topic, partitions).await,
                None => Err(Error::new(Kind::UnknownTopic, "the topic does not exist").at(&*topic).retryable()),
            }
        }
        .boxed()
    }
}
