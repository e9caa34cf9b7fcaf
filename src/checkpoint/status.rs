//! `status()`: plain structs that a program can serialise and serve.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::core::Core;
use super::machine::{Machine, Mode, Phase, Standing};
use super::watermark::Reach;

/// What the dependent of a checkpoint does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Doing {
    /// Its messages pass.
    Running,
    /// Messages wait until dependencies have begun.
    Starting,
    /// A message waits for the answer of a check.
    Asking,
    /// Messages wait for a dependency, in hold mode.
    Holding,
    /// It is paused.
    Paused,
    /// All dependencies are back: what was handled too early is on its way.
    Recovering,
    /// Messages wait until more of what has happened is told: callbacks take too long.
    Telling,
    /// It goes on although dependencies are down: as it was declared, by hand, or because the pause was too long.
    Overridden,
}

/// How a checkpoint stands; from [`CheckpointHandle::status`](super::CheckpointHandle::status).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Its name.
    pub name: String,
    /// What the dependent does.
    pub doing: Doing,
    /// What happens next.
    pub next: String,
    /// The number of the present outage.
    pub outage: Option<u64>,
    /// How long it has lasted.
    pub outage_for: Option<Duration>,
    /// The highest marker of the dependent.
    pub marker: Option<String>,
    /// Lanes of the dependent with a message at the gate.
    pub held_lanes: usize,
    /// Each dependency.
    pub dependencies: Vec<DependencyStatus>,
    /// Counters since the run began.
    pub counts: Counts,
}

/// How a dependency stands.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DependencyStatus {
    /// Its name.
    pub name: String,
    /// Whether it is down.
    pub is_down: bool,
    /// How long it has been down.
    pub down_for: Option<Duration>,
    /// How far it is; `None` before each of its partitions has a marker, and when it has ended.
    pub marker: Option<String>,
    /// How far behind it is: of what waits for it while it is down.
    pub behind: Option<String>,
    /// The partitions that hold it back.
    pub held_back_by: Vec<i32>,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// One counter per transition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Times that a dependency went down.
    pub downs: u64,
    /// Times that a dependency was back.
    pub ups: u64,
    /// Times that all had recovered.
    pub recoveries: u64,
    /// Partitions that were sent back.
    pub rewinds: u64,
    /// Times that the dependent went on after that.
    pub resumes: u64,
    /// Times that the pause lasted as long as it may.
    pub limits: u64,
    /// Times that the pause was ended by hand or by its limit.
    pub overrides: u64,
    /// Markers that were too far ahead to be believed.
    pub far_future: u64,
    /// Messages of dependencies that came after the others of their time had been taken for all, because their partition
    /// was silent or their markers went down. Not those below another marker that was done with them.
    pub late: u64,
}

pub(super) fn of(core: &Core) -> Status {
    let now = core.now();
    let counts = Counts {
        downs: core.counters.downs.load(Ordering::Relaxed),
        ups: core.counters.ups.load(Ordering::Relaxed),
        resumes: core.counters.resumes.load(Ordering::Relaxed),
        limits: core.counters.limits.load(Ordering::Relaxed),
        recoveries: core.counters.recoveries.load(Ordering::Relaxed),
        rewinds: core.counters.rewinds.load(Ordering::Relaxed),
        overrides: core.counters.overrides.load(Ordering::Relaxed),
        far_future: 0,
        late: 0,
    };
    core.look(|machine| Status {
        name: core.name.to_string(),
        doing: doing(machine, now),
        next: next(machine, core.calling().map(|(name, _)| name), now),
        outage: machine.open_outage().map(|(number, _)| number),
        outage_for: machine.open_outage().map(|(_, since)| now.saturating_sub(since)),
        marker: machine.highest().map(|mark| mark.to_string()),
        held_lanes: machine.held(),
        dependencies: dependencies(machine, now),
        counts: Counts { far_future: machine.far_future(), late: machine.late(), ..counts },
    })
}

fn doing(machine: &Machine, now: Duration) -> Doing {
    match machine.phase() {
        _ if machine.is_crowded() => Doing::Telling,
        Phase::Running if machine.is_starting(now) && machine.held() > 0 => Doing::Starting,
        Phase::Running if machine.asked_since().is_some() => Doing::Asking,
        Phase::Running => Doing::Running,
        Phase::Recovering => Doing::Recovering,
        Phase::Down if machine.is_overridden() || !machine.rules().pauses => Doing::Overridden,
        Phase::Down if machine.rules().mode == Mode::Hold => Doing::Holding,
        Phase::Down => Doing::Paused,
    }
}

fn dependencies(machine: &Machine, now: Duration) -> Vec<DependencyStatus> {
    let names = machine.rules().dependencies.iter().enumerate();
    let one = |(at, rules): (usize, &super::machine::DependencyRules)| {
        let Standing { reach, down, lag, held_back_by } = machine.dependency(at)?;
        Some(DependencyStatus {
            name: rules.name.to_string(),
            is_down: down.is_some(),
            down_for: down.map(|since| now.saturating_sub(since)),
            marker: reach.mark().map(|mark| mark.to_string()),
            behind: lag.map(|lag| lag.to_string()),
            held_back_by,
            has_ended: reach == Reach::Everything,
        })
    };
    names.filter_map(one).collect()
}

fn next(machine: &Machine, calling: Option<&'static str>, now: Duration) -> String {
    let names = |is_meant: &dyn Fn(&Standing) -> bool| {
        let all = machine.rules().dependencies.iter().enumerate();
        let meant = all.filter(|(at, _)| machine.dependency(*at).is_some_and(|own| is_meant(&own)));
        meant.map(|(_, rules)| &*rules.name).collect::<Vec<_>>().join(", ")
    };
    let down = names(&|own| own.down.is_some());
    let back = match machine.targets().len() {
        0 => "goes on".to_owned(),
        _ if !machine.rules().rewinds => "goes on".to_owned(),
        partitions => format!("goes back in {partitions} partitions"),
    };
    let then = match doing(machine, now) {
        Doing::Running => return "nothing".to_owned(),
        Doing::Starting => {
            return format!("waits for {} to begin", names(&|own| own.reach == Reach::Nothing));
        }
        Doing::Asking => return "waits for the answer of a check".to_owned(),
        Doing::Holding => format!("waits for {down}, then goes on"),
        Doing::Paused => format!("waits for {down}, then {back}"),
        Doing::Overridden => format!("goes on without {down}; when back, {back}"),
        Doing::Recovering => back,
        Doing::Telling => "tells of earlier outages, then goes on".to_owned(),
    };
    match calling {
        Some(callback) => format!("waits for `{callback}`, then {then}"),
        None => then,
    }
}
