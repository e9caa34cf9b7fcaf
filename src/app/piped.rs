//! A pipe behind a source, in the explicit API.

use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;

use crate::error::{Error, Kind, Result};
use crate::flow::fold::HandlerTables;
use crate::flow::{Env, NodeId, Stage};
use crate::pipe::{PipeStage, Piped, SharedStage, refuse_lanes};
use crate::source::{Attach, IntoSource, SourceOptions};

/// A source with a pipe behind it; made by [`pipe`].
pub struct PipedSource<S, P> {
    source: S,
    pipe: P,
}

/// Puts `pipe` behind `source`: a function from a stream to a stream, called once per handler. Pipes compose:
/// `pipe(pipe(source, f), g)` gives `g(f(source))`.
///
/// ```
/// use slipstream::pipe;
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// App::new()
///     .handle(pipe(stream::iter(1..=4), |numbers: Piped<u32>| numbers.skip(2)), |n: u32| n, print)
///     .run()
///     .await
/// # }).unwrap();
/// ```
pub fn pipe<S, P>(source: S, pipe: P) -> PipedSource<S, P> {
    PipedSource { source, pipe }
}

/// Marker: a source with a pipe.
#[derive(Debug)]
pub struct FromPiped<M, T>(M, T);

impl<S, P, M, T> IntoSource<FromPiped<M, T>> for PipedSource<S, P>
where
    S: IntoSource<M>,
    P: FnOnce(Piped<S::Item>) -> T,
    T: Stream<Item: Send + 'static> + Send + 'static,
{
    type Item = T::Item;

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<T::Item>, make: F) -> Result<()>
    where
        St: Stage<T::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        refuse_lanes(label, options.concurrency, &options.handlers)?;
        refuse_taps(label, &options)?;
        let shared = SharedStage::new(PipeStage::new(self.pipe, make(), Arc::from(label)), 1);
        noting(to, |to| self.source.attach(to, label, piped(label), move || shared.lane()))
    }
}

/// What the handler being bound reads through a pipe.
#[derive(Default)]
pub(super) struct ThroughPipe(Mutex<Vec<NodeId>>);

impl ThroughPipe {
    fn of(env: &Env) -> Result<Arc<Self>> {
        env.single("what is read through a pipe", || Ok(Arc::default()))
    }

    /// What it is; from here on the next handler's.
    pub(super) fn take(env: &Env) -> Result<Vec<NodeId>> {
        Ok(std::mem::take(&mut *Self::of(env)?.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Attaches what is in front of a pipe, and notes it.
pub(super) fn noting(to: &mut Attach<'_>, attach: impl FnOnce(&mut Attach<'_>) -> Result<()>) -> Result<()> {
    let before = to.reads.len();
    attach(to)?;
    let nodes = to.reads.iter().skip(before).cloned();
    ThroughPipe::of(to.env)?.0.lock().unwrap_or_else(PoisonError::into_inner).extend(nodes);
    Ok(())
}

/// What watches a source knows its messages, not what a pipe makes of them.
pub(super) fn refuse_taps<In>(label: &str, options: &SourceOptions<In>) -> Result<()> {
    if options.taps.is_empty() {
        return Ok(());
    }
    let message = "a checkpoint cannot watch what comes out of a pipe: name the source itself as dependent or dependency, and \
                   put the pipe at its handler";
    Err(Error::new(Kind::Build, message).at(label))
}

/// What the source of a pipe is asked for.
pub(super) fn piped<In>(label: &str) -> SourceOptions<In> {
    let handler = HandlerTables { handler: Arc::from(label), is_piped: true, ..HandlerTables::default() };
    SourceOptions { handlers: vec![handler], ..SourceOptions::default() }
}
