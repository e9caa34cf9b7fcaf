//! The state machine of a checkpoint: decides who waits, who is down, and what is to be done again. It has no clock and
//! does nothing itself; whoever drives it does so under one lock, so that transitions come one after the other.

mod dependencies;
mod dependent;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::mark::{Mark, Measure, Span};
use super::note::KeptMark;
use super::outage::{Downtime, Lag, Outage, Snapshot, State};
use super::pending::Pending;
use super::watermark::{Reach, Watermark};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A message that is ahead is handled, and corrected later.
    Detect,
    /// A message that is ahead waits.
    Hold,
}

/// What a checkpoint was declared with.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the declaration")]
pub(crate) struct Rules {
    pub name: Arc<str>,
    pub mode: Mode,
    pub measure: Measure,
    pub pauses: bool,
    pub inclusive: bool,
    pub seeds: bool,
    /// Whether the dependent is sent back after an outage, and where it begins.
    pub rewinds: bool,
    /// A promise of the user's: dependencies are read whole by this app alone.
    pub single_member: bool,
    pub far_future: Option<Span>,
    pub grace: Duration,
    pub max_pause: Option<Duration>,
    pub dependencies: Vec<DependencyRules>,
}

#[derive(Debug, Clone)]
pub(crate) struct DependencyRules {
    pub name: Arc<str>,
    pub threshold: Span,
    pub zero: Span,
    pub idle_after: Option<Duration>,
    /// Whether downtime is decided by a function of the user's.
    pub is_custom: bool,
    /// Whether recovery is.
    pub asks_recovery: bool,
}

/// What a function of the user's says of a dependency: how far it is behind, if it is.
pub(crate) type Down = Result<(), Lag>;

/// What the user's own functions say of one dependency; `None` where there is no such function.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answers {
    pub down: Option<Down>,
    pub recovered: Option<bool>,
    /// How many heartbeats the dependency had had when they were asked.
    pub beats: u64,
}

/// A message of the dependent at the gate; `offset` is negative where its source has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub partition: i32,
    /// Its number in its lane: the same one may come again.
    pub seq: u64,
    pub offset: i64,
    pub mark: Mark,
}

/// A message whose marker is too far ahead to be believed, until the next one says the same.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    seq: u64,
    offset: i64,
    mark: Mark,
}

impl Doubt {
    fn is_near(self, mark: Mark, bound: Option<Span>) -> bool {
        bound.is_some_and(|bound| mark <= self.mark.plus(bound) && self.mark <= mark.plus(bound))
    }
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is handled, with this to tell.
    Pass(Option<Downtime>),
    /// It waits at the gate.
    Wait,
}

/// What happened; told once, in order.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A dependency is down.
    Down(Arc<Outage>),
    /// A dependency is no longer down; others may be.
    Up(Arc<str>),
    /// All have recovered: callbacks, rewind, then [`Machine::resume`].
    Recovered(Arc<Outage>),
    /// The dependent goes on.
    Resumed,
    /// The pause was ended by hand or by its limit, with dependencies down.
    Overridden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// A dependency is down.
    Down,
    /// All have recovered; what was handled too early is on its way back.
    Recovering,
}

/// How a dependency stands.
#[derive(Debug)]
pub(crate) struct Standing {
    pub reach: Reach,
    /// Since when it is down.
    pub down: Option<Duration>,
    pub lag: Option<Lag>,
    /// The partitions that hold it back.
    pub held_back_by: Vec<i32>,
}

