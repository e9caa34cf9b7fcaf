//! How anything that can be a source is attached to a run: a stream of its own lane, or a node that several handlers
//! share and that is read once.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures::Stream;
use futures::future::BoxFuture;

use super::every::Ticks;
use super::{Every, StreamLane, boxed_stage, fan_out};
use crate::error::{Error, Kind, Result};
use crate::flow::fold::HandlerTables;
use crate::flow::tap::{self, Tap};
use crate::flow::{AlwaysOpen, Env, Gate, NodeId, Opening, SourceStats, Stage, StageFactory};

/// Hash of a message's key.
pub(crate) type KeyHash<In> = Arc<dyn Fn(&In) -> u64 + Send + Sync>;

/// What a handler asks of its source: how many lanes, and by which key.
pub struct SourceOptions<In> {
    pub(crate) concurrency: usize,
    pub(crate) key: Option<KeyHash<In>>,
    /// For each handler, in the order of their stages.
    pub(crate) handlers: Vec<HandlerTables>,
    /// What watches the source.
    pub(crate) taps: Vec<Arc<dyn Tap<In>>>,
    /// Only the taps are attached, no handler.
    pub(crate) only_taps: bool,
}

impl<In> Default for SourceOptions<In> {
    fn default() -> Self {
        Self { concurrency: 1, key: None, handlers: Vec::new(), taps: Vec::new(), only_taps: false }
    }
}

impl<In> Clone for SourceOptions<In> {
    fn clone(&self) -> Self {
        let (key, handlers, taps) = (self.key.clone(), self.handlers.clone(), self.taps.clone());
        Self { concurrency: self.concurrency, key, handlers, taps, only_taps: self.only_taps }
    }
}

/// What can be a source: any `Stream`, a `Topic`, a `Cache` (its changes), a `Proxy`, a `SharedStream`, a `Checkpoint`,
/// [`every`](super::every).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source",
    label = "a handler cannot read from this",
    note = "a source is a `Stream`, a `Topic`, a `Cache`, a `Proxy`, a `SharedStream`, a `Checkpoint` or `every(period)`; a function that returns a stream is called: `numbers()`",
    note = "each handler of a `Topic`, `Cache`, `Proxy` or `SharedStream` gets a clone: write `#[derive(Clone)]` on its messages if they have no `Clone`"
)]
pub trait IntoSource<M>: Sized {
    /// What it gives.
    type Item: Send + 'static;

    /// The same source for another handler; `None` for one that can be read by one handler only.
    fn again(&self) -> Option<Self> {
        None
    }

    /// Attaches a handler to it.
    ///
    /// # Errors
    /// [`Kind::Build`] when it cannot be read as asked, and whatever keeps it from opening.
    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<Self::Item>, make: F) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static;
}

/// A source whose positions can be stored with the rows of a table: a topic, or a checkpoint that guards one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot fill a table",
    label = "`table` needs a topic as its source",
    note = "rows are stored with a position in a topic's log; send this to a `Topic` first, and read that, or a `Checkpoint` that guards it"
)]
pub trait LogSource {}

impl<S: LogSource> LogSource for &S {}

/// Something that runs until its source has ended.
pub(crate) struct Root {
    pub name: Arc<str>,
    pub kind: RootKind,
    pub run: BoxFuture<'static, Result<()>>,
}

/// What a root means for the life of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootKind {
    /// The run goes on until it has ended.
    Source,
    /// Does not keep a run alive.
    Timer,
    /// Ends when its writers have ended.
    Follower,
}

/// Where sources are attached while an app is built.
pub struct Attach<'a> {
    pub(crate) env: &'a Env,
    pub(crate) roots: &'a mut Vec<Root>,
    pub(crate) shared: &'a mut BTreeMap<NodeId, Box<dyn AnyShared>>,
    /// The nodes that the handler being bound reads.
    pub(crate) reads: &'a mut Vec<NodeId>,
    /// Those of them that are written from outside.
    pub(crate) external: &'a mut Vec<NodeId>,
    /// What checkpoints guard.
    pub(crate) guarded: &'a mut Vec<Guarded>,
}

/// A checkpoint as the graph sees it; sources that only one handler can read have no node.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    pub checkpoint: Arc<str>,
    pub dependent: Option<NodeId>,
    pub dependencies: Vec<(Arc<str>, Option<NodeId>)>,
    /// Its dependent goes on during an outage, and is corrected later.
    pub goes_on_early: bool,
    /// A promise: no other app reads a part of what its dependencies are made of.
    pub single_member: bool,
}

