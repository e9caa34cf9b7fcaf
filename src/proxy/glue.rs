//! A proxy as a source and as a sink.

use std::sync::{Arc, PoisonError};

use futures::future::BoxFuture;

use super::Proxy;
use super::channel::{Channel, ProxySink, Writer};
use crate::error::{Error, Kind, Result};
use crate::flow::{Env, Gate, NodeId, Stage, StageFactory, Stages};
use crate::sink::{IntoSink, SinkBinding};
use crate::source::{Attach, CarriedLane, IntoSource, RootKind, SharedSource, SourceOptions, fan_out};

impl<T: Send + 'static> Proxy<T> {
    /// The channel of this run; made by whichever handler comes first.
    fn open(&self, env: &Env) -> Result<Arc<Channel<T>>> {
        let node = self.node();
        env.single(&format!("{node}#{}", node.id), || {
            let mut open = self.slot().open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.upgrade().is_some() {
                return Err(Error::new(Kind::AlreadyOpen, "another app has it open").at(node.to_string()));
            }
            let channel = Arc::new(Channel::new(self.name(), self.capacity, self.overflow));
            *open = Arc::downgrade(&channel);
            Ok(channel)
        })
    }
}

/// Marker: a proxy.
#[derive(Debug)]
pub enum FromProxy {}

impl<T: Send + 'static> IntoSink<T, FromProxy> for Proxy<T> {
    type Sink = ProxySink<T>;
    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<ProxySink<T>> {
        binding.writes_to(self.node());
        Ok(ProxySink::new(Writer::new(&self.open(binding.env())?)))
    }
}

impl<T: Send + 'static> IntoSink<T, FromProxy> for &Proxy<T> {
    type Sink = ProxySink<T>;
    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<ProxySink<T>> {
        self.clone().into_sink(binding)
    }
}

impl<T: Clone + Send + 'static> IntoSource<FromProxy> for Proxy<T> {
    type Item = T;

    fn attach<St, F>(self, to: &mut Attach<'_>, _label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        if self.external {
            to.external.push(self.node());
        }
        let source = ProxySource { channel: self.open(to.env)?, node: self.node(), proxy: self };
        to.shared(source, options, Arc::new(move || Box::pin(make())))
    }
}

impl<T: Clone + Send + 'static> IntoSource<FromProxy> for &Proxy<T> {
    type Item = T;

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        self.clone().attach(to, label, options, make)
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
        let env = env.clone();
        // An external proxy counts as written until the app shuts down.
        let outside = self.proxy.external.then(|| Writer::new(&self.channel));
        Ok(Box::pin(async move {
            let gate: Gate = self.proxy.gate().clone();
            let stats = env.add_source(&self.node.name, gate.clone());
            let lane_stats = stats.add_lane(0);
            let queue = Arc::clone(self.channel.queue());
            let name = Arc::clone(&self.node.name);
            let make = move || Stages::new(&stages);
            let lane = async {
                if options.concurrency > 1 {
                    let fanout = Box::pin(fan_out(options.concurrency, options.key, make, &stats, &env));
                    CarriedLane::new(queue, fanout, name, gate, lane_stats).run(&env).await
                } else {
                    CarriedLane::new(queue, make(), name, gate, lane_stats).run(&env).await
                }
            };
            let mut lane = std::pin::pin!(lane);
            tokio::select! {
                biased;
                result = &mut lane => return result,
                () = env.stop().cancelled() => drop(outside),
            }
            lane.await
        }))
    }
}
