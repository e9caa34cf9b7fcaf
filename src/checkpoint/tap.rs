//! What a checkpoint does at the gate of its dependent.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;

use super::args::{CheckpointHandle, Seen};
use super::check::{Answer, DowntimeCheck, Gap, RecoveryCheck};
use super::core::{Core, Passed};
use super::machine::{Answers, Message, Mode, Verdict};
use super::mark::Mark;
use super::note::Kept;
use super::outage::{Downtime, State};
use super::plan::{MarkOf, StateOf};
use crate::error::{Error, Kind, Result};
use crate::flow::Gate;
use crate::flow::tap::{Rewind, Tap, TapLane, View, Watch};
use crate::util::panic_message;

/// Turns a panic of one of the user's functions into an error.
pub(super) fn caught<T>(core: &Core, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(core, &*panic)))
}

fn panicked(core: &Core, panic: &(dyn Any + Send)) -> Error {
    Error::new(Kind::Panic, format!("panicked: {}", panic_message(panic))).at(place(&core.name))
}

pub(super) fn place(name: &str) -> String {
    format!("checkpoint {name}")
}

/// The user's own functions for one dependency.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    pub down: Option<DowntimeCheck>,
    pub recovered: Option<RecoveryCheck>,
}

impl Checks {
    fn is_empty(&self) -> bool {
        self.down.is_none() && self.recovered.is_none()
    }
}

/// The tap on the dependent.
pub(crate) struct DependentTap<T> {
    pub core: Arc<Core>,
    pub marker: MarkOf<T>,
    pub state: Option<StateOf<T>>,
    /// In the order of the dependencies; empty when there are none.
    pub checks: Arc<[Checks]>,
}

impl<T: 'static> Tap<T> for DependentTap<T> {
    fn lane(&self, partition: i32) -> Box<dyn TapLane<T>> {
        let handle = CheckpointHandle::new(&self.core);
        Box::new(DependentLane {
            core: Arc::clone(&self.core),
            partition,
            marker: Arc::clone(&self.marker),
            state: self.state.clone(),
            checks: Arc::clone(&self.checks),
            calm: Arc::new(Seen { handle, downtime: None }),
            passed: self.core.add_lane(),
            passed_to: None,
            seen: 0,
            clear_below: None,
            is_clear: false,
            asking: None,
            overtaken: 0,
        })
    }

    fn watch(&self) -> Arc<dyn Watch> {
        Arc::new(DependentWatch(Arc::clone(&self.core)))
    }
}

struct DependentLane<T> {
    core: Arc<Core>,
    partition: i32,
    marker: MarkOf<T>,
    state: Option<StateOf<T>>,
    checks: Arc<[Checks]>,
    /// What handlers are told when nothing is wrong.
    calm: Arc<Seen>,
    /// What passes without a look at the checkpoint, and how far that was told.
    passed: Arc<Passed>,
    passed_to: Option<Mark>,
    /// The version of the checkpoint that the next two are of.
    seen: u64,
    clear_below: Option<Mark>,
    is_clear: bool,
    /// The user's functions are asked, in a turn of the checkpoint.
    asking: Option<(u64, BoxFuture<'static, Vec<Answers>>)>,
    /// How often the answers about the message at the gate were older than a heartbeat that matters.
    overtaken: u32,
}

/// Heartbeats that come while functions of the user's are asked: after so many the next one is as good as certain.
const OVERTAKEN_MAX: u32 = 8;

/// What the user's functions say, and of which turn that is; `None` while nobody is asked.
type Asked = Option<(u64, Vec<Answers>)>;

impl<T> TapLane<T> for DependentLane<T> {
    #[inline]
    fn poll_admit(&mut self, item: &T, seq: u64, offset: i64, cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        match catch_unwind(AssertUnwindSafe(|| self.poll_pass(item, seq, offset, cx))) {
            Ok(Poll::Ready(downtime)) => Poll::Ready(Ok(Some(self.view(downtime)))),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panicked(&self.core, &*panic))),
        }
    }

    fn outage(&self) -> u64 {
        self.core.look(|machine| machine.epoch_of(self.partition))
    }

    fn dropped(&mut self) {
        let partition = self.partition;
        self.core.change(|machine, now| machine.dropped(partition, now));
    }
}

impl<T> DependentLane<T> {
    fn view(&self, downtime: Option<Downtime>) -> View {
        match downtime {
            None => Arc::clone(&self.calm) as View,
            downtime => Arc::new(Seen { handle: self.calm.handle.clone(), downtime }),
        }
    }

