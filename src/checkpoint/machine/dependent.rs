//! The dependent's side: messages that come to the gate, partitions that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Answers, Machine, Mode, Part, Phase, Verdict};
use crate::checkpoint::mark::Mark;
use crate::checkpoint::note::Kept;
use crate::checkpoint::outage::{Downtime, Lag, State};
use crate::checkpoint::watermark::Reach;

impl Machine {
    /// A partition of the dependent is read from now on, with what was kept with its position.
    pub(crate) fn begin(&mut self, partition: i32, kept: Option<Kept>, now: Duration) {
        self.began.get_or_insert(now);
        let kept = kept.unwrap_or_default();
        let part = Part { outage: kept.outage, begin: kept.safe, ..Part::default() };
        self.parts.insert(partition, part);
        self.outages = self.outages.max(kept.outage);
        self.highest = self.highest.max(kept.highest);
        let Some(highest) = kept.highest.filter(|_| kept.is_down && self.rules.mode == Mode::Detect) else { return };
        // It was down when this was written: paused before the first dispatch, until it has caught up.
        let behind = (0..self.dependencies.len()).filter(|at| !self.covers(*at, highest, |rules| rules.zero));
        for at in behind.collect::<Vec<_>>() {
            let lag = self.lag(at, highest);
            self.down(at, lag, now);
        }
    }

    /// Where the partition has to begin because of what was kept.
    pub(crate) fn begins_at(&self, partition: i32) -> Option<i64> {
        self.parts.get(&partition).and_then(|part| part.begin)
    }

    /// The partition is read from another place: what was pending there comes again, or somebody wanted it so.
    pub(crate) fn moved(&mut self, partition: i32, outage: Option<u64>) {
        let part = self.parts.entry(partition).or_default();
        let outage = outage.unwrap_or(0).max(part.outage + 1);
        *part = Part { outage, ..Part::default() };
        self.outages = self.outages.max(outage);
    }

    /// What to keep with a position of the dependent.
    pub(crate) fn keep(&self, partition: i32, next: i64) -> Kept {
        let Some(part) = self.parts.get(&partition) else { return Kept::default() };
        if self.rules.mode == Mode::Hold || !self.rules.rewinds {
            return Kept { outage: part.outage, ..Kept::default() };
        }
        let safe = part.pending.first().filter(|first| *first < next);
        // Not moved yet to where it has to begin: the old record stands.
        let safe = safe.into_iter().chain(part.begin).min();
        let is_down = self.phase != Phase::Running;
        let highest = self.highest.filter(|_| safe.is_some() || is_down);
        Kept { outage: part.outage, safe, highest, is_down }
    }

    /// The outage that the partition was rewound for last; 0 before the first.
    pub(crate) fn outage_of(&self, partition: i32) -> u64 {
        self.parts.get(&partition).map_or(0, |part| part.outage)
    }

    /// Whether the gate is closed to all messages.
    pub(crate) fn is_closed(&self) -> bool {
        match self.phase {
            Phase::Running => false,
            Phase::Down => self.rules.mode == Mode::Detect && self.rules.pauses && !self.overridden,
            Phase::Recovering => true,
        }
    }

    /// Whether it is too early to judge: dependencies get some time to begin.
    pub(super) fn is_in_grace(&self, now: Duration) -> bool {
        let began = self.began.unwrap_or(now);
        now.saturating_sub(began) < self.rules.grace
            && self.dependencies.iter().any(|own| own.watermark.reach() == Reach::Nothing)
    }

    /// A message has come to the gate: its marker and the user's state with it count from now on. True when it goes on to
    /// [`judge`](Self::judge).
    pub(crate) fn arrive(&mut self, partition: i32, mark: Mark, state: Option<State>, now: Duration) -> bool {
        self.began.get_or_insert(now);
        if self.is_closed() || self.is_in_grace(now) {
            return false;
        }
        if !self.is_far(mark) {
            self.highest = self.highest.max(Some(mark));
        }
        if state.is_some() {
            self.state = state;
        }
        self.parts.entry(partition).or_default();
        if self.rules.seeds {
            self.seed();
        }
        true
    }

