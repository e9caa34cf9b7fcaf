//! A proxy as a source and as a sink.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;

use super::Proxy;
use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::{Env, NodeId, Stage, StageFactory, UnitCx};
use crate::sink::{IntoSink, Sink, SinkBinding};
use crate::source::{Attach, Carried, Channel, IntoSource, RootKind, SharedSource, SourceOptions, Writer, run_channel};

impl<T: Send + 'static> Proxy<T> {
    /// The channel of this run; made by whichever handler comes first.
    fn open(&self, env: &Env) -> Result<Arc<Channel<T>>> {
        let node = self.node();
        env.single(&format!("{node}#{}", node.id), || {
            let mut open = self.slot().open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.upgrade().is_some() {
                return Err(Error::new(Kind::AlreadyOpen, "another app has it open").at(node.to_string()));
            }
            let channel = Arc::new(Channel::new(node.clone(), self.capacity, self.overflow));
            *open = Arc::downgrade(&channel);
            Ok(channel)
        })
    }
}

/// Marker: a proxy.
#[derive(Debug)]
pub enum FromProxy {}

/// What a proxy takes. Asked as a question, so that a value of another type is answered with "no sink for it" and
/// does not look for a proxy that can be called.
#[doc(hidden)]
pub trait Takes<T> {
    fn same(self) -> Proxy<T>;
}

impl<T> Takes<T> for Proxy<T> {
    fn same(self) -> Self {
        self
    }
}

impl<T: Send + 'static, U> IntoSink<T, FromProxy> for Proxy<U>
where
    Self: Takes<T>,
{
    type Sink = ProxySink<T>;
    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<ProxySink<T>> {
        let proxy = self.same();
        binding.writes_to(proxy.node());
        Ok(ProxySink::new(Writer::new(&proxy.open(binding.env())?)))
    }
}

impl<T: Send + 'static, U> IntoSink<T, FromProxy> for &Proxy<U>
where
    Proxy<U>: Takes<T>,
{
    type Sink = ProxySink<T>;
    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<ProxySink<T>> {
        IntoSink::<T, FromProxy>::into_sink(self.clone(), binding)
    }
}

impl<T: Clone + Send + 'static> IntoSource<FromProxy> for Proxy<T> {
    type Item = T;

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, _label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        if self.external {
            to.external.push(self.node());
        }
        let source = ProxySource { channel: self.open(to.env)?, node: self.node(), proxy: self };
        source.channel.set_reader();
        to.shared(source, options, Arc::new(move || Box::pin(make())))
    }
}

impl<T: Clone + Send + 'static> IntoSource<FromProxy> for &Proxy<T> {
    type Item = T;

    fn again(&self) -> Option<Self> {
        Some(*self)
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        self.clone().attach(to, label, options, make)
    }
}

/// A proxy as a sink of one lane.
pub struct ProxySink<T> {
    writer: Writer<T>,
    waiting: Option<Carried<T>>,
}

// The message is moved through, never pinned.
impl<T> Unpin for ProxySink<T> {}

impl<T> ProxySink<T> {
    pub(crate) fn new(writer: Writer<T>) -> Self {
        Self { writer, waiting: None }
    }
}

impl<T: Send> Sink<T> for ProxySink<T> {
    #[inline]
    fn poll_send(
        mut self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = &mut *self;
        if let Some(item) = value.take() {
            // Readers are known before anything runs: without one there is nobody to wait for.
            if !this.writer.channel().has_reader() {
                return Poll::Ready(Ok(()));
            }
            this.waiting = Some(Channel::carried(item, unit));
        }
        this.writer.channel().poll_offer(&mut this.waiting, cx).map_err(Into::into)
    }

    fn fork(&self) -> Self {
        Self { writer: Writer::new(self.writer.channel()), waiting: None }
    }
}

struct ProxySource<T> {
    proxy: Proxy<T>,
    channel: Arc<Channel<T>>,
    node: NodeId,
}

impl<T: Clone + Send + 'static> SharedSource for ProxySource<T> {
    type Item = T;

    fn node(&self) -> NodeId {
        self.node.clone()
    }

    fn has_keys(&self) -> bool {
        false
    }

    fn kind(&self) -> RootKind {
        RootKind::Follower
    }

    fn start(
        self,
        options: SourceOptions<T>,
        stages: Vec<StageFactory<T>>,
        env: &Env,
    ) -> Result<BoxFuture<'static, Result<()>>> {
        // An external proxy counts as written until the app shuts down.
        let outside = self.proxy.external.then(|| Writer::new(&self.channel));
        let gate = self.proxy.gate().clone();
        Ok(Box::pin(run_channel(self.channel, outside, gate, options, stages, None, env.clone())))
    }
}