#[derive(Debug)]
struct Dependency {
    watermark: Watermark,
    /// Since when it is down.
    down: Option<Duration>,
    lag: Option<Lag>,
    /// By partition.
    doubts: BTreeMap<i32, Doubt>,
    /// Heartbeats so far.
    beats: u64,
    /// What the dependent's first message says for it is used up.
    is_seeded: bool,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says another thing of it")]
struct Part {
    /// How often it was sent back.
    epoch: u64,
    pending: Pending,
    /// What is pending has to be handled again: it stays until the partition is moved, whoever has it by then.
    is_due: bool,
    /// The marker of the message that waits for dependencies, in hold mode, and since when it does.
    held: Option<(Mark, Duration)>,
    /// It passes although they are not there.
    is_freed: bool,
    /// What a message waited for that was given up, until the partition gets as far again.
    waited: Option<Mark>,
    /// A message waits, for whatever reason.
    is_at_gate: bool,
    doubt: Option<Doubt>,
    /// Since when a function of the user's is asked about a message.
    asked: Option<Duration>,
    /// What was kept says that a dependency was down, for this marker, in the outage of this number.
    was_down: Option<(Mark, u64)>,
    /// What was kept says to begin here.
    begin: Option<i64>,
    /// It began there.
    begun: Option<i64>,
    /// The recovery that is being told of counts it in.
    is_told: bool,
}

impl Part {
    /// The marker that is waited for, unless it is too far ahead to be believed.
    fn wants(&self) -> Option<Mark> {
        self.held.map(|(mark, _)| mark).filter(|_| self.doubt.is_none()).max(self.waited)
    }
}

struct Open {
    number: u64,
    since: Duration,
    /// Since when messages wait.
    paused: Duration,
    dependency: Arc<str>,
    downtime: Option<Downtime>,
    healthy: Snapshot,
    detected: Snapshot,
}

#[expect(clippy::struct_excessive_bools, reason = "each says another thing of it")]
pub(crate) struct Machine {
    rules: Rules,
    dependencies: Vec<Dependency>,
    parts: BTreeMap<i32, Part>,
    /// The highest marker of the dependent.
    highest: Option<Mark>,
    state: Option<State>,
    healthy: Snapshot,
    open: Option<Open>,
    /// The outage that an earlier run had begun to tell of: it goes on, or turns out to be over.
    unfinished: Option<Arc<Outage>>,
    phase: Phase,
    /// It goes on although a dependency is down.
    overridden: bool,
    /// It goes on although what belongs to the recovery has not come to an end.
    forced: bool,
    /// What earlier runs or members waited for.
    awaited: Option<Mark>,
    said_too_long: bool,
    /// The number of the last outage.
    outages: u64,
    /// The last outage that an earlier run told to be over.
    told_over: u64,
    far_future: u64,
    began: Option<Duration>,
    events: VecDeque<Event>,
    /// Of what has happened too much is still to be told.
    is_crowded: bool,
}

impl Machine {
    pub(crate) fn new(rules: Rules) -> Self {
        let dependency = |rules: &DependencyRules| Dependency {
            watermark: Watermark::new(rules.idle_after),
            down: None,
            lag: None,
            doubts: BTreeMap::new(),
            beats: 0,
            is_seeded: false,
        };
        let dependencies = rules.dependencies.iter().map(dependency).collect();
        Self {
            rules,
            dependencies,
            parts: BTreeMap::new(),
            highest: None,
            state: None,
            healthy: Snapshot::default(),
            open: None,
            unfinished: None,
            phase: Phase::Running,
            overridden: false,
            forced: false,
            awaited: None,
            said_too_long: false,
            outages: 0,
            told_over: 0,
            far_future: 0,
            began: None,
            events: VecDeque::new(),
            is_crowded: false,
        }
    }

    /// What an earlier run wrote down: its state, the number of its last outage, and that outage, unless it was over.
    pub(crate) fn restore(&mut self, number: u64, unfinished: Option<Arc<Outage>>, state: Option<State>) {
        self.outages = self.outages.max(number);
        self.told_over = if unfinished.is_some() { number.saturating_sub(1) } else { number };
        // Of a version of the program with markers of another kind: they cannot be compared.
        let measure = self.rules.measure;
        self.unfinished = unfinished.map(|outage| {
            let is_own = outage.detected.marker.is_none_or(|mark| mark.measure() == measure);
            if is_own { outage } else { Arc::new(outage.without_markers()) }
        });
        self.healthy.state.clone_from(&state);
        self.state = state;
    }

    /// The last outage that is over.
    fn last_over(&self) -> u64 {
        let unfinished = self.unfinished.as_ref().map(|outage| outage.number);
        match self.open.as_ref().map(|open| open.number).or(unfinished) {
            Some(number) => number.saturating_sub(1),
            None => self.outages,
        }
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether so much of what has happened is still to be told that no message passes.
    pub(crate) fn crowd(&mut self, is_crowded: bool) {
        self.is_crowded = is_crowded;
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// What has happened since the last call.
    pub(crate) fn take_events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.events)
    }

    fn covers(&self, dependency: usize, mark: Mark, threshold: Span) -> bool {
        let Some(own) = self.dependencies.get(dependency) else { return true };
        match own.watermark.reach() {
            Reach::Nothing => false,
            Reach::Everything => true,
            Reach::At(reach) => {
                let reach = reach.plus(threshold);
                reach > mark || (self.rules.inclusive && reach == mark)
            }
        }
    }

