//! `health()` and `stats()`: plain structs that a program can serialise and serve.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::flow::{Env, LaneStats, Phase, SourceStats};

/// Where a run is in its life.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::app::State;
///
/// # slipstream::testing::block_on(async {
/// let run = App::new().handle(stream::iter([1]), |n: u32| n, print).run();
/// let handle = run.handle();
/// assert_eq!(handle.health().state, State::Starting);
/// run.await?;
/// assert_eq!(handle.health().state, State::Stopped);
/// # Ok::<(), slipstream::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// Not started, or being built.
    Starting,
    /// Its sources are read.
    Running,
    /// Its sources have been told to stop.
    Draining,
    /// It has ended.
    Stopped,
}

/// How a run is doing.
///
/// ```
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// let run = App::new().handle(stream::iter([1]), |n: u32| n, print).run();
/// let handle = run.handle();
/// run.await?;
/// let health = handle.health();
/// assert!(health.ok);
/// assert!(serde_json::to_string(&health).unwrap().starts_with(r#"{"state":"stopped","ok":true"#));
/// # Ok::<(), slipstream::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Where it is in its life.
    pub state: State,
    /// True while nothing is wrong: no broker away, no lane without progress, no topic missing.
    pub ok: bool,
    /// Its sources.
    pub sources: Vec<SourceHealth>,
    /// What else waits, or is wrong: `who: what`.
    pub notices: Vec<String>,
}

/// How one source is doing.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::testing::until;
///
/// # slipstream::testing::block_on(async {
/// let numbers: Topic<u32> = Topic::named("numbers").partitions(1);
/// numbers.pause();
/// let run = App::new()
///     .conf(Conf::isolated().with("broker", "memory:"))
///     .handle(numbers.clone(), |n: u32| n, print)
///     .run();
/// let handle = run.handle();
/// let look = async move |_stop| {
///     until(|| handle.health().sources.iter().any(|source| !source.lanes.is_empty())).await;
///     let health = handle.health();
///     let source = &health.sources[0];
///     assert_eq!((source.name.as_str(), source.paused_by.len()), ("numbers", 1));
///     assert_eq!(source.notice, None); // a pause is no fault
///     handle.trigger();
///     Ok(())
/// };
/// run.beside(look).await
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SourceHealth {
    /// Its name.
    pub name: String,
    /// By whom it is paused; empty while it runs.
    pub paused_by: Vec<String>,
    /// What it waits for, or what is wrong with it.
    pub notice: Option<String>,
    /// Its lanes: one per assigned partition, or the only one.
    pub lanes: Vec<LaneHealth>,
}

/// How one lane is doing.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::testing::until;
///
/// # slipstream::testing::block_on(async {
/// let numbers: Topic<u32> = Topic::named("numbers").partitions(1);
/// let run = App::new()
///     .conf(Conf::isolated().with("broker", "memory:").with("commit.interval", "10ms"))
///     .handle(stream::iter(0..3), |n: u32| n, numbers.clone())
///     .handle(numbers, |n: u32| n, print)
///     .run();
/// let handle = run.handle();
/// let look = async move |_stop| {
///     let committed = || {
///         let health = handle.health();
///         let mut lanes = health.sources.iter().flat_map(|source| &source.lanes);
///         lanes.any(|lane| (lane.position, lane.committed, lane.in_flight) == (Some(3), Some(3), 0))
///     };
///     until(committed).await; // offsets 0, 1 and 2 are done, and the group begins at 3 next time
///     handle.trigger();
///     Ok(())
/// };
/// run.beside(look).await
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LaneHealth {
    /// The partition; 0 where the source has none.
    pub partition: i32,
    /// Offset of the first message that is not done; `None` where the source has no offsets, or before the first.
    pub position: Option<i64>,
    /// Offset that is committed; `None` before the first commit.
    pub committed: Option<i64>,
    /// Messages that are not done.
    pub in_flight: u64,
}

/// Counters of a run.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::testing::until;
///
/// # slipstream::testing::block_on(async {
/// let numbers: Topic<u32> = Topic::named("numbers").partitions(1);
/// let run = App::new()
///     .conf(Conf::isolated().with("broker", "memory:"))
///     .handle(stream::iter(0..3), |n: u32| n, numbers.clone())
///     .name("count")
///     .handle(numbers, |n: u32| n, print)
///     .run();
/// let handle = run.handle();
/// let look = async move |_stop| {
///     until(|| handle.stats().handled("numbers") == 3).await;
///     let stats = handle.stats();
///     assert_eq!(stats.handled("count"), 3);
///     let numbers = stats.sources.iter().find(|source| source.name == "numbers").unwrap();
///     assert_eq!(numbers.lanes[0].received, Some(2)); // the offset of the last one
///     assert!(serde_json::to_string(numbers).unwrap().starts_with(r#"{"name":"numbers","handled":3,"#));
///     handle.trigger();
///     Ok(())
/// };
/// run.beside(look).await
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// By source.
    pub sources: Vec<SourceTotals>,
}

