//! What is open of a topic: by the apps that use it, or on demand outside of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::broker::{self, Broker};
use super::declare::Topic;
use super::driver::{Ack, Backend, Outgoing, Receipt, SeekTo, Writer};
use super::hub::{Move, SeekRequest};
use crate::conf::{Conf, TopicSettings};
use crate::error::{Error, Kind, Result};
use crate::flow::{Env, Gate, WakerSet};

/// How long `close` outside an app waits for what was written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A topic under one configuration.
pub(crate) struct OpenTopic {
    /// As the broker knows it.
    pub name: Arc<str>,
    pub settings: TopicSettings,
    pub backend: Arc<dyn Backend>,
    /// Identifies the broker and how it is used; equal ones share connections.
    pub broker: Broker,
    /// Who opened it, for errors.
    opener: String,
    seeks: Mutex<Option<mpsc::Sender<SeekRequest>>>,
    writer: OnceLock<Arc<dyn Writer>>,
    said_dry: AtomicBool,
    /// Whether the topic is known to exist, so that it can be written.
    exists: AtomicBool,
    /// Why it never can be.
    unusable: OnceLock<Error>,
    waiting: WakerSet,
}

impl OpenTopic {
    /// Opens it for a run.
    pub(crate) fn in_app<V, K>(topic: &Topic<V, K>, env: &Env) -> Result<Arc<Self>> {
        let settings = env.parts().settings.topic(topic.name(), topic.conf.iter().copied())?;
        let (broker, backend) = broker::in_app(&settings, env)?;
        let own = (broker.clone(), settings.configured_lines());
        let open = env.single(topic.name(), || {
            let opener = format!("app {}", env.parts().app_id);
            Ok(Self::make(settings, broker, backend, opener))
        })?;
        let first = (open.broker.clone(), open.settings.configured_lines());
        if first == own {
            // Each declaration of the name finds it.
            topic.slot().add(&open)?;
            return Ok(open);
        }
        let message = format!(
            "declared twice under one name with other settings: once on {} with {}, once on {} with {}; give one of them \
             a name of its own, and the broker's name for it by the key `name`",
            first.0, first.1, own.0, own.1
        );
        Err(Error::new(Kind::AlreadyOpen, message).at(format!("topic {}", topic.name())))
    }

    /// Opens it outside of any app, under the process-wide configuration.
    pub(crate) fn on_demand<V, K>(topic: &Topic<V, K>) -> Result<Arc<Self>> {
        let settings = Conf::open(&format!("topic {}", topic.name()))?;
        let settings = settings.topic(topic.name(), topic.conf.iter().copied())?;
        let (broker, backend) = broker::on_demand(&settings)?;
        Ok(Self::make(settings, broker, backend, "a use outside an app".to_owned()))
    }

    fn make(settings: TopicSettings, broker: Broker, backend: Arc<dyn Backend>, opener: String) -> Arc<Self> {
        let name = Arc::from(settings.name());
        let (seeks, said_dry, exists) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
        let (waiting, writer, unusable) = (WakerSet::default(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { name, settings, backend, broker, opener, seeks, writer, said_dry, exists, unusable, waiting })
    }

    pub(crate) fn writer(&self) -> Result<Arc<dyn Writer>> {
        if let Some(writer) = self.writer.get() {
            return Ok(Arc::clone(writer));
        }
        let made = self.backend.topic_writer(&self.settings)?;
        Ok(Arc::clone(self.writer.get_or_init(|| made)))
    }

    pub(crate) fn set_seeks(&self, seeks: mpsc::Sender<SeekRequest>) {
        *self.seeks.lock().unwrap_or_else(PoisonError::into_inner) = Some(seeks);
    }

    pub(crate) fn say_dry(&self) {
        if !self.said_dry.swap(true, Ordering::Relaxed) {
            tracing::warn!(topic = %self.name, "dry: nothing is written");
        }
    }

    /// Finds the topic, or creates it with `partitions`.
    pub(crate) async fn prepare(&self, partitions: Option<u32>) -> Result<()> {
        let partitions = partitions.or(self.settings.partitions());
        self.writer()?.prepare(Arc::clone(&self.name), partitions).await?;
        self.exists.store(true, Ordering::Release);
        self.waiting.wake_all();
        Ok(())
    }

    /// Whether a value waits for the topic to exist.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.is_waiting()
    }