    /// Whether all dependencies are there that are compared.
    fn is_covered(&self, mark: Mark) -> bool {
        let compared = self.rules.dependencies.iter().enumerate().filter(|(_, rules)| !rules.is_custom);
        compared.into_iter().all(|(at, rules)| self.covers(at, mark, rules.zero))
    }

    /// Whether a marker is too far ahead of everything seen so far to be believed.
    fn is_far(&self, mark: Mark) -> bool {
        let Some(bound) = self.rules.far_future else { return false };
        let seen = self.dependencies.iter().filter_map(|dependency| dependency.watermark.highest()).max();
        let Some(highest) = self.highest.max(seen) else { return false };
        mark > highest.plus(bound)
    }

    /// A message whose marker is below this needs no look at the machine: everything is there and nothing is to be
    /// remembered. `None`: every message does.
    pub(crate) fn clear_below(&self) -> Option<Mark> {
        let is_plain = self.phase == Phase::Running && self.rules.dependencies.iter().all(|own| !own.is_custom);
        if !is_plain || self.is_crowded || self.dependencies.iter().any(|own| own.down.is_some()) {
            return None;
        }
        self.dependencies.iter().map(|own| own.watermark.reach().mark()).min().flatten()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn is_overridden(&self) -> bool {
        self.overridden
    }

    /// The dependent cannot be sent back.
    pub(crate) fn never_rewinds(&mut self) {
        self.rules.rewinds = false;
    }

    /// Whether nothing that was handled in a partition waits for its dependencies.
    pub(crate) fn is_clear(&self, partition: i32) -> bool {
        self.parts
            .get(&partition)
            .is_none_or(|part| part.pending.is_empty() && !part.is_at_gate && part.doubt.is_none())
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn highest(&self) -> Option<Mark> {
        self.highest
    }

    pub(crate) fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    pub(crate) fn open_outage(&self) -> Option<(u64, Duration)> {
        self.open.as_ref().map(|open| (open.number, open.since))
    }

    #[cfg(test)]
    pub(crate) fn outages(&self) -> u64 {
        self.outages
    }

    pub(crate) fn late(&self) -> u64 {
        self.dependencies.iter().map(|own| own.watermark.late()).sum()
    }

    pub(crate) fn far_future(&self) -> u64 {
        self.far_future
    }

    /// Whether a message of this partition waits at the gate.
    pub(crate) fn is_held(&self, partition: i32) -> bool {
        self.parts.get(&partition).is_some_and(|part| part.is_at_gate)
    }

    /// How many lanes have a message at the gate.
    pub(crate) fn held(&self) -> usize {
        self.parts.values().filter(|part| part.is_at_gate).count()
    }

    /// How a dependency stands.
    pub(crate) fn dependency(&self, at: usize) -> Option<Standing> {
        let own = self.dependencies.get(at)?;
        let held_back_by = own.watermark.holding_back();
        let wanted = self.held_mark().or(self.awaited()).max(self.highest);
        let is_compared = self.rules.dependencies.get(at).is_some_and(|rules| !rules.is_custom);
        let lag = match wanted.filter(|_| own.down.is_some() && is_compared) {
            Some(wanted) => Some(self.lag(at, wanted)),
            None => own.lag,
        };
        Some(Standing { reach: own.watermark.reach(), down: own.down, lag, held_back_by })
    }

    /// How many heartbeats a dependency has had.
    pub(crate) fn beats(&self, at: usize) -> u64 {
        self.dependencies.get(at).map_or(0, |own| own.beats)
    }

    /// Whether these answers say that a dependency is down which has had a heartbeat since, and only a function of the
    /// user's can say whether that helped: nobody would ask it, since the dependency was not down by then.
    pub(crate) fn is_overtaken(&self, answers: &[Answers]) -> bool {
        answers.iter().zip(&self.rules.dependencies).enumerate().any(|(at, (answers, rules))| {
            rules.asks_recovery && matches!(answers.down, Some(Err(_))) && answers.beats != self.beats(at)
        })
    }

    /// What earlier runs, or members, or messages that were given up, waited for.
    fn awaited(&self) -> Option<Mark> {
        self.parts.values().filter_map(|part| part.waited).max().max(self.awaited)
    }

    /// What to keep with a position of a dependency.
    pub(crate) fn kept_of(&self, dependency: usize, partition: i32) -> Option<KeptMark> {
        let own = self.dependencies.get(dependency)?;
        let doubt = own.doubts.get(&partition).map(|doubt| (doubt.mark, doubt.offset));
        let kept = KeptMark { mark: own.watermark.of(partition), doubt };
        (kept != KeptMark::default()).then_some(kept)
    }
}
