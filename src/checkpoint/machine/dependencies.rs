//! The dependencies' side, and what follows from it: who is down, who has recovered, what is to be done again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Event, Machine, Mode, Open, Phase};
use crate::checkpoint::mark::Mark;
use crate::checkpoint::outage::{Downtime, Lag, Outage, Snapshot};

impl Machine {
    /// Partitions of a dependency are read from now on, with the markers that were kept.
    pub(crate) fn assigned(&mut self, dependency: usize, partitions: &[(i32, Option<Mark>)], now: Duration) {
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.assigned(partitions, now);
        }
        self.heartbeat(dependency, None, now);
    }

    /// Everything up to this marker is done in a partition of a dependency.
    pub(crate) fn advance(
        &mut self,
        dependency: usize,
        partition: i32,
        mark: Mark,
        recovered: Option<bool>,
        now: Duration,
    ) {
        if self.is_far(mark) {
            return;
        }
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.advance(partition, mark, now);
        }
        self.heartbeat(dependency, recovered, now);
    }

    /// A function of the user's says that a dependency has recovered.
    pub(crate) fn recovered(&mut self, dependency: usize, now: Duration) {
        self.heartbeat(dependency, Some(true), now);
    }

    /// A dependency has ended in a partition: nothing more can come there.
    pub(crate) fn ended(&mut self, dependency: usize, partition: i32, now: Duration) {
        if let Some(own) = self.dependencies.get_mut(dependency) {
            own.watermark.end(partition, now);
        }
        self.heartbeat(dependency, None, now);
    }

    /// Wall clock, for silence only.
    pub(crate) fn tick(&mut self, now: Duration) {
        for at in 0..self.dependencies.len() {
            if self.dependencies.get_mut(at).is_some_and(|own| own.watermark.tick(now)) {
                self.heartbeat(at, None, now);
            }
        }
        let since = self.open.as_ref().filter(|_| self.phase == Phase::Down && !self.overridden).map(|open| open.since);
        let is_too_long = since.zip(self.rules.max_pause).is_some_and(|(since, max)| now.saturating_sub(since) >= max);
        if is_too_long && !self.said_too_long {
            self.said_too_long = true;
            self.events.push_back(Event::TooLong);
        }
    }

    pub(super) fn heartbeat(&mut self, dependency: usize, recovered: Option<bool>, now: Duration) {
        let is_down = self.dependencies.get(dependency).is_some_and(|own| own.down.is_some());
        if is_down && self.rules.mode == Mode::Detect && self.has_recovered(dependency, recovered) {
            self.up(dependency);
        }
        self.look_held(now);
        if self.phase == Phase::Running {
            self.trim();
            self.healthy = self.snapshot();
        }
        self.settle(now);
    }

    /// Forgets what is covered. Only while all is well: in an outage what was pending at its beginning stays.
    pub(super) fn trim(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        let settled = parts.values_mut().filter(|part| !part.is_due);
        settled.for_each(|part| part.pending.trim(|mark| self.is_covered(mark)));
        self.parts = parts;
    }

    pub(super) fn has_recovered(&self, dependency: usize, answer: Option<bool>) -> bool {
        answer
            .unwrap_or_else(|| self.highest.is_none_or(|highest| self.covers(dependency, highest, |rules| rules.zero)))
    }

    /// In hold mode a dependency is down as long as a message waits for it.
    pub(super) fn look_held(&mut self, now: Duration) {
        if self.rules.mode != Mode::Hold || self.phase != Phase::Down {
            return;
        }
        let held = self.parts.values().filter_map(|part| part.held).max();
        let wanted = held.max(self.highest.filter(|_| self.overridden));
        for at in 0..self.dependencies.len() {
            let is_down = self.dependencies.get(at).is_some_and(|own| own.down.is_some());
            if is_down && wanted.is_none_or(|mark| self.covers(at, mark, |rules| rules.threshold)) {
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

    pub(super) fn down(&mut self, at: usize, lag: Lag, now: Duration) {
        let Some(name) = self.rules.dependencies.get(at).map(|rules| Arc::clone(&rules.name)) else { return };
        let Some(own) = self.dependencies.get_mut(at) else { return };
        own.lag = Some(lag);
        if own.down.is_some() {
            return;
        }
        own.down = Some(now);
        if self.open.is_none() {
            self.outages += 1;
            let (healthy, detected) = (self.healthy.clone(), self.snapshot());
            let downtime = Downtime::new(BTreeMap::from([(Arc::clone(&name), lag)]));
            let (number, dependency) = (self.outages, Arc::clone(&name));
            self.open = Some(Open { number, since: now, dependency, downtime, healthy, detected });
        }
        self.phase = Phase::Down;
        if let Some(open) = &mut self.open {
            open.dependency = name;
        }
        self.events.extend(self.outage(None).map(|outage| Event::Down(Arc::new(outage))));
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
    pub(super) fn outage(&self, recovered: Option<Snapshot>) -> Option<Outage> {
        let open = self.open.as_ref()?;
        Some(Outage {
            number: open.number,
            checkpoint: Arc::clone(&self.rules.name),
            dependency: Arc::clone(&open.dependency),
            downtime: open.downtime.clone(),
            healthy: open.healthy.clone(),
            detected: open.detected.clone(),
            recovered,
            safe_offsets: self.targets(),
        })
    }

    /// Recovering begins when the last dependency is up.
    pub(super) fn settle(&mut self, _now: Duration) {
        if self.phase != Phase::Down || self.dependencies.iter().any(|own| own.down.is_some()) {
            return;
        }
        self.phase = Phase::Recovering;
        if self.rules.rewinds {
            self.parts.values_mut().for_each(|part| part.is_due = !part.pending.is_empty());
        }
        let recovered = self.snapshot();
        self.events.extend(self.outage(Some(recovered)).map(|outage| Event::Recovered(Arc::new(outage))));
    }

    /// Per partition, the first message that has to be handled again.
    pub(crate) fn targets(&self) -> Vec<(i32, i64)> {
        self.parts.iter().filter_map(|(partition, part)| Some((*partition, part.pending.first()?))).collect()
    }

    /// What was handled too early is on its way: the dependent goes on.
    pub(crate) fn resume(&mut self) {
        if self.phase != Phase::Recovering {
            return;
        }
        self.phase = Phase::Running;
        self.open = None;
        self.overridden = false;
        self.said_too_long = false;
        self.trim();
        self.healthy = self.snapshot();
        self.events.push_back(Event::Resumed);
    }

    /// Goes on although dependencies are down; true when there was something to override. What is handled meanwhile is
    /// corrected when they recover, where that is possible.
    pub(crate) fn override_pause(&mut self) -> bool {
        let is_paused = self.phase == Phase::Down && !self.overridden;
        if is_paused {
            self.overridden = true;
            self.events.push_back(Event::Overridden);
        }
        is_paused
    }
}
