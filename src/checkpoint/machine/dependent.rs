//! The dependent's side: messages that come to the gate, partitions that come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Answers, Doubt, Machine, Message, Mode, Part, Phase, Verdict};
use crate::checkpoint::mark::Mark;
use crate::checkpoint::note::Kept;
use crate::checkpoint::outage::{Downtime, Lag, State};
use crate::checkpoint::watermark::Reach;

/// How long messages wait for what was kept of dependencies, before they are compared without it.
const START_WAIT: Duration = Duration::from_secs(10);

impl Machine {
    /// A partition of the dependent is read from now on, with what was kept with its position; [`begun`](Self::begun)
    /// follows when all have come that come together.
    pub(crate) fn begin(&mut self, partition: i32, kept: Option<Kept>, now: Duration) {
        self.began.get_or_insert(now);
        let mut kept = kept.unwrap_or_default();
        // Of a version of the program with markers of another kind: they cannot be compared.
        kept.highest = kept.highest.filter(|mark| mark.measure() == self.rules.measure);
        // What another version of the program handled too early is corrected in hold mode, too.
        let goes_back = self.rules.rewinds || self.rules.mode == Mode::Hold;
        let (begin, back) = if goes_back { (kept.safe, None) } else { (None, kept.safe) };
        let was_down = kept.highest.filter(|_| kept.is_down).map(|mark| (mark, kept.last.saturating_add(1)));
        self.parts.insert(partition, Part { epoch: kept.epoch, begin, begun: back, was_down, ..Part::default() });
        self.outages = self.outages.max(kept.last);
        if self.rules.mode == Mode::Detect {
            self.highest = self.highest.max(kept.highest);
        }
    }

    /// All partitions that came together have begun.
    pub(crate) fn begun(&mut self, now: Duration) {
        self.look_back(now);
    }

    /// What earlier runs or members have left: an outage that lasts goes on, one that is over is told to be over.
    pub(super) fn look_back(&mut self, now: Duration) {
        let is_early = self.parts.is_empty() || self.is_awaiting_assignment(now);
        if is_early || self.phase == Phase::Recovering {
            return;
        }
        let mut was_down = None;
        for part in self.parts.values_mut() {
            let own = part.was_down.take();
            part.waited = part.waited.max(own.map(|(mark, _)| mark));
            was_down = was_down.max(own);
        }
        let is_untold = was_down.is_some_and(|(_, number)| number > self.told_over);
        if let Some((mark, _)) = was_down {
            // Paused before the first dispatch, until it has caught up.
            let lags = self.lags(mark, |rules| if rules.is_custom { rules.zero } else { self.wanted(rules) });
            self.down(&lags, now);
        }
        if self.phase == Phase::Running && (is_untold || self.is_finished()) {
            self.reopen_or_open(now);
            self.settle(now);
        }
    }

    /// Whether the outage that an earlier run began to tell of is over: everything is there that its message waited for.
    /// If it is not, the message comes again.
    fn is_finished(&self) -> bool {
        let Some(unfinished) = &self.unfinished else { return false };
        let all = || self.rules.dependencies.iter().enumerate().filter(|(_, rules)| !rules.is_custom);
        let is_there = |mark| all().all(|(at, rules)| self.covers(at, mark, self.wanted(rules)));
        unfinished.detected.marker.is_none_or(is_there)
    }

    /// Where the partition has to begin because of what was kept.
    pub(crate) fn begins_at(&self, partition: i32) -> Option<i64> {
        self.parts.get(&partition).and_then(|part| part.begin)
    }

    /// The partition is read from another place: what was pending from there on comes again, or somebody wanted it so.
    pub(crate) fn moved(&mut self, partition: i32, back_to: Option<i64>, outage: Option<u64>, now: Duration) {
        let part = self.parts.entry(partition).or_default();
        let epoch = outage.unwrap_or(0).max(part.epoch.saturating_add(1));
        let mut old = std::mem::replace(part, Part { epoch, ..Part::default() });
        part.was_down = old.was_down;
        let Some(back_to) = back_to else {
            // Left out, perhaps: nobody waits for what the message at the gate has waited for.
            self.look_held(now);
            return;
        };
        part.waited = old.wants();
        // For another checkpoint: what this one has to correct may lie before.
        old.pending.cut(back_to);
        part.is_due = old.is_due && !old.pending.is_empty();
        part.pending = old.pending;
        part.begun = old.begin.into_iter().chain(old.begun).min();
    }

