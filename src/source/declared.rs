//! A stream that is declared: read once for all its handlers.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use super::into::{open_taps, run_stream};
use super::{Attach, IntoSource, RootKind, SharedSource, SourceOptions, boxed_stage};
use crate::error::Result;
use crate::flow::{Env, Gate, NodeId, Stage, StageFactory, Stages};

/// A stream that is declared once and read once, whoever names it: each handler gets every message, in order. A stream
/// that is only written in a handler's sources belongs to that handler.
///
/// ```
/// use slipstream::SharedStream;
/// use slipstream::prelude::*;
///
/// static NUMBERS: SharedStream<u32> = SharedStream::new("numbers", || stream::iter(0..3).boxed());
///
/// # slipstream::testing::block_on(async {
/// App::new()
///     .handle(&NUMBERS, |n: u32| n, print)
///     .handle(&NUMBERS, |n: u32| n * n, print)
///     .run()
///     .await
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SharedStream<T: 'static> {
    name: &'static str,
    make: fn() -> BoxStream<'static, T>,
}

impl<T> SharedStream<T> {
    /// A stream that `make` gives anew for each run.
    pub const fn new(name: &'static str, make: fn() -> BoxStream<'static, T>) -> Self {
        Self { name, make }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name
    }
}

impl<T> Clone for SharedStream<T> {
    fn clone(&self) -> Self {
        Self { name: self.name, make: self.make }
    }
}

/// Marker: a declared stream.
#[derive(Debug)]
pub enum FromShared {}

impl<T: Clone + Send + 'static> IntoSource<FromShared> for SharedStream<T> {
    type Item = T;

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, _label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        to.external.push(self.node());
        to.shared(self, options, Arc::new(move || Box::pin(make())))
    }
}

impl<T: Clone + Send + 'static> IntoSource<FromShared> for &SharedStream<T> {
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

impl<T: Clone + Send + 'static> SharedSource for SharedStream<T> {
    type Item = T;

    fn node(&self) -> NodeId {
        NodeId { kind: "stream", name: Arc::from(self.name), id: self.make as usize }
    }

    fn has_keys(&self) -> bool {
        false
    }

    fn kind(&self) -> RootKind {
        RootKind::Source
    }

    fn start(
        self,
        options: SourceOptions<T>,
        stages: Vec<StageFactory<T>>,
        env: &Env,
    ) -> Result<BoxFuture<'static, Result<()>>> {
        let (name, env): (Arc<str>, _) = (Arc::from(self.name), env.clone());
        let stats = env.add_source(&name, Gate::new());
        open_taps(&options.taps, &stats, None)?;
        Ok(Box::pin(async move {
            let stage = boxed_stage(options, 0, || Stages::new(&stages), &stats, &env);
            run_stream((self.make)(), stage, name, stats.gate.clone(), stats, env).await
        }))
    }
}
