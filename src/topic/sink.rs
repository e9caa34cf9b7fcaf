//! A topic as a sink: encodes, hands over, and lets the acknowledgement come by itself.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::declare::Topic;
use super::driver::{Ack, Outgoing, Refused, Writer};
use super::open::OpenTopic;
use super::record::{IntoRecord, Parts, transpose};
use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::{Env, UnitCx};
use crate::message::StableId;
use crate::sink::{IntoSink, Sink, SinkBinding};

/// A topic as a sink of one lane.
pub struct TopicSink<V: 'static, K: 'static> {
    topic: Topic<V, K>,
    open: Arc<OpenTopic>,
    writer: Arc<dyn Writer>,
    /// The topic's name, in a copy of this lane's own: each record counts a reference to it.
    name: Arc<str>,
    /// The handler's name, for a topic whose records carry ids.
    ids: Option<Arc<OnceLock<Arc<str>>>>,
    waiting: Option<(Outgoing, Ack)>,
}

/// A record's bytes.
pub(crate) fn encode<V, K>(topic: &Topic<V, K>, name: &Arc<str>, parts: Parts<V, K>) -> Result<Outgoing> {
    let fail = |what: &str, error: Error| {
        Error::new(Kind::Encode, format!("the {what} cannot be encoded")).at(format!("topic {name}")).because(error)
    };
    let key = transpose(parts.key.map(|key| topic.key.encode_nullable(&key))).map_err(|error| fail("key", error))?;
    let value = topic.value.encode_nullable(&parts.value).map_err(|error| fail("value", error))?;
    // Kafka's client takes 0 for "now"; taken so here, it is the same on every broker.
    let (headers, timestamp) = (parts.headers, parts.timestamp.filter(|millis| *millis != 0));
    Ok(Outgoing { topic: Arc::clone(name), partition: None, key, value, headers, timestamp })
}

/// As [`StableId`] reads it.
fn stable_id(handler: &str, unit: &UnitCx) -> String {
    format!("{handler}/{}-{}-{}-{}-{}", unit.source(), unit.partition(), unit.offset(), unit.output(), unit.outage())
}

/// Hands over what waits, as soon as there is room.
pub(crate) fn poll_write(
    writer: &dyn Writer,
    waiting: &mut Option<(Outgoing, Ack)>,
    cx: &Context<'_>,
) -> Poll<Result<()>> {
    while let Some((record, ack)) = waiting.take() {
        match writer.write(record, ack) {
            Ok(()) => {}
            Err(Refused::Full(record, ack, since)) => {
                *waiting = Some((record, ack));
                ready!(writer.poll_room(since, cx));
            }
            Err(Refused::Failed(error, ack)) => return Poll::Ready(Err(refuse(error, ack))),
        }
    }
    Poll::Ready(Ok(()))
}

/// The caller is told by the result; the unit fails through its handler.
fn refuse(error: Error, ack: Ack) -> Error {
    if let Ack::Unit(guard) = ack {
        guard.ok();
    }
    error
}

impl<V, K, T> Sink<T> for TopicSink<V, K>
where
    T: IntoRecord<V, K> + Send,
{
    fn poll_send(
        mut self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = &mut *self;
        if let Some(value) = value.take() {
            let mut record = encode(&this.topic, &this.name, value.into_parts())?;
            if let Some(handler) = this.ids.as_ref().and_then(|name| name.get()) {
                record.headers.push(StableId::HEADER.to_owned(), Some(stable_id(handler, unit).into()));
            }
            if this.topic.dry {
                this.open.say_dry();
                return Poll::Ready(Ok(()));
            }
            this.waiting = Some((record, Ack::Unit(unit.guard())));
        }
        if this.waiting.is_some()
            && let Err(error) = ready!(this.open.poll_exists(cx))
        {
            let ack = this.waiting.take().map(|(_, ack)| ack);
            return Poll::Ready(Err(ack.map_or(error.copy(), |ack| refuse(error, ack)).into()));
        }
        poll_write(&*this.writer, &mut this.waiting, cx).map_err(Into::into)
    }

    fn fork(&self) -> Self {
        let (topic, open, writer) = (self.topic.clone(), Arc::clone(&self.open), Arc::clone(&self.writer));
        Self { topic, open, writer, name: Arc::from(&*self.name), ids: self.ids.clone(), waiting: None }
    }
}

/// Marker: a topic.
#[derive(Debug)]
pub enum FromTopic {}

impl<V, K, T> IntoSink<T, FromTopic> for Topic<V, K>
where
    T: IntoRecord<V, K> + Send,
{
    type Sink = TopicSink<V, K>;

    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<TopicSink<V, K>> {
        binding.writes_to(self.node());
        let ids = if self.stable_ids { Some(binding.ids(&self.node())?) } else { None };
        let env = binding.env();
        let open = OpenTopic::in_app(&self, env)?;
        let writer = open.writer()?;
        if self.stable_ids && !writer.has_headers() {
            let message = "has stable ids, which travel in headers: these need `encoding = \"envelope\"`";
            return Err(Error::new(Kind::Build, message).at(format!("topic {}", open.name)));
        }
        if !self.dry {
            prepare(&open, &writer, self.partitions, env);
        }
        let name = Arc::from(&*open.name);
        Ok(TopicSink { topic: self, open, writer, name, ids, waiting: None })
    }
}

impl<V, K, T> IntoSink<T, FromTopic> for &Topic<V, K>
where
    T: IntoRecord<V, K> + Send,
{
    type Sink = TopicSink<V, K>;

    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<TopicSink<V, K>> {
        IntoSink::<T, FromTopic>::into_sink(self.clone(), binding)
    }
}

/// How often a topic that is missing is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Finds the topic, or creates it if that was asked for: values wait until it exists, and `health()` says so. Flushes
/// the writer when the run ends.
fn prepare(open: &Arc<OpenTopic>, writer: &Arc<dyn Writer>, partitions: Option<u32>, env: &Env) {
    let (flush, limit) = (Arc::clone(writer), env.parts().revoke_timeout);
    env.on_close(0, move || Box::pin(async move { flush.flush(limit).await }));
    let (open, writer, env) = (Arc::clone(open), Arc::clone(writer), env.clone());
    env.clone().tasks().spawn(async move {
        let who = format!("topic {}", open.name);
        let found = async {
            while let Err(error) = open.prepare(partitions).await {
                if !error.is_retryable() {
                    open.give_up(&error);
                    return env.fail(error);
                }
                tracing::debug!("{}", error.report());
                env.set_notice(&who, Some(format!("waits to be written: {error}")));
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            env.set_notice(&who, None);
        };
        // At the end of a run only values that wait are a reason to go on looking.
        let needless = async {
            env.stop().cancelled().await;
            while open.is_waited_for() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            () = found => {}
            () = env.kill().cancelled() => {}
            () = needless => {}
        }
        env.stop().run_until_cancelled(tell(writer.troubles(), &who, &env)).await;
    });
}

/// Says in `health()` what keeps a topic from being written.
async fn tell(troubles: Option<BoxStream<'static, Option<String>>>, who: &str, env: &Env) {
    let Some(mut troubles) = troubles else { return };
    while let Some(trouble) = troubles.next().await {
        env.set_notice(who, trouble.map(|trouble| format!("cannot be written: {trouble}")));
    }
}