    /// What to keep with a position of the dependent.
    pub(crate) fn keep(&self, partition: i32, next: i64) -> Kept {
        let last = self.last_over();
        let Some(part) = self.parts.get(&partition) else { return Kept { last, ..Kept::default() } };
        let is_down = self.phase != Phase::Running || part.was_down.is_some();
        let kept = Kept { epoch: part.epoch, last, is_down, ..Kept::default() };
        if self.rules.mode == Mode::Hold {
            let held = self.parts.values().filter_map(Part::wants).max();
            let highest = held.max(self.awaited).max(part.was_down.map(|(mark, _)| mark));
            return Kept { safe: part.begin, highest: highest.filter(|_| is_down), ..kept };
        }
        let handled = part.pending.first().filter(|first| *first < next);
        // Not moved yet to where it has to begin, or never: the old record stands.
        let begun = part.begun.filter(|_| !self.rules.rewinds);
        let safe = handled.into_iter().chain(part.begin).chain(begun).min();
        Kept { safe, highest: self.highest.filter(|_| safe.is_some() || is_down), ..kept }
    }

    /// The partition is no longer read here. What it waited for is known to whoever has it next.
    pub(crate) fn revoked(&mut self, partition: i32) {
        self.awaited = self.awaited.max(self.parts.remove(&partition).and_then(|part| part.wants()));
    }

    /// How often the partition was sent back.
    pub(crate) fn epoch_of(&self, partition: i32) -> u64 {
        self.parts.get(&partition).map_or(0, |part| part.epoch)
    }

    /// Whether the gate is closed to all messages.
    pub(crate) fn is_closed(&self) -> bool {
        match self.phase {
            _ if self.is_crowded => true,
            Phase::Running => false,
            Phase::Down => self.rules.mode == Mode::Detect && self.rules.pauses && !self.overridden,
            Phase::Recovering => self.rules.pauses && !self.forced,
        }
    }

    fn is_awaiting_assignment(&self, now: Duration) -> bool {
        self.is_before(START_WAIT, now) && self.dependencies.iter().any(|own| !own.watermark.is_assigned())
    }

    /// Whether it is too early to judge: what was kept of dependencies is not there yet, or they get some time to begin.
    pub(crate) fn is_starting(&self, now: Duration) -> bool {
        let is_in_grace = self.is_before(self.rules.grace, now)
            && self.dependencies.iter().any(|own| own.watermark.reach() == Reach::Nothing);
        self.phase == Phase::Running && (is_in_grace || self.is_awaiting_assignment(now))
    }

    fn is_before(&self, limit: Duration, now: Duration) -> bool {
        now.saturating_sub(self.began.unwrap_or(now)) < limit
    }

    /// A message has come to the gate: its marker, and the user's state with it where that does not wait for it to pass,
    /// count from now on. True when it goes on to [`judge`](Self::judge).
    pub(crate) fn arrive(&mut self, message: Message, state: Option<State>, now: Duration) -> bool {
        self.began.get_or_insert(now);
        let is_early = self.is_closed() || self.is_starting(now);
        let part = self.parts.entry(message.partition).or_default();
        (part.is_at_gate, part.asked) = (is_early, None);
        if is_early {
            return false;
        }
        if self.is_believed(message) {
            self.highest = self.highest.max(Some(message.mark));
        }
        if state.is_some() {
            self.state = state;
        }
        if self.rules.seeds {
            self.seed();
        }
        true
    }

    /// A message waits for what functions of the user's answer.
    pub(crate) fn ask(&mut self, partition: i32, now: Duration) {
        let part = self.parts.entry(partition).or_default();
        (part.is_at_gate, part.asked) = (true, part.asked.or(Some(now)));
    }

    /// Whether the marker is not too far ahead of all others, or as far as that of the message before.
    fn is_believed(&mut self, message: Message) -> bool {
        let Message { partition, seq, offset, mark } = message;
        let is_far = self.is_far(mark);
        let bound = self.rules.far_future;
        let Some(part) = self.parts.get_mut(&partition) else { return true };
        let last = part.doubt.take();
        let is_again = last.is_some_and(|last| last.seq == seq);
        let is_confirmed = last.is_some_and(|last| last.seq != seq && last.is_near(mark, bound));
        if let Some(last) = last.filter(|_| !is_again && !is_confirmed) {
            part.pending.forget(last.offset);
        }
        if !is_far || is_confirmed {
            return true;
        }
        part.doubt = Some(Doubt { seq, offset, mark });
        self.far_future += u64::from(!is_again);
        false
    }

    /// The model's rule: the first message of the dependent counts as a heartbeat of those that have none.
    pub(super) fn seed(&mut self) {
        let Some(highest) = self.highest else { return };
        let rules = &self.rules.dependencies;
        for (own, _) in self
            .dependencies
            .iter_mut()
            .zip(rules)
            .filter(|(own, rules)| !own.is_seeded && own.watermark.reach() == Reach::Nothing && !rules.is_custom)
        {
            own.is_seeded = true;
            own.watermark.seed(highest);
        }
        if self.healthy.marker.is_none() {
            self.healthy = self.snapshot();
        }
    }

    /// The user's state, of a message that has passed.
    pub(crate) fn set_state(&mut self, state: State) {
        self.state = Some(state);
    }

