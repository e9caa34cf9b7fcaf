//! A cache as a sink (it stores, then publishes the change) and as a source (of its changes).

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;

use super::Cache;
use super::open::Open;
use super::place::WriteOutcome;
use super::retention::Retention;
use super::slot::Hold;
use crate::error::{BoxError, Result};
use crate::flow::durable::Durable;
use crate::flow::{Env, NodeId, Sink, Stage, StageFactory, UnitCx};
use crate::keys::{self, Key};
use crate::sink::{IntoSink, SinkBinding};
use crate::source::{
    Attach, Carried, Channel, IntoSource, NotePlace, Overflow, RootKind, SharedSource, SourceOptions, Writer,
    run_channel,
};

/// Changes that may wait to be read.
const CHANGES_MAX: usize = 1024;

/// A change: the key, and the value or `None` for a deletion.
type Change<K, V> = (K, Option<V>);

/// What a run has open of a cache.
struct InApp<K, V> {
    changes: Arc<Channel<Change<K, V>>>,
    _hold: Hold,
}

impl Durable for Open {
    fn sync(&self) -> Result<()> {
        Open::sync(self)
    }
}

impl<K: Key + Send + 'static, V: Send + 'static> Cache<K, V> {
    pub(super) fn node(&self) -> NodeId {
        let name = match self.family_name() {
            Some(family) => format!("{}/{family}", self.name()),
            None => self.name().to_owned(),
        };
        NodeId { kind: "cache", name: Arc::from(name), id: 0 }
    }

    /// Opens it for a run, which holds it until it ends.
    fn in_app(&self, env: &Env) -> Result<Arc<InApp<K, V>>> {
        let node = self.node();
        env.single(&node.to_string(), || {
            let hold = self.hold_in(&env.parts().state_dir.join("caches"))?;
            env.add_durable(self.opened()?);
            let changes = Arc::new(Channel::new(node.clone(), CHANGES_MAX, Overflow::Wait));
            *self.slot().changes.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Arc::downgrade(&changes) as std::sync::Weak<dyn std::any::Any + Send + Sync>);
            Ok(Arc::new(InApp { changes, _hold: hold }))
        })
    }

    /// Where those who watch its changes keep what they have to: with the rows, so that it goes when they go.
    fn note_path(&self) -> Result<PathBuf> {
        let family = self.family_name().map(|family| format!("-{:08x}", crc32c::crc32c(family.as_bytes())));
        Ok(self.opened()?.dir().join(format!("checkpoints{}.note", family.unwrap_or_default())))
    }

    /// The changes that a running app reads, if one does.
    fn open_changes(&self) -> Option<Arc<Channel<Change<K, V>>>> {
        let changes = self.slot().changes.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        changes.upgrade()?.downcast().ok().filter(|channel: &Arc<Channel<_>>| channel.has_reader())
    }

    /// Stores a value (`None` deletes) and publishes the change to the handlers that read this cache; what a sink does,
    /// from anywhere. [`put`](Self::put), batches and transactions do not publish.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Kind::Closed`](crate::Kind::Closed) when the readers have ended meanwhile.
    ///
    /// # Cancel safety
    /// Dropped half-way, the value may be stored and the change not published.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let conf = Conf::isolated().with("state.dir", dir.path().display().to_string());
    /// let prices: Cache<String, f64> = Cache::named("prices").external();
    /// let run = App::new()
    ///     .conf(conf)
    ///     .handle(prices.clone(), |(name, price): (String, Option<f64>)| format!("{name}: {price:?}"), print)
    ///     .run();
    /// let handle = run.handle();
    /// let change = async move |_stop| {
    ///     prices.send("tea".to_owned(), 2.5).await?;
    ///     assert_eq!(prices.get("tea")?, Some(2.5));
    ///     prices.send("tea".to_owned(), None).await?; // deletes
    ///     assert_eq!(prices.get("tea")?, None);
    ///     Ok(handle.trigger())
    /// };
    /// run.beside(change).await
    /// # }).unwrap();
    /// ```
    pub async fn send(&self, key: K, value: impl Into<Option<V>>) -> Result<()> {
        let value = value.into();
        if let WriteOutcome::Stalled = self.write_now(&key, value.as_ref())? {
            self.write_stalled(&key, value.as_ref()).await?;
        }
        match self.open_changes() {
            Some(changes) => changes.send_external((key, value)).await.map(drop),
            None => Ok(()),
        }
    }
}

/// A cache as a sink of one lane.
pub struct CacheSink<K, V: 'static> {
    cache: Cache<K, V>,
    opened: Arc<InApp<K, V>>,
    writer: Writer<Change<K, V>>,
    step: Step<K, V>,
}

// The change is moved through, the wait is boxed.
impl<K, V> Unpin for CacheSink<K, V> {}