    #[inline]
    fn poll_pass(&mut self, item: &T, seq: u64, offset: i64, cx: &mut Context<'_>) -> Poll<Option<Downtime>> {
        let mark = (self.marker)(item);
        let is_plain = self.is_clear && self.core.version() == self.seen && self.state.is_none();
        if is_plain && self.clear_below.is_some_and(|below| mark < below) {
            if self.passed_to.is_none_or(|to| mark > to) {
                self.passed_to = Some(mark);
                self.passed.saw(mark);
            }
            return Poll::Ready(None);
        }
        self.poll_judge(item, Message { partition: self.partition, seq, offset, mark }, cx)
    }

    fn poll_judge(&mut self, item: &T, message: Message, cx: &mut Context<'_>) -> Poll<Option<Downtime>> {
        loop {
            let before = self.core.version();
            let is_early = || self.core.look(|machine| machine.is_closed() || machine.is_starting(self.core.now()));
            let asked = if self.checks.is_empty() || is_early() {
                None
            } else {
                Some(ready!(self.poll_answers(message.mark, cx)))
            };
            let Some(verdict) = self.judge(item, message, &asked, before) else { continue };
            if let Verdict::Pass(downtime) = verdict {
                self.overtaken = 0;
                return Poll::Ready(downtime);
            }
            self.core.waiting.register(cx);
            // What changed before the line above woke nobody here: judged once more.
            if self.core.version() == before {
                return Poll::Pending;
            }
        }
    }

    /// While the user's state is made of the message: once, when it passes.
    fn judge(&mut self, item: &T, message: Message, asked: &Asked, before: u64) -> Option<Verdict> {
        let Some(state) = self.state.clone() else { return self.judge_with(message, None, asked, before) };
        let core = Arc::clone(&self.core);
        let turn = core.turn();
        let next = || state(item, core.look(|machine| machine.state().cloned()).as_ref());
        let (mode, is_early) =
            core.look(|machine| (machine.rules().mode, machine.is_closed() || machine.is_starting(core.now())));
        // What reveals an outage belongs to how everything stood when it was detected.
        let first = (mode == Mode::Detect && !is_early).then(&next);
        let is_made = first.is_some();
        let verdict = self.judge_with(message, first, asked, before)?;
        if matches!(verdict, Verdict::Pass(_)) && !is_made {
            let state = next();
            core.judge(|machine, _| machine.set_state(state));
        }
        drop(turn);
        Some(verdict)
    }

    /// `None`: something has happened since the user's functions were asked, or they have to be. `before`: the version by
    /// then, or an earlier.
    fn judge_with(&mut self, message: Message, state: Option<State>, asked: &Asked, before: u64) -> Option<Verdict> {
        let has_checks = !self.checks.is_empty();
        let (core, overtaken) = (Arc::clone(&self.core), &mut self.overtaken);
        let answers = asked.as_ref().map_or(&[][..], |(_, answers)| answers);
        let (verdict, clear_below, is_clear) = core.judge(|machine, now| {
            let is_outdated = match asked {
                _ if !has_checks => false,
                Some((turn, _)) if *turn != core.turns() => true,
                Some(_) => {
                    let asks_again = machine.is_overtaken(answers) && *overtaken < OVERTAKEN_MAX;
                    *overtaken += u32::from(asks_again);
                    asks_again
                }
                None => !machine.is_closed() && !machine.is_starting(now),
            };
            if is_outdated {
                return (None, None, false);
            }
            let verdict =
                if machine.arrive(message, state, now) { machine.judge(message, answers, now) } else { Verdict::Wait };
            (Some(verdict), machine.clear_below(), machine.is_clear(message.partition))
        });
        (self.clear_below, self.is_clear) = (clear_below, is_clear);
        // Older is safe: then the machine is asked once more.
        self.seen = before;
        verdict
    }

    /// What the user's functions say, and of which turn that is. Heartbeats meanwhile do not ask them anew.
    fn poll_answers(&mut self, mark: Mark, cx: &mut Context<'_>) -> Poll<(u64, Vec<Answers>)> {
        let turn = self.core.turns();
        if self.asking.as_ref().is_none_or(|(asked, _)| *asked != turn) {
            let (gaps, beats): (Vec<_>, Vec<_>) = self
                .core
                .look(|machine| (0..self.checks.len()).map(|at| (Gap::of(machine, at), machine.beats(at))).unzip());
            let gaps = gaps.into_iter().map(|gap| gap.map(|gap| Gap { marker: gap.marker.max(Some(mark)), ..gap }));
            let asked: Vec<_> = self.checks.iter().zip(gaps).map(|(checks, gap)| ask(checks, gap)).collect();
            self.asking = Some((turn, Box::pin(answers(asked, beats))));
        }
        let Some((_, asking)) = &mut self.asking else { return Poll::Ready((turn, Vec::new())) };
        let Poll::Ready(answers) = asking.as_mut().poll(cx) else {
            self.core.judge(|machine, now| machine.ask(self.partition, now));
            return Poll::Pending;
        };
        self.asking = None;
        Poll::Ready((turn, answers))
    }
}

