//! `health()` and `stats()`: plain structs that a program can serialise and serve.

use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::flow::{Env, LaneStats, Phase, SourceStats};

/// Where a run is in its life.
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

/// Counters of one source.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SourceTotals {
    /// Its name.
    pub name: String,
    /// Messages whose handlers have returned and whose outputs were accepted, since the run began.
    pub handled: u64,
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
    let totals = |source: &std::sync::Arc<SourceStats>| SourceTotals {
        name: source.name.to_string(),
        handled: source.handled(),
    };
    Stats { sources: sources.iter().map(totals).collect() }
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
        paused_by: source.gate.reasons(),
        notice: source.notice(),
        // Lanes behind a partition's lane have no position of their own.
        lanes: source.lanes().iter().filter(|lane| lane.partition >= 0).map(|lane| lane_health(lane)).collect(),
    }
}

fn lane_health(lane: &LaneStats) -> LaneHealth {
    let known = |offset: i64| (offset >= 0).then_some(offset);
    LaneHealth {
        partition: lane.partition,
        position: known(lane.position.load(Ordering::Relaxed)),
        committed: known(lane.committed.load(Ordering::Relaxed)),
        in_flight: lane.in_flight.load(Ordering::Relaxed),
    }
}