enum Step<K, V> {
    Idle,
    /// RocksDB asks writers to slow down: the write waits on a blocking thread.
    Stalled(BoxFuture<'static, Result<()>>, Option<Change<K, V>>),
    /// Stored; the readers of the changes are full.
    Publishing(Option<Carried<Change<K, V>>>),
}

/// What a cache takes: `(K, V)`, or `(K, Option<V>)` where `None` deletes.
pub trait IntoChange<K, V> {
    /// The change.
    fn into_change(self) -> (K, Option<V>);
}

impl<K, V> IntoChange<K, V> for (K, V) {
    fn into_change(self) -> (K, Option<V>) {
        (self.0, Some(self.1))
    }
}

impl<K, V> IntoChange<K, V> for (K, Option<V>) {
    fn into_change(self) -> (K, Option<V>) {
        self
    }
}

impl<K: Key + Send + 'static, V: Send + 'static> CacheSink<K, V> {
    fn write(&mut self, change: Change<K, V>, unit: &mut UnitCx) -> Result<()> {
        self.step = match self.cache.write_now(&change.0, change.1.as_ref())? {
            WriteOutcome::Written => self.publish(change, unit),
            WriteOutcome::Stalled => {
                let bytes = change.1.as_ref().map(|value| self.cache.encode(value)).transpose()?;
                let wait = self.cache.write_bytes(keys::encode(&change.0), bytes)?;
                Step::Stalled(Box::pin(wait), Some(change))
            }
        };
        Ok(())
    }

    fn publish(&self, change: Change<K, V>, unit: &mut UnitCx) -> Step<K, V> {
        if self.opened.changes.has_reader() {
            Step::Publishing(Some(Channel::carried(change, unit)))
        } else {
            Step::Idle
        }
    }
}

impl<K, V, T> Sink<T> for CacheSink<K, V>
where
    K: Key + Send + 'static,
    V: Send + 'static,
    T: IntoChange<K, V> + Send,
{
    fn poll_send(
        mut self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = &mut *self;
        if let Some(value) = value.take() {
            this.write(value.into_change(), unit)?;
        }
        loop {
            match &mut this.step {
                Step::Idle => return Poll::Ready(Ok(())),
                Step::Stalled(wait, change) => {
                    ready!(wait.as_mut().poll(cx))?;
                    let Some(change) = change.take() else { return Poll::Ready(Ok(())) };
                    this.step = this.publish(change, unit);
                }
                Step::Publishing(waiting) => {
                    ready!(this.writer.channel().poll_offer(waiting, cx))?;
                    this.step = Step::Idle;
                }
            }
        }
    }

    fn fork(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            opened: Arc::clone(&self.opened),
            writer: Writer::new(self.writer.channel()),
            step: Step::Idle,
        }
    }
}

/// Marker: a cache.
#[derive(Debug)]
pub enum FromCache {}

impl<K, V, T> IntoSink<T, FromCache> for Cache<K, V>
where
    K: Key + Send + 'static,
    V: Send + 'static,
    T: IntoChange<K, V> + Send,
{
    type Sink = CacheSink<K, V>;

    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<CacheSink<K, V>> {
        binding.writes_to(self.node());
        let opened = self.in_app(binding.env())?;
        let retention = self.with_place(|place| Ok(place.retention))?;
        if retention != Retention::Keep {
            binding.env().evicts(self.node(), retention.to_string());
        }
        let writer = Writer::new(&opened.changes);
        Ok(CacheSink { cache: self, opened, writer, step: Step::Idle })
    }
}

impl<K, V, T> IntoSink<T, FromCache> for &Cache<K, V>
where
    K: Key + Send + 'static,
    V: Send + 'static,
    T: IntoChange<K, V> + Send,
{
    type Sink = CacheSink<K, V>;

    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<CacheSink<K, V>> {
        IntoSink::<T, FromCache>::into_sink(self.clone(), binding)
    }
}

impl<K, V> IntoSource<FromCache> for Cache<K, V>
where
    K: Key + Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    type Item = (K, Option<V>);

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, _label: &str, options: SourceOptions<Self::Item>, make: F) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        if self.is_external() {
            to.external.push(self.node());
        }
        let opened = self.in_app(to.env)?;
        opened.changes.set_reader();
        to.shared(CacheSource { cache: self, opened }, options, Arc::new(move || Box::pin(make())))
    }
}

impl<K, V> IntoSource<FromCache> for &Cache<K, V>
where
    K: Key + Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    type Item = (K, Option<V>);

    fn again(&self) -> Option<Self> {
        Some(*self)
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<Self::Item>, make: F) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        self.clone().attach(to, label, options, make)
    }
}

struct CacheSource<K, V: 'static> {
    cache: Cache<K, V>,
    opened: Arc<InApp<K, V>>,
}

impl<K, V> SharedSource for CacheSource<K, V>
where
    K: Key + Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    type Item = (K, Option<V>);

    fn node(&self) -> NodeId {
        self.cache.node()
    }

    fn has_keys(&self) -> bool {
        false
    }

    fn kind(&self) -> RootKind {
        RootKind::Follower
    }

    fn start(
        self,
        options: SourceOptions<Self::Item>,
        stages: Vec<StageFactory<Self::Item>>,
        env: &Env,
    ) -> Result<BoxFuture<'static, Result<()>>> {
        let changes = Arc::clone(&self.opened.changes);
        // One that is written from outside counts as written until the app shuts down.
        let outside = self.cache.is_external().then(|| Writer::new(&changes));
        let gate = self.cache.gate().clone();
        let note = NotePlace { path: self.cache.note_path()?, store: self.cache.opened()? };
        Ok(Box::pin(run_channel(changes, outside, gate, options, stages, Some(note), env.clone())))
    }
}
