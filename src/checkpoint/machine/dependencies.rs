//! The dependencies' side, and what follows from it: who is down, who has recovered, what is to be done again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{DependencyRules, Doubt, Event, Machine, Mode, Open, Part, Phase};
use crate::checkpoint::mark::{Mark, Span};
use crate::checkpoint::note::KeptMark;
use crate::checkpoint::outage::{Downtime, Lag, Outage, Snapshot};
use crate::checkpoint::watermark::Reach;

/// How far dependencies are behind a message, by their place in the declaration.
pub(super) type Lags = BTreeMap<usize, Lag>;

impl Machine {
    /// Partitions of a dependency are read from now on, with the markers that were kept.
    pub(crate) fn assigned(&mut self, dependency: usize, partitions: &[(i32, Option<KeptMark>)], now: Duration) {
        let measure = self.rules.measure;
        if let Some(own) = self.dependencies.get_mut(dependency) {
            // Of a version of the program with markers of another kind: they cannot be compared.
            let is_own = |mark: &Mark| mark.measure() == measure;
            let kept = partitions.iter().map(|(partition, kept)| (*partition, kept.unwrap_or_default()));
            let doubts = kept.clone().filter_map(|(at, kept)| Some((at, kept.doubt.filter(|(mark, _)| is_own(mark))?)));
            own.doubts.extend(doubts.map(|(at, (mark, offset))| (at, Doubt { seq: 0, offset, mark })));
            let marks: Vec<_> = kept.map(|(partition, kept)| (partition, kept.mark.filter(is_own))).collect();
            own.watermark.assigned(&marks, now);
        }
        self.heartbeat(dependency, None, now);
    }