impl Attach<'_> {
    /// A stream with a lane of its own: source, handler and sinks become one loop.
    fn stream<S, St, F>(
        &mut self,
        stream: S,
        label: &str,
        kind: RootKind,
        options: SourceOptions<S::Item>,
        make: F,
    ) -> Result<()>
    where
        S: Stream<Item: Send + 'static> + Send + 'static,
        St: Stage<S::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        refuse_log_only(&options, label)?;
        let name: Arc<str> = Arc::from(label);
        let env = self.env.clone();
        if options.concurrency > 1 && options.key.is_none() {
            return Err(needs_key(label));
        }
        let run: BoxFuture<'static, Result<()>> = if !options.taps.is_empty() {
            let name = Arc::clone(&name);
            Box::pin(async move {
                let stats = env.add_source(&name, Gate::new());
                open_taps(&options.taps, &stats, None)?;
                let stage = boxed_stage(options, 0, &make, &stats, &env);
                run_stream(stream, stage, name, stats.gate.clone(), stats, env).await
            })
        } else if options.concurrency > 1 {
            let name = Arc::clone(&name);
            Box::pin(async move {
                let stats = env.add_source(&name, Gate::new());
                // Boxed so that it can be moved between polls whatever its items are.
                let fanout = Box::pin(fan_out(options.concurrency, options.key, &make, &stats, &env));
                run_stream(stream, fanout, name, AlwaysOpen, stats, env).await
            })
        } else {
            let name = Arc::clone(&name);
            Box::pin(async move {
                let stats = env.add_source(&name, Gate::new());
                run_stream(stream, make(), name, AlwaysOpen, stats, env).await
            })
        };
        self.roots.push(Root { name, kind, run });
        Ok(())
    }

    /// A node that is read once for all its handlers.
    pub(crate) fn shared<S: SharedSource>(
        &mut self,
        source: S,
        mut options: SourceOptions<S::Item>,
        make: StageFactory<S::Item>,
    ) -> Result<()> {
        let node = source.node();
        if options.concurrency > 1 && options.key.is_none() && !source.has_keys() {
            return Err(needs_key(&node.name));
        }
        if !source.has_log() {
            refuse_log_only(&options, &node.to_string())?;
        }
        options.handlers.resize_with(1, HandlerTables::default);
        let own = std::mem::take(&mut options.handlers);
        self.reads.push(node.clone());
        let entry = self.shared.entry(node.clone()).or_insert_with(|| {
            let options = SourceOptions { taps: Vec::new(), ..options.clone() };
            Box::new(Shared { source, options, stages: Vec::new() })
        });
        let Some(shared) = entry.as_any().downcast_mut::<Shared<S>>() else {
            return Err(Error::new(Kind::Build, "declared twice, with different types").at(node.to_string()));
        };
        for tap in &options.taps {
            let is_new = !shared.options.taps.iter().any(|own| Arc::ptr_eq(own, tap));
            shared.options.taps.extend(is_new.then(|| Arc::clone(tap)));
        }
        if options.only_taps {
            return Ok(());
        }
        if shared.stages.is_empty() {
            (shared.options.concurrency, shared.options.key) = (options.concurrency, options.key.clone());
        }
        let keys_differ = !shared.stages.is_empty() && (options.key.is_some() || shared.options.key.is_some());
        if shared.options.concurrency != options.concurrency || keys_differ {
            let message = "its handlers ask for different `concurrency` or `key`: both belong to the source";
            return Err(Error::new(Kind::Build, message).at(node.to_string()));
        }
        shared.options.handlers.extend(own);
        shared.stages.push(make);
        Ok(())
    }
}

/// Tells taps of a source that cannot be sent back, with what was kept for them.
pub(crate) fn open_taps<In>(taps: &[Arc<dyn Tap<In>>], stats: &SourceStats, note: Option<Arc<str>>) -> Result<()> {
    let watches: Vec<_> = taps.iter().map(|tap| tap.watch()).collect();
    watches.iter().try_for_each(|watch| watch.opened(&stats.held, None, false))?;
    tap::assigned(watches.iter(), &[(0, note)])
}