    /// Messages that passed without a look at the machine went so far.
    pub(crate) fn saw(&mut self, mark: Mark) {
        self.highest = self.highest.max(Some(mark));
    }

    /// Decides about a message that has arrived. `answers` are those of the user's own functions, in the order of the
    /// dependencies.
    pub(crate) fn judge(&mut self, message: Message, answers: &[Answers], now: Duration) -> Verdict {
        let verdict = match self.rules.mode {
            _ if self.is_closed() => Verdict::Wait,
            Mode::Hold => self.judge_held(message, now),
            Mode::Detect => self.judge_ahead(message, answers, now),
        };
        if let Some(part) = self.parts.get_mut(&message.partition) {
            part.is_at_gate = verdict == Verdict::Wait;
        }
        verdict
    }

    fn judge_held(&mut self, message: Message, now: Duration) -> Verdict {
        let Message { partition, mark, .. } = message;
        let lags = self.lags(mark, |rules| rules.threshold);
        let mut is_freed = false;
        let passes = lags.is_empty() || self.overridden;
        if let Some(part) = self.parts.get_mut(&partition) {
            is_freed = std::mem::take(&mut part.is_freed);
            let since = part.held.filter(|(own, _)| *own == mark).map_or(now, |(_, since)| since);
            part.held = (!passes && !is_freed).then_some((mark, since));
            part.waited = part.waited.filter(|waited| mark < *waited);
        }
        if lags.is_empty() {
            return Verdict::Pass(None);
        }
        if is_freed {
            // The outage that it waited in is still there, or over.
            return Verdict::Pass(Downtime::new(self.named(&lags)));
        }
        self.down(&lags, now);
        if passes { Verdict::Pass(Downtime::new(self.named(&lags))) } else { Verdict::Wait }
    }

    fn judge_ahead(&mut self, message: Message, answers: &[Answers], now: Duration) -> Verdict {
        let Message { partition, seq, offset, mark } = message;
        let answers: Vec<_> = answers.iter().enumerate().map(|(at, own)| self.of_ended(at, *own)).collect();
        // Where the user decides who is down, the comparison does not.
        let is_down = answers.iter().any(|answers| answers.down.is_some_and(|down| down.is_err()));
        let is_covered = self.is_covered(mark) && !is_down;
        let part = self.parts.entry(partition).or_default();
        if offset >= 0 && (!is_covered || !part.pending.is_empty()) {
            part.pending.push(offset, mark);
        }
        if part.doubt.is_some_and(|doubt| doubt.seq == seq) {
            return Verdict::Pass(None); // until the next one says the same
        }
        let mut lags = self.lags(mark, |rules| rules.threshold);
        let mut recovering = BTreeMap::new();
        for at in 0..self.dependencies.len() {
            let answers = answers.get(at).copied().unwrap_or_default();
            match answers.down {
                Some(Err(lag)) => drop(lags.insert(at, lag)),
                Some(Ok(())) => drop(lags.remove(&at)),
                None => {}
            }
            let is_down = self.dependencies.get(at).is_some_and(|own| own.down.is_some());
            match is_down && !lags.contains_key(&at) {
                true if self.has_recovered(at, answers.recovered) => self.up(at),
                true => drop(recovering.insert(at, Lag::Recovering)),
                false => {}
            }
        }
        let awaited = self.awaited().filter(|_| self.overridden);
        let mut down = lags.clone();
        if let Some(awaited) = awaited {
            // What comes after that belongs to the next outage.
            down.retain(|at, _| {
                !self.rules.dependencies.get(*at).is_some_and(|own| self.covers(*at, awaited, own.zero))
            });
        }
        self.down(&down, now);
        for (at, answers) in answers.iter().enumerate() {
            // A heartbeat since the question, which may have been the last one.
            let is_old = down.contains_key(&at) && answers.down.is_some() && answers.beats != self.beats(at);
            if is_old && self.has_recovered(at, None) {
                self.up(at);
            }
        }
        self.settle(now);
        lags.extend(recovering);
        Verdict::Pass(Downtime::new(self.named(&lags)))
    }

    /// Nothing waits for what has ended, whatever a function of the user's says of it.
    fn of_ended(&self, dependency: usize, answers: Answers) -> Answers {
        if !self.has_ended(dependency) {
            return answers;
        }
        Answers { down: answers.down.map(|_| Ok(())), recovered: answers.recovered.map(|_| true), ..answers }
    }

    /// The message at the gate of a partition is given up.
    pub(crate) fn dropped(&mut self, partition: i32, now: Duration) {
        if let Some(part) = self.parts.get_mut(&partition) {
            (part.is_at_gate, part.asked) = (false, None);
            // What it waited for is still missing, whoever has it next.
            part.waited = part.wants();
            (part.held, part.is_freed) = (None, false);
        }
        self.look_held(now);
    }
}