    /// How many partitions a dependency has.
    pub(crate) fn expects(&mut self, dependency: usize, partitions: Option<usize>, now: Duration) {
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.expects(partitions, now);
        }
        self.look_back(now);
    }

    /// A partition of a dependency is read from another place, by someone's wish.
    pub(crate) fn sought(&mut self, dependency: usize, partition: i32, now: Duration) {
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.sought(partition, now);
            own.doubts.remove(&partition);
            // Not to be taken for one that has just begun.
            own.is_seeded = true;
        }
    }

    /// Whether a partition of a dependency has anything in its handlers.
    pub(crate) fn busy(&mut self, dependency: usize, partition: i32, is_busy: bool, now: Duration) {
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.busy(partition, is_busy, now);
        }
    }

    /// Everything up to this marker is done in a partition of a dependency. `offset` tells its messages apart; -1 does not.
    pub(crate) fn advance(
        &mut self,
        dependency: usize,
        partition: i32,
        (mark, offset): (Mark, i64),
        recovered: Option<bool>,
        now: Duration,
    ) {
        let (is_far, bound) = (self.is_far(mark), self.rules.far_future);
        let Some(own) = self.dependencies.get_mut(dependency) else { return };
        own.beats += 1;
        let last = own.doubts.remove(&partition);
        // The same message may come again.
        let is_again = last.is_some_and(|last| offset != -1 && offset == last.offset);
        if is_far && (is_again || !last.is_some_and(|last| last.is_near(mark, bound))) {
            let doubt = last.filter(|_| is_again).unwrap_or(Doubt { seq: 0, offset, mark });
            own.doubts.insert(partition, doubt);
            self.far_future += u64::from(!is_again);
            return;
        }
        own.watermark.advance(partition, mark, now);
        self.heartbeat(dependency, recovered, now);
    }

    /// A function of the user's says that a dependency has recovered from what it was asked about, an outage.
    pub(crate) fn recovered(&mut self, dependency: usize, outage: Option<u64>, now: Duration) {
        if outage == self.open.as_ref().map(|open| open.number) {
            self.heartbeat(dependency, Some(true), now);
        }
    }

    /// A dependency has ended in a partition: nothing more can come there.
    pub(crate) fn ended(&mut self, dependency: usize, partition: i32, now: Duration) {
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.end(partition, now);
        }
        self.heartbeat(dependency, None, now);
    }

    /// Wall clock, for silence only. True, once, when the pause has lasted as long as it may.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        for at in 0..self.dependencies.len() {
            if self.dependencies.get_mut(at).is_some_and(|own| own.watermark.tick(now)) {
                self.heartbeat(at, None, now);
            }
        }
        self.look_back(now);
        let is_too_long =
            self.waiting_since().zip(self.rules.max_pause).is_some_and(|(since, max)| now.saturating_sub(since) >= max);
        is_too_long && !std::mem::replace(&mut self.said_too_long, true)
    }

    /// Whether the clock decides anything.
    pub(crate) fn needs_clock(&self) -> bool {
        self.dependencies.iter().any(|own| !own.watermark.is_assigned())
            || self.rules.max_pause.is_some()
            || !self.rules.grace.is_zero()
            || self.rules.dependencies.iter().any(|rules| rules.idle_after.is_some())
    }

    fn heartbeat(&mut self, dependency: usize, recovered: Option<bool>, now: Duration) {
        if self.rules.mode == Mode::Detect {
            self.look_down(dependency, recovered);
        }
        self.look_held(now);
        self.look_doubted(now);
        if self.phase == Phase::Running {
            self.trim();
            self.healthy = self.snapshot();
        }
        self.settle(now);
        self.look_back(now);
    }

    /// Who has recovered. All are looked at: of what runs on and on, two are never there at the same heartbeat.
    fn look_down(&mut self, dependency: usize, recovered: Option<bool>) {
        for at in 0..self.dependencies.len() {
            let is_down = self.dependencies.get(at).is_some_and(|own| own.down.is_some());
            let is_compared = self.rules.dependencies.get(at).is_some_and(|rules| !rules.is_custom);
            let answer = recovered.filter(|_| at == dependency);
            if is_down && (at == dependency || is_compared) && self.has_recovered(at, answer) {
                self.up(at);
            }
        }
    }

    /// A message that was not believed, and handled, was right: its dependencies have come as far. It is handled again.
    fn look_doubted(&mut self, now: Duration) {
        if self.rules.mode != Mode::Detect || self.phase != Phase::Running {
            return;
        }
        let is_right = |part: &Part| {
            part.doubt.filter(|doubt| {
                let is_pending = part.pending.first().is_some_and(|first| first <= doubt.offset);
                is_pending && self.is_covered(doubt.mark)
            })
        };
        let right: Vec<_> = self.parts.iter().filter_map(|(at, part)| Some((*at, is_right(part)?.mark))).collect();
        for (at, mark) in &right {
            self.highest = self.highest.max(Some(*mark));
            if let Some(part) = self.parts.get_mut(at) {
                part.doubt = None;
            }
        }
        if !right.is_empty() {
            self.reopen_or_open(now);
        }
    }

    /// Forgets what is covered. Only while all is well: in an outage what was pending at its beginning stays.
    fn trim(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        let settled = parts.values_mut().filter(|part| !part.is_due);
        settled.for_each(|part| part.pending.trim(|mark| self.is_covered(mark)));
        self.parts = parts;
    }

    pub(super) fn has_recovered(&self, dependency: usize, answer: Option<bool>) -> bool {
        // Of what runs on and on, a dependency is always somewhat behind.
        let wanted = if self.overridden { self.awaited() } else { self.highest };
        let caught_up = || match (wanted, self.rules.dependencies.get(dependency)) {
            (Some(wanted), Some(rules)) => {
                let within = if self.rules.pauses { rules.zero } else { rules.threshold };
                self.covers(dependency, wanted, within)
            }
            _ => true,
        };
        // Where the user decides, the comparison does not; but nothing more can come of what has ended.
        let asks = self.rules.dependencies.get(dependency).is_some_and(|rules| rules.asks_recovery);
        answer.unwrap_or_else(|| if asks { self.has_ended(dependency) } else { caught_up() })
    }

    /// Whether nothing more can come of a dependency.
    pub(super) fn has_ended(&self, dependency: usize) -> bool {
        self.dependencies.get(dependency).is_none_or(|own| own.watermark.reach() == Reach::Everything)
    }

    /// The highest marker that waits at the gate, in hold mode.
    pub(super) fn held_mark(&self) -> Option<Mark> {
        self.parts.values().filter_map(|part| part.held).map(|(mark, _)| mark).max()
    }

    /// In hold mode a dependency is down as long as a message waits for it.
    pub(super) fn look_held(&mut self, now: Duration) {
        if self.rules.mode != Mode::Hold || self.phase != Phase::Down {
            return;
        }
        let wanted = self.held_mark().max(self.awaited());
        for at in 0..self.dependencies.len() {
            let is_down = self.dependencies.get(at).is_some_and(|own| own.down.is_some());
            let threshold = self.rules.dependencies.get(at).map(|rules| rules.threshold);
            let is_there = |mark| threshold.is_none_or(|threshold| self.covers(at, mark, threshold));
            if is_down && wanted.is_none_or(is_there) {
                self.up(at);
            }
        }
        self.settle(now);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let names = self.rules.dependencies.iter().map(|rules| Arc::clone(&rules.name));
        let marks = self.dependencies.iter().map(|own| own.watermark.reach().mark());
        Snapshot { marker: self.highest, dependencies: names.zip(marks).collect(), state: self.state.clone() }
    }

    /// What an outage waits for: nothing is corrected within the threshold of what is held.
    pub(super) fn wanted(&self, rules: &DependencyRules) -> Span {
        match self.rules.mode {
            Mode::Detect => rules.zero,
            Mode::Hold => rules.threshold,
        }
    }

    /// Which dependencies do not cover this marker.
    pub(super) fn lags(&self, mark: Mark, threshold: impl Fn(&DependencyRules) -> Span) -> Lags {
        let all = self.rules.dependencies.iter().enumerate();
        all.filter(|(at, rules)| !self.covers(*at, mark, threshold(rules)))
            .map(|(at, _)| (at, self.lag(at, mark)))
            .collect()
    }

    pub(super) fn lag(&self, at: usize, mark: Mark) -> Lag {
        match self.dependencies.get(at).map(|own| own.watermark.reach()) {
            Some(Reach::At(reach)) => Lag::By(mark.since(reach)),
            _ => Lag::Unknown,
        }
    }

    pub(super) fn named(&self, lags: &Lags) -> BTreeMap<Arc<str>, Lag> {
        let name = |at: usize| self.rules.dependencies.get(at).map(|rules| Arc::clone(&rules.name));
        lags.iter().filter_map(|(at, lag)| Some((name(*at)?, *lag))).collect()
    }

    /// These are down, if they were not.
    pub(super) fn down(&mut self, lags: &Lags, now: Duration) {
        let mut new = Vec::new();
        for (at, lag) in lags {
            let Some(own) = self.dependencies.get_mut(*at) else { continue };
            own.lag = Some(*lag);
            if own.down.is_none() {
                own.down = Some(now);
                new.push(*at);
            }
        }
        if new.is_empty() {
            return;
        }
        self.reopen_or_open(now);
        let lags = self.named(lags);
        if let Some(open) = &mut self.open {
            let known = open.downtime.iter().flat_map(Downtime::iter).map(|(name, lag)| (Arc::from(name), lag));
            open.downtime = Downtime::new(lags.into_iter().chain(known).collect());
        }
        for at in new {
            let name = self.rules.dependencies.get(at).map(|rules| Arc::clone(&rules.name));
            if let Some((open, name)) = self.open.as_mut().zip(name) {
                open.dependency = name;
            }
            self.events.extend(self.outage(None).map(|outage| Event::Down(Arc::new(outage))));
        }
    }

    /// Goes on with the outage that an earlier run had begun to tell of, or begins one, unless there is one.
    pub(super) fn reopen_or_open(&mut self, now: Duration) {
        // Of one that was told to be over, nothing more is told.
        let is_told = self.phase == Phase::Recovering;
        self.phase = Phase::Down;
        if self.open.is_some() && !is_told {
            return;
        }
        (self.overridden, self.forced, self.said_too_long) = (false, false, false);
        let known = self.unfinished.take();
        let number = known.as_ref().map_or(self.outages.saturating_add(1), |outage| outage.number);
        self.outages = self.outages.max(number);
        let (dependency, downtime, healthy, detected) = match known {
            Some(known) => {
                // Messages before the one that told of it may have been early, too, and are covered sooner.
                if self.rules.mode == Mode::Hold {
                    self.awaited = self.awaited.max(known.detected.marker);
                }
                (Arc::clone(&known.dependency), known.downtime.clone(), known.healthy.clone(), known.detected.clone())
            }
            None => {
                let first = self.rules.dependencies.first().map(|rules| Arc::clone(&rules.name));
                (first.unwrap_or_default(), None, self.healthy.clone(), self.snapshot())
            }
        };
        self.open = Some(Open { number, since: now, paused: now, dependency, downtime, healthy, detected });
    }

    pub(super) fn up(&mut self, at: usize) {
        let Some(name) = self.rules.dependencies.get(at).map(|rules| Arc::clone(&rules.name)) else { return };
        if let Some(own) = self.dependencies.get_mut(at) {
            own.down = None;
            own.lag = None;
        }
        if let Some(open) = &mut self.open {
            open.dependency = Arc::clone(&name);
        }
        self.events.push_back(Event::Up(name));
    }

    /// The outage as it stands.
    fn outage(&self, recovered: Option<Snapshot>) -> Option<Outage> {
        let open = self.open.as_ref()?;
        Some(Outage {
            number: open.number,
            checkpoint: Arc::clone(&self.rules.name),
            dependency: Arc::clone(&open.dependency),
            downtime: open.downtime.clone(),
            healthy: open.healthy.clone(),
            detected: open.detected.clone(),
            recovered,
            safe_offsets: self.safe_offsets(),
        })
    }

    /// Per partition, the first message that was handled too early, here or by an earlier run.
    fn safe_offsets(&self) -> Vec<(i32, i64)> {
        let first = |part: &Part| part.pending.first().into_iter().chain(part.begin).chain(part.begun).min();
        self.parts.iter().filter_map(|(partition, part)| Some((*partition, first(part)?))).collect()
    }

    /// Recovering begins when the last dependency is up.
    pub(super) fn settle(&mut self, now: Duration) {
        if self.phase != Phase::Down || self.dependencies.iter().any(|own| own.down.is_some()) {
            return;
        }
        self.phase = Phase::Recovering;
        if let Some(open) = self.open.as_mut().filter(|_| self.overridden) {
            // It went on meanwhile, and waits from now on.
            open.paused = now;
            self.said_too_long = false;
        }
        if self.rules.rewinds {
            self.parts.values_mut().for_each(|part| part.is_due = !part.pending.is_empty());
        }
        self.parts.values_mut().for_each(|part| part.is_told = true);
        let recovered = self.snapshot();
        self.events.extend(self.outage(Some(recovered)).map(|outage| Event::Recovered(Arc::new(outage))));
    }

    /// Per partition, the first message that has to be handled again.
    pub(crate) fn targets(&self) -> Vec<(i32, i64)> {
        self.parts.iter().filter_map(|(partition, part)| Some((*partition, part.pending.first()?))).collect()
    }

    /// The same of what was pending when all had recovered, and is where it was.
    pub(crate) fn due(&self) -> Vec<(i32, i64)> {
        let due = self.parts.iter().filter(|(_, part)| part.is_due);
        due.filter_map(|(partition, part)| Some((*partition, part.pending.first()?))).collect()
    }

    /// Whether a later outage has begun since this one: what is to be done again for this one is done with that.
    pub(crate) fn has_begun_another(&self, outage: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.number != outage)
    }

    /// What was handled too early is on its way: the dependent goes on.
    pub(crate) fn resume(&mut self, now: Duration) {
        if self.phase != Phase::Recovering {
            return;
        }
        self.phase = Phase::Running;
        self.open = None;
        self.overridden = false;
        self.forced = false;
        self.said_too_long = false;
        self.awaited = None;
        for part in self.parts.values_mut() {
            part.waited = None;
            // A partition that came meanwhile belongs to the next one that is told.
            part.begun = part.begun.filter(|_| !std::mem::take(&mut part.is_told));
        }
        self.trim();
        self.healthy = self.snapshot();
        self.events.push_back(Event::Resumed);
        self.look_back(now);
    }

    /// Since when messages wait for a function of the user's.
    pub(crate) fn asked_since(&self) -> Option<Duration> {
        self.parts.values().filter_map(|part| part.asked).min()
    }

    /// Since when an outage keeps messages from passing: in hold mode the one that has waited longest.
    pub(crate) fn waiting_since(&self) -> Option<Duration> {
        let open = self.open.as_ref().filter(|_| self.is_paused())?;
        if self.phase == Phase::Down && self.rules.mode == Mode::Hold {
            return self.parts.values().filter_map(|part| part.held).map(|(_, since)| since).min();
        }
        Some(open.paused)
    }

    /// Whether an outage keeps messages from passing.
    pub(super) fn is_paused(&self) -> bool {
        match self.phase {
            Phase::Running => false,
            Phase::Down => self.rules.pauses && !self.overridden,
            Phase::Recovering => self.rules.pauses && !self.forced,
        }
    }

    /// Goes on although dependencies are down, or callbacks have not come to an end; true when there was something to
    /// override. What is handled meanwhile is corrected when they recover, where that is possible.
    pub(crate) fn override_pause(&mut self) -> bool {
        let is_paused = self.is_paused();
        if is_paused {
            match self.phase {
                Phase::Recovering => self.forced = true,
                // What comes from now on belongs to the next outage.
                _ => {
                    self.overridden = true;
                    let held = self.parts.values().filter_map(Part::wants).max();
                    let present = if self.rules.mode == Mode::Hold { held } else { self.highest };
                    self.awaited = self.awaited.max(present);
                }
            }
            self.parts.values_mut().for_each(|part| part.is_freed = part.held.take().is_some());
            self.events.push_back(Event::Overridden);
        }
        is_paused
    }
}