fn refuse_log_only<In>(options: &SourceOptions<In>, source: &str) -> Result<()> {
    if let Some(handler) = options.handlers.iter().find(|handler| handler.has_ids) {
        let message = format!(
            "handler {} writes stable ids, which need a topic: they are made of the message's place in its log",
            handler.handler
        );
        return Err(Error::new(Kind::Build, message).at(source));
    }
    let Some(handler) = options.handlers.iter().find(|handler| !handler.tables.is_empty()) else { return Ok(()) };
    let message = format!(
        "handler {} writes a table, which needs a topic: rows are stored with a position in its log, and this has none",
        handler.handler
    );
    Err(Error::new(Kind::Build, message).at(source))
}

fn needs_key(source: &str) -> Error {
    let message = "`concurrency` needs `key = |message| …`: this source has no keys to keep in order";
    Error::new(Kind::Build, message).at(source)
}

/// Runs a stream's lane to its end; without taps nobody can pause it.
pub(super) async fn run_stream<S, St>(
    stream: S,
    stage: St,
    name: Arc<str>,
    gate: impl Opening,
    stats: Arc<SourceStats>,
    env: Env,
) -> Result<()>
where
    S: Stream<Item: Send> + Send,
    St: Stage<S::Item>,
{
    let lane_stats = stats.add_lane(0);
    let mut lane = pin!(StreamLane::new(stream, stage, name, gate, Arc::clone(&lane_stats), &env));
    let mut stop = pin!(env.stop().cancelled());
    let mut stopping = false;
    let running = std::future::poll_fn(|cx| {
        stopping = stopping || stop.as_mut().poll(cx).is_ready();
        lane.as_mut().poll_run(stopping, cx)
    });
    let result = tokio::select! {
        biased;
        result = running => result,
        () = env.kill().cancelled() => Ok(()),
    };
    // Said before the guards are dropped, so that the cause comes before what it causes.
    if let Err(error) = result
        && lane.as_mut().unit().fail_run(error, &env)
    {
        let settled = std::future::poll_fn(|cx| lane.as_mut().unit().tracker().poll_settled(cx));
        tokio::select! {
            biased;
            () = settled => {}
            () = env.kill().cancelled() => {}
        }
    }
    lane_stats.set_ended();
    Ok(())
}

/// A source that is declared, and read once for all its handlers.
pub(crate) trait SharedSource: Send + 'static {
    /// What it gives; each handler but the last gets a clone.
    type Item: Clone + Send + 'static;

    /// Who it is.
    fn node(&self) -> NodeId;

    /// Whether its messages carry keys that lanes can be chosen by.
    fn has_keys(&self) -> bool;

    /// Whether it has positions that can be stored with the rows of tables.
    fn has_log(&self) -> bool {
        false
    }

    /// What it means for the life of the run.
    fn kind(&self) -> RootKind;

    /// Opens it for these handlers and gives the future that runs it.
    fn start(
        self,
        options: SourceOptions<Self::Item>,
        stages: Vec<StageFactory<Self::Item>>,
        env: &Env,
    ) -> Result<BoxFuture<'static, Result<()>>>;
}

/// A shared source with the handlers bound so far.
pub(crate) struct Shared<S: SharedSource> {
    source: S,
    options: SourceOptions<S::Item>,
    stages: Vec<StageFactory<S::Item>>,
}

/// [`Shared`] without its type.
pub(crate) trait AnyShared: Send {
    fn as_any(&mut self) -> &mut dyn Any;
    fn start(self: Box<Self>, env: &Env) -> Result<Root>;
}

impl<S: SharedSource> AnyShared for Shared<S> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn start(self: Box<Self>, env: &Env) -> Result<Root> {
        let Self { source, options, stages } = *self;
        let (name, kind) = (source.node().name, source.kind());
        Ok(Root { name, kind, run: source.start(options, stages, env)? })
    }
}

/// Marker: any stream.
#[derive(Debug)]
pub enum FromStream {}

impl<S> IntoSource<FromStream> for S
where
    S: Stream<Item: Send + 'static> + Send + 'static,
{
    type Item = S::Item;

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<S::Item>, make: F) -> Result<()>
    where
        St: Stage<S::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        to.stream(self, label, RootKind::Source, options, make)
    }
}

/// Marker: a timer.
#[derive(Debug)]
pub enum FromTimer {}

impl IntoSource<FromTimer> for Every {
    type Item = ();

    fn again(&self) -> Option<Self> {
        Some(*self)
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<()>, make: F) -> Result<()>
    where
        St: Stage<()> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        to.stream(Ticks::new(self), label, RootKind::Timer, options, make)
    }
}