    /// The model's rule: the first message of the dependent counts as a heartbeat of those that have none.
    pub(super) fn seed(&mut self) {
        let Some(highest) = self.highest else { return };
        let rules = &self.rules.dependencies;
        for (own, _) in self
            .dependencies
            .iter_mut()
            .zip(rules)
            .filter(|(own, rules)| own.watermark.reach() == Reach::Nothing && !rules.is_custom)
        {
            own.watermark.seed(highest);
        }
        if self.healthy.marker.is_none() {
            self.healthy = self.snapshot();
        }
    }

    /// Decides about a message that has arrived. `answers` are those of the user's own functions, in the order of the
    /// dependencies.
    pub(crate) fn judge(
        &mut self,
        partition: i32,
        offset: i64,
        mark: Mark,
        answers: &[Answers],
        now: Duration,
    ) -> Verdict {
        if self.is_closed() {
            return Verdict::Wait;
        }
        if self.highest.is_none_or(|highest| mark > highest) {
            return Verdict::Pass(None); // too far ahead to be believed
        }
        match self.rules.mode {
            Mode::Hold => self.judge_held(partition, mark, now),
            Mode::Detect => self.judge_ahead(partition, offset, mark, answers, now),
        }
    }

    pub(super) fn judge_held(&mut self, partition: i32, mark: Mark, now: Duration) -> Verdict {
        let passes = self.is_within(mark);
        if let Some(part) = self.parts.get_mut(&partition) {
            part.held = (!passes).then_some(mark);
        }
        if passes {
            return Verdict::Pass(None);
        }
        let mut lags = BTreeMap::new();
        for at in 0..self.dependencies.len() {
            if !self.covers(at, mark, |rules| rules.threshold) {
                let lag = self.lag(at, mark);
                self.report(at, lag, &mut lags);
                self.down(at, lag, now);
            }
        }
        if self.overridden {
            return Verdict::Pass(Downtime::new(lags));
        }
        Verdict::Wait
    }

    pub(super) fn judge_ahead(
        &mut self,
        partition: i32,
        offset: i64,
        mark: Mark,
        answers: &[Answers],
        now: Duration,
    ) -> Verdict {
        let is_covered = self.is_covered(mark);
        let part = self.parts.entry(partition).or_default();
        if offset >= 0 && (!is_covered || !part.pending.is_empty()) {
            part.pending.push(offset, mark);
        }
        let mut lags = BTreeMap::new();
        for at in 0..self.dependencies.len() {
            let answers = answers.get(at).copied().unwrap_or_default();
            let within = self.covers(at, mark, |rules| rules.threshold);
            let lag = match answers.down {
                Some(own) => own.err(),
                None => (!within).then(|| self.lag(at, mark)),
            };
            let is_down = self.dependencies.get(at).is_some_and(|own| own.down.is_some());
            match lag {
                Some(lag) => {
                    self.report(at, lag, &mut lags);
                    self.down(at, lag, now);
                }
                None if is_down && self.has_recovered(at, answers.recovered) => self.up(at),
                None if is_down => self.report(at, Lag::Recovering, &mut lags),
                None => {}
            }
        }
        let downtime = Downtime::new(lags);
        if let Some(open) = self.open.as_mut().filter(|open| open.downtime.is_none()) {
            open.downtime.clone_from(&downtime);
        }
        self.settle(now);
        Verdict::Pass(downtime)
    }

    pub(super) fn report(&mut self, at: usize, lag: Lag, lags: &mut BTreeMap<Arc<str>, Lag>) {
        if let (Some(own), Some(rules)) = (self.dependencies.get_mut(at), self.rules.dependencies.get(at)) {
            own.lag = Some(lag);
            lags.insert(Arc::clone(&rules.name), lag);
        }
    }

    pub(super) fn lag(&self, at: usize, mark: Mark) -> Lag {
        match self.dependencies.get(at).and_then(|own| own.watermark.reach().mark()) {
            Some(reach) => Lag::By(mark.since(reach)),
            None => Lag::Unknown,
        }
    }

    /// The message at the gate of a partition is given up.
    pub(crate) fn dropped(&mut self, partition: i32, now: Duration) {
        if let Some(part) = self.parts.get_mut(&partition) {
            part.held = None;
        }
        self.look_held(now);
    }
}