    /// It can never be written: what waits for that fails.
    pub(crate) fn give_up(&self, error: &Error) {
        // The first reason is as good as another.
        let _ = self.unusable.set(error.copy());
        self.waiting.wake_all();
    }

    /// Ready when the topic can be written, or never can be.
    pub(crate) fn poll_exists(&self, cx: &Context<'_>) -> Poll<Result<()>> {
        if let Some(known) = self.exists() {
            return Poll::Ready(known);
        }
        self.waiting.register(cx);
        self.exists().map_or(Poll::Pending, Poll::Ready)
    }

    /// Whether it can be written, once that is known.
    fn exists(&self) -> Option<Result<()>> {
        if self.exists.load(Ordering::Acquire) {
            return Some(Ok(()));
        }
        self.unusable.get().map(|error| Err(error.copy()))
    }

    /// Writes one record and waits for its acknowledgement.
    pub(crate) async fn send(&self, record: Outgoing, partitions: Option<u32>) -> Result<Receipt> {
        let writer = self.writer()?;
        if !self.exists.load(Ordering::Acquire) {
            self.prepare(partitions).await?;
        }
        let (reply, answer) = oneshot::channel();
        let mut waiting = Some((record, Ack::Reply(reply)));
        std::future::poll_fn(|cx| super::sink::poll_write(&*writer, &mut waiting, cx)).await?;
        answer.await.unwrap_or_else(|_| {
            let message = "the connection was closed before the record was acknowledged";
            Err(Error::new(Kind::Broker, message).at(format!("topic {}", self.name)))
        })
    }
}

/// What all clones of a declaration share.
#[derive(Default)]
pub(crate) struct Slot {
    gate: Gate,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_apps: Vec<Weak<OpenTopic>>,
    on_demand: Option<Arc<OpenTopic>>,
}

impl Slot {
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what an app has opened; refused while it is open on another broker.
    fn add(&self, open: &Arc<OpenTopic>) -> Result<()> {
        let mut inner = self.lock();
        inner.by_apps.retain(|weak| weak.strong_count() > 0);
        if inner.by_apps.iter().any(|weak| weak.as_ptr() == Arc::as_ptr(open)) {
            return Ok(());
        }
        let others = inner.by_apps.iter().filter_map(Weak::upgrade).chain(inner.on_demand.clone());
        for other in others {
            if !other.broker.is_same_place(&open.broker) {
                let message = format!(
                    "{} opens it on {}, but {} has it open on {}",
                    open.opener, open.broker, other.opener, other.broker
                );
                return Err(Error::new(Kind::AlreadyOpen, message).at(format!("topic {}", open.name)));
            }
        }
        inner.by_apps.push(Arc::downgrade(open));
        Ok(())
    }

    /// What an app has open, or what `open` opens and keeps.
    pub(crate) fn open_or(&self, open: impl FnOnce() -> Result<Arc<OpenTopic>>) -> Result<Arc<OpenTopic>> {
        let mut inner = self.lock();
        if let Some(found) = inner.by_apps.iter().find_map(Weak::upgrade).or_else(|| inner.on_demand.clone()) {
            return Ok(found);
        }
        let opened = open()?;
        inner.on_demand = Some(Arc::clone(&opened));
        Ok(opened)
    }

    pub(crate) async fn close(&self) -> Result<()> {
        let Some(open) = self.lock().on_demand.take() else { return Ok(()) };
        open.writer()?.flush(CLOSE_TIMEOUT).await
    }

    pub(crate) async fn seek(&self, name: &str, to: SeekTo) -> Result<()> {
        let open: Vec<_> = self.lock().by_apps.iter().filter_map(Weak::upgrade).collect();
        let seeks = open.iter().filter_map(|open| open.seeks.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let mut answers = Vec::new();
        for (seeks, open) in seeks.zip(&open) {
            let (answer, answered) = oneshot::channel();
            let request = SeekRequest { topic: Arc::clone(&open.name), to: Move::All(to), answer };
            if seeks.send(request).await.is_ok() {
                answers.push(answered);
            }
        }
        let closed = || Error::new(Kind::Closed, "no running app reads it").at(format!("topic {name}"));
        if answers.is_empty() {
            return Err(closed());
        }
        for answered in answers {
            answered.await.map_err(|_| closed())??;
        }
        Ok(())
    }
}
