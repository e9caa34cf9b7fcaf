//! The driver of a subscription: starts its thread and its watcher, and passes the app's wishes on.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rdkafka::consumer::BaseConsumer;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::{self, Served};
use super::commits::{Commits, Committer};
use super::context::{Context, Inbox};
use super::events::Outbox;
use super::lookup::{self, Lookup};
use super::part::VISIT_MAX_RECORDS;
use super::reader::{Command, Reader};
use super::rebalance::name;
use super::record::Copier;
use super::shared::Shared;
use super::wake::{Alarm, Signal};
use super::watch::Watch;
use super::{Admin, KafkaBackend};
use crate::conf::KafkaConfig;
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::topic::driver::{Assignment, Driver, EventSender, Membership, SeekTo, Subscription, not_ours};

/// Wishes of the app that may wait for the thread.
const COMMANDS_MAX: usize = 64;
/// How long a commit may take before the app is told to try again.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a seek may take; the thread itself needs at most half of it.
const SEEK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long leaving the group may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often topics are looked at, unless the configuration says so: new ones and new partitions are noticed then.
const METADATA_INTERVAL_MS: &str = "3000";

pub(super) struct KafkaDriver {
    commands: mpsc::Sender<Command>,
    signal: Arc<Signal>,
    shared: Arc<Shared>,
    lookup: Arc<Lookup>,
    ended: CancellationToken,
    /// Ends the watcher.
    stop: DropGuard,
}

/// Begins to read.
pub(super) fn subscribe(
    backend: &KafkaBackend,
    subscription: Subscription,
    events: EventSender,
) -> Result<Arc<KafkaDriver>> {
    let lookup = backend.lookup()?;
    let alarm = Arc::new(Alarm::default());
    let signal = Signal::new(&alarm);
    let inbox = Arc::new(Inbox::default());
    let consumer = Arc::new(consumer(&backend.consumer, &subscription, &inbox, &signal)?);
    let committer = Committer::start(Arc::clone(&consumer), Arc::clone(&inbox), Arc::clone(&signal))?;
    let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
    let shared = Arc::new(Shared::default());
    let stop = CancellationToken::new();
    let watch = Watch {
        lookup: Arc::clone(&lookup),
        admin: Admin::of(backend),
        shared: Arc::clone(&shared),
        topics: subscription.topics.clone(),
        in_group: matches!(subscription.group, Membership::Group(_)),
        static_in: static_in(&backend.consumer, &subscription.group),
        events: events.clone(),
        commands: commands.downgrade(),
        signal: Arc::clone(&signal),
        stop: stop.clone(),
    };
    let reader = Reader {
        consumer,
        inbox,
        alarm,
        signal: Arc::clone(&signal),
        lookup: Arc::clone(&lookup),
        shared: Arc::clone(&shared),
        subscription,
        outbox: Outbox::new(events),
        commands: receiver,
        parts: Vec::new(),
        commits: Commits::default(),
        committer,
        step: None,
        batch: Vec::with_capacity(VISIT_MAX_RECORDS),
        copier: Copier::default(),
        epochs: 0,
        closing: false,
    };
    let ended = CancellationToken::new();
    let at_end = ended.clone().drop_guard();
    let thread = std::thread::Builder::new().name("kafka-reader".to_owned());
    thread.spawn(move || {
        reader.run();
        drop(at_end);
    })?;
    tokio::spawn(watch.run());
    Ok(Arc::new(KafkaDriver { commands, signal, shared, lookup, ended, stop: stop.drop_guard() }))
}

/// The group in which this is a static member that assigns partitions itself; with the newer protocol the broker does.
fn static_in(config: &KafkaConfig, group: &Membership) -> Option<Arc<str>> {
    let Membership::Group(group) = group else { return None };
    let is_static = config.get("group.instance.id").is_some_and(|id| !id.is_empty());
    let by_members = config.get("group.protocol").is_none_or(|protocol| !protocol.eq_ignore_ascii_case("consumer"));
    (is_static && by_members).then(|| Arc::clone(group))
}

fn consumer(
    config: &KafkaConfig,
    subscription: &Subscription,
    inbox: &Arc<Inbox>,
    signal: &Arc<Signal>,
) -> Result<BaseConsumer<Context>> {
    let mut client = client::client_config(config);
    if let Membership::Group(group) = &subscription.group {
        client.set("group.id", &**group);
    }
    client.set("allow.auto.create.topics", "false");
    if config.get("topic.metadata.refresh.interval.ms").is_none() {
        client.set("topic.metadata.refresh.interval.ms", METADATA_INTERVAL_MS);
    }
    let context = Context { inbox: Arc::clone(inbox), served: Served::default() };
    let mut consumer: BaseConsumer<Context> = client::create(&client, context, config)?;
    let raised = Arc::clone(signal);
    consumer.set_nonempty_callback(move || raised.raise());
    Ok(consumer)
}