impl Stats {
    /// How many messages of the source called `name` were handled; 0 when there is no such source.
    pub fn handled(&self, name: &str) -> u64 {
        self.sources.iter().filter(|source| source.name == name).map(|source| source.handled).sum()
    }
}

/// Counters of one source; [`Stats`] has an example.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SourceTotals {
    /// Its name.
    pub name: String,
    /// Messages whose handlers have returned and whose outputs were accepted, since the run began.
    pub handled: u64,
    /// Messages that were given out and are not done.
    pub in_flight: u64,
    /// By whom it is paused; empty while it runs.
    pub paused_by: Vec<String>,
    /// Its present lanes, one per assigned partition, or the only one.
    pub lanes: Vec<LaneTotals>,
}

/// Counters of one lane, since its partition was assigned; [`Stats`] has an example.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LaneTotals {
    /// The partition; 0 where the source has none.
    pub partition: i32,
    /// Messages whose handlers have returned and whose outputs were accepted. 0 under `concurrency`, where lanes behind
    /// this one count for the source.
    pub handled: u64,
    /// Offset of the newest message that was given out; `None` where the source has no offsets, or before the first.
    pub received: Option<i64>,
    /// Offset of the first message that is not done; `None` where the source has no offsets, or before the first.
    pub position: Option<i64>,
    /// Offset that is committed; `None` before the first commit.
    pub committed: Option<i64>,
    /// Messages that were given out and are not done.
    pub in_flight: u64,
}

pub(super) fn health(env: Option<&Env>) -> Health {
    let Some(env) = env else {
        return Health { state: State::Starting, ok: true, sources: Vec::new(), notices: Vec::new() };
    };
    let sources: Vec<_> = env.sources().iter().map(|source| source_health(source)).collect();
    let notices = env.notices();
    let ok = notices.is_empty() && sources.iter().all(|source| source.notice.is_none());
    Health { state: state(env.phase()), ok, sources, notices }
}

pub(super) fn stats(env: Option<&Env>) -> Stats {
    let sources = env.map(Env::sources).unwrap_or_default();
    Stats { sources: sources.iter().map(|source| source_totals(source)).collect() }
}

fn source_totals(source: &SourceStats) -> SourceTotals {
    let lanes: Vec<_> = own_lanes(source).iter().map(|lane| lane_totals(lane)).collect();
    SourceTotals {
        name: source.name.to_string(),
        handled: source.handled(),
        in_flight: lanes.iter().map(|lane| lane.in_flight).sum(),
        paused_by: source.paused_by(),
        lanes,
    }
}

fn lane_totals(lane: &LaneStats) -> LaneTotals {
    let LaneHealth { partition, position, committed, in_flight } = lane_health(lane);
    LaneTotals {
        partition,
        handled: lane.handled.load(Ordering::Relaxed),
        received: known(lane.received.load(Ordering::Relaxed)),
        position,
        committed,
        in_flight,
    }
}

/// Those with a position: lanes behind a partition's lane have none of their own.
fn own_lanes(source: &SourceStats) -> Vec<Arc<LaneStats>> {
    source.lanes().into_iter().filter(|lane| lane.partition >= 0).collect()
}

fn known(offset: i64) -> Option<i64> {
    (offset >= 0).then_some(offset)
}

fn state(phase: Phase) -> State {
    match phase {
        Phase::Starting => State::Starting,
        Phase::Running => State::Running,
        Phase::Draining => State::Draining,
        Phase::Stopped => State::Stopped,
    }
}

fn source_health(source: &SourceStats) -> SourceHealth {
    SourceHealth {
        name: source.name.to_string(),
        paused_by: source.paused_by(),
        notice: source.notice(),
        lanes: own_lanes(source).iter().map(|lane| lane_health(lane)).collect(),
    }
}

fn lane_health(lane: &LaneStats) -> LaneHealth {
    LaneHealth {
        partition: lane.partition,
        position: known(lane.position.load(Ordering::Relaxed)),
        committed: known(lane.committed.load(Ordering::Relaxed)),
        in_flight: lane.in_flight.load(Ordering::Relaxed),
    }
}