type Questions = (Option<Answer<Option<super::Lag>>>, Option<Answer<bool>>);

fn ask(checks: &Checks, gap: Option<Gap>) -> Questions {
    let Some(gap) = gap else { return (None, None) };
    let recovered = checks.recovered.as_ref().filter(|_| gap.is_down).map(|check| check(gap.clone()));
    (checks.down.as_ref().map(|check| check(gap)), recovered)
}

async fn answers(asked: Vec<Questions>, beats: Vec<u64>) -> Vec<Answers> {
    let mut all = Vec::with_capacity(asked.len());
    for ((down, recovered), beats) in asked.into_iter().zip(beats) {
        let down = match down {
            Some(Answer::Now(lag)) => Some(lag.map_or(Ok(()), Err)),
            Some(Answer::Later(later)) => Some(later.await.map_or(Ok(()), Err)),
            None => None,
        };
        let recovered = match recovered {
            Some(Answer::Now(recovered)) => Some(recovered),
            Some(Answer::Later(later)) => Some(later.await),
            None => None,
        };
        all.push(Answers { down, recovered, beats });
    }
    all
}

impl<T> Drop for DependentLane<T> {
    fn drop(&mut self) {
        let partition = self.partition;
        if self.core.look(|machine| machine.is_held(partition)) {
            self.core.change(|machine, now| machine.dropped(partition, now));
        }
    }
}

/// What was kept of each partition.
pub(super) fn decoded<K>(
    partitions: &[(i32, Option<String>)],
    decode: impl Fn(&str) -> Option<K>,
) -> Result<Vec<(i32, Option<K>)>> {
    let one = |(partition, note): &(i32, Option<String>)| {
        let Some(note) = note else { return Ok((*partition, None)) };
        let kept = decode(note).ok_or_else(|| {
            let text =
                format!("`{}`, kept with the position of partition {partition}, cannot be read", note.escape_debug());
            Error::new(Kind::Corrupt, text)
        })?;
        Ok((*partition, Some(kept)))
    };
    partitions.iter().map(one).collect()
}

struct DependentWatch(Arc<Core>);

impl Watch for DependentWatch {
    fn place(&self) -> String {
        place(&self.0.name)
    }

    fn key(&self) -> &str {
        &self.0.name
    }

    fn needs_whole(&self) -> bool {
        false
    }

    fn handles_early(&self) -> bool {
        self.0.look(|machine| machine.rules().mode == Mode::Detect)
    }

    fn opened(&self, held: &Gate, rewind: Option<Arc<dyn Rewind>>, lasts: bool) -> Result<()> {
        self.0
            .opened(held, rewind, lasts)
            .map_err(|error| if error.place().is_some() { error } else { error.at(self.place()) })
    }

    fn assigned(&self, partitions: &[(i32, Option<String>)]) -> Result<()> {
        let all = decoded(partitions, Kept::decode).map_err(|error| error.at(self.place()))?;
        self.0.change(|machine, now| {
            for (partition, kept) in all {
                machine.begin(partition, kept, now);
            }
            machine.begun(now);
        });
        Ok(())
    }

    fn is_dependency(&self) -> bool {
        false
    }

    fn begin(&self, partition: i32) -> Option<i64> {
        self.0.look(|machine| machine.begins_at(partition))
    }

    fn moved(&self, partition: i32, back_to: Option<i64>, outage: Option<u64>) {
        self.0.change(|machine, now| machine.moved(partition, back_to, outage, now));
    }

    fn goes_back(&self) -> bool {
        self.0.look(|machine| machine.rules().rewinds)
    }

    fn needs(&self, partition: i32, next: i64) -> Option<i64> {
        self.0.look(|machine| machine.keep(partition, next)).safe
    }

    fn revoked(&self, partition: i32) {
        self.0.change(|machine, _| machine.revoked(partition));
    }

    fn note(&self, partition: i32, next: i64) -> Option<String> {
        let kept = self.0.look(|machine| machine.keep(partition, next));
        (kept != Kept::default()).then(|| kept.encode())
    }
}

/// Whether any of these functions is there.
pub(super) fn has_checks(checks: &[Checks]) -> bool {
    checks.iter().any(|checks| !checks.is_empty())
}