impl KafkaDriver {
    /// Passes a command on; it is dropped, and its reply with it, when the thread has ended.
    fn tell(&self, command: Command) -> impl Future<Output = ()> + Send + use<> {
        let (commands, signal) = (self.commands.clone(), Arc::clone(&self.signal));
        async move {
            if commands.send(command).await.is_ok() {
                signal.raise();
            }
        }
    }
}

fn closed() -> Error {
    Error::new(Kind::Closed, "the Kafka consumer has ended")
}

fn late(doing: &str, limit: Duration) -> Error {
    Error::new(Kind::Timeout, format!("{doing} took longer than {limit:?}")).retryable()
}

impl Driver for KafkaDriver {
    fn commit(&self, positions: Vec<Position>) -> BoxFuture<'static, Result<()>> {
        let (reply, answer) = oneshot::channel();
        let tell = self.tell(Command::Commit(positions, reply));
        async move {
            let commit = async {
                tell.await;
                answer.await.unwrap_or_else(|_| Err(closed()))
            };
            let timed = tokio::time::timeout(COMMIT_TIMEOUT, commit).await;
            timed.unwrap_or_else(|_| Err(late("a commit", COMMIT_TIMEOUT)))
        }
        .boxed()
    }

    fn resolve(&self, topic: Arc<str>, partition: i32, to: SeekTo) -> BoxFuture<'static, Result<i64>> {
        let place = (topic, partition);
        let owned = self.shared.owns(&place);
        let lookup = Arc::clone(&self.lookup);
        async move {
            let refuse = |why: String| Err(Error::new(Kind::Seek, why).at(name(&place)));
            if !owned {
                return Err(not_ours(name(&place)));
            }
            let asked = place.clone();
            let found = lookup::blocking(&lookup, "cannot look up where to seek", move |lookup| {
                let bounds = lookup.bounds(std::slice::from_ref(&asked))?;
                let by_time = match to {
                    SeekTo::Time(millis) if millis >= 0 => lookup.by_time(&asked, millis)?,
                    _ => None,
                };
                Ok((bounds.first().copied(), by_time))
            });
            let (Some(bounds), by_time) = found.await? else {
                return refuse("the ends of the log are unknown".to_owned());
            };
            match to {
                SeekTo::Beginning => Ok(bounds.low),
                SeekTo::End => Ok(bounds.high),
                SeekTo::Offset(offset) if (bounds.low..=bounds.high).contains(&offset) => Ok(offset),
                SeekTo::Offset(offset) => {
                    refuse(format!("offset {offset} is outside the log: {} to {}", bounds.low, bounds.high))
                }
                SeekTo::Time(millis) if millis < 0 => refuse(format!("{millis} ms is before 1970")),
                SeekTo::Time(_) => Ok(by_time.unwrap_or(bounds.high)),
            }
        }
        .boxed()
    }

    fn seek(&self, topic: Arc<str>, partition: i32, offset: i64) -> BoxFuture<'static, Result<Assignment>> {
        let (reply, answer) = oneshot::channel();
        let tell = self.tell(Command::Seek((topic, partition), offset, reply));
        async move {
            let seek = async {
                tell.await;
                answer.await.unwrap_or_else(|_| Err(closed()))
            };
            let timed = tokio::time::timeout(SEEK_TIMEOUT, seek).await;
            timed.unwrap_or_else(|_| Err(late("a seek", SEEK_TIMEOUT)))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        let tell = self.tell(Command::Close);
        let ended = self.ended.clone();
        let stop = self.stop.token().clone();
        async move {
            stop.cancel();
            let close = async {
                tell.await;
                ended.cancelled().await;
            };
            if tokio::time::timeout(CLOSE_TIMEOUT, close).await.is_err() {
                tracing::warn!("the Kafka consumer does not end within {CLOSE_TIMEOUT:?}; its thread is left behind");
            }
            Ok(())
        }
        .boxed()
    }
}

impl Drop for KafkaDriver {
    fn drop(&mut self) {
        // The thread finds the way of commands closed.
        self.signal.raise();
    }
}
