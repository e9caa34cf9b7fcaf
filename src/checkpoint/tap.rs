//! What a checkpoint does on its sources: at the gate of the dependent, and behind what its dependencies have done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;

use super::args::{CheckpointHandle, Seen};
use super::check::{Answer, DowntimeCheck, Gap, RecoveryCheck};
use super::core::Core;
use super::machine::{Answers, Mode, Verdict};
use super::mark::Mark;
use super::note::Kept;
use super::outage::Downtime;
use super::plan::{Dependency, MarkOf, StateOf};
use crate::error::{Error, Kind, Result};
use crate::flow::tap::{Rewind, Rising, Tap, TapLane, View, Watch};
use crate::flow::{Gate, Stage, UnitCx};
use crate::util::panic_message;

/// The stage of a source that only a checkpoint reads.
pub(crate) struct Nothing;

impl<In: Send> Stage<In> for Nothing {
    fn start(self: Pin<&mut Self>, _input: In, _unit: &mut UnitCx, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn resume(self: Pin<&mut Self>, _unit: &mut UnitCx, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Turns a panic of one of the user's functions into an error.
fn caught<T>(core: &Core, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = format!("panicked: {}", panic_message(&*panic));
        Err(Error::new(Kind::Panic, message).at(place(&core.name)))
    })
}

fn place(name: &str) -> String {
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

// ---- the dependent ------------------------------------------------------------------------------------------------

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
            seen: 0,
            clear_below: None,
            is_clear: false,
            asking: None,
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
    /// The version of the checkpoint that the next two are of.
    seen: u64,
    clear_below: Option<Mark>,
    is_clear: bool,
    /// The user's functions are asked, for a version of the checkpoint.
    asking: Option<(u64, BoxFuture<'static, Vec<Answers>>)>,
}

impl<T> TapLane<T> for DependentLane<T> {
    #[inline]
    fn poll_admit(&mut self, item: &T, _seq: u64, offset: i64, cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        let core = Arc::clone(&self.core);
        let polled = caught(&core, || {
            let mark = (self.marker)(item);
            let is_plain = self.is_clear && self.core.version() == self.seen && self.state.is_none();
            if is_plain && self.clear_below.is_some_and(|below| mark < below) {
                return Ok(Poll::Ready(None));
            }
            Ok(self.poll_judge(item, mark, offset, cx))
        });
        match polled {
            Ok(Poll::Ready(downtime)) => Poll::Ready(Ok(Some(self.view(downtime)))),
            Ok(Poll::Pending) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn outage(&self) -> u64 {
        self.core.look(|machine| machine.outage_of(self.partition))
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

    fn poll_judge(&mut self, item: &T, mark: Mark, offset: i64, cx: &mut Context<'_>) -> Poll<Option<Downtime>> {
        loop {
            let before = self.core.version();
            let answers = if self.checks.is_empty() { Vec::new() } else { ready!(self.poll_answers(item, mark, cx)) };
            let Some(verdict) = self.judge(item, mark, offset, &answers, before) else { continue };
            if let Verdict::Pass(downtime) = verdict {
                return Poll::Ready(downtime);
            }
            self.core.waiting.register(cx);
            // What changed before the line above woke nobody here: judged once more.
            if self.core.version() == before {
                return Poll::Pending;
            }
        }
    }

    /// `None`: the checkpoint has changed since the user's functions were asked.
    fn judge(&mut self, item: &T, mark: Mark, offset: i64, answers: &[Answers], asked: u64) -> Option<Verdict> {
        let (partition, state, has_checks) = (self.partition, self.state.as_ref(), !self.checks.is_empty());
        let version = || self.core.version();
        let (verdict, clear_below, is_clear) = self.core.judge(|machine, now| {
            if has_checks && version() != asked {
                return (None, None, false);
            }
            // Only a message that passes counts for the state.
            let next = state.filter(|_| !machine.is_closed()).map(|state| state(item, machine.state()));
            let verdict = if machine.arrive(partition, mark, next, now) {
                machine.judge(partition, offset, mark, answers, now)
            } else {
                Verdict::Wait
            };
            (Some(verdict), machine.clear_below(), machine.is_clear(partition))
        });
        (self.clear_below, self.is_clear) = (clear_below, is_clear);
        // Older is safe: then the machine is asked once more.
        self.seen = asked;
        verdict
    }

    /// What the user's functions say, of the present state.
    fn poll_answers(&mut self, _item: &T, mark: Mark, cx: &mut Context<'_>) -> Poll<Vec<Answers>> {
        let version = self.core.version();
        if self.asking.as_ref().is_none_or(|(asked, _)| *asked != version) {
            let gaps =
                self.core.look(|machine| (0..self.checks.len()).map(|at| Gap::of(machine, at)).collect::<Vec<_>>());
            let gaps = gaps.into_iter().map(|gap| gap.map(|gap| Gap { marker: gap.marker.max(Some(mark)), ..gap }));
            let asked: Vec<_> = self.checks.iter().zip(gaps).map(|(checks, gap)| ask(checks, gap)).collect();
            self.asking = Some((version, Box::pin(answers(asked))));
        }
        let Some((_, asking)) = &mut self.asking else { return Poll::Ready(Vec::new()) };
        let answers = ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(answers)
    }
}

type Asked = (Option<Answer<Option<super::Lag>>>, Option<Answer<bool>>);

fn ask(checks: &Checks, gap: Option<Gap>) -> Asked {
    let Some(gap) = gap else { return (None, None) };
    let recovered = checks.recovered.as_ref().filter(|_| gap.is_down).map(|check| check(gap.clone()));
    (checks.down.as_ref().map(|check| check(gap)), recovered)
}

async fn answers(asked: Vec<Asked>) -> Vec<Answers> {
    let mut all = Vec::with_capacity(asked.len());
    for (down, recovered) in asked {
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
        all.push(Answers { down, recovered });
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

    fn opened(&self, held: &Gate, rewind: Option<Arc<dyn Rewind>>) {
        self.0.opened(held, rewind);
    }

    fn assigned(&self, partitions: &[(i32, Option<String>)]) {
        self.0.change(|machine, now| {
            for (partition, note) in partitions {
                let kept = note.as_deref().and_then(Kept::decode);
                machine.begin(*partition, kept, now);
            }
        });
    }

    fn notes_before(&self) -> bool {
        false
    }

    fn begin(&self, partition: i32) -> Option<i64> {
        self.0.look(|machine| machine.begins_at(partition))
    }

    fn moved(&self, partition: i32, outage: Option<u64>) {
        self.0.change(|machine, _| machine.moved(partition, outage));
    }

    fn note(&self, partition: i32, next: i64) -> Option<String> {
        let kept = self.0.look(|machine| machine.keep(partition, next));
        (kept != Kept::default()).then(|| kept.encode())
    }
}

// ---- dependencies -------------------------------------------------------------------------------------------------

/// The tap on a dependency.
pub(crate) struct DependencyTap<T> {
    dependency: Arc<Watched>,
    marker: MarkOf<T>,
}

/// A dependency as all its lanes know it.
struct Watched {
    core: Arc<Core>,
    index: usize,
    name: Arc<str>,
    key: String,
    recovered: Option<RecoveryCheck>,
    needs_whole: bool,
}

impl<T> DependencyTap<T> {
    pub(super) fn new(core: Arc<Core>, index: usize, own: &Dependency, marker: MarkOf<T>) -> Self {
        let key = format!("{}/{}", core.name, own.name);
        let needs_whole = !core.look(|machine| machine.rules().single_member);
        let (name, recovered) = (Arc::clone(&own.name), own.recovery_check.clone());
        Self { dependency: Arc::new(Watched { core, index, name, key, recovered, needs_whole }), marker }
    }
}

impl<T: 'static> Tap<T> for DependencyTap<T> {
    fn lane(&self, partition: i32) -> Box<dyn TapLane<T>> {
        let (own, marker) = (Arc::clone(&self.dependency), Arc::clone(&self.marker));
        Box::new(DependencyLane { own, partition, marker, rising: Rising::default() })
    }

    fn watch(&self) -> Arc<dyn Watch> {
        Arc::clone(&self.dependency) as Arc<dyn Watch>
    }
}

struct DependencyLane<T> {
    own: Arc<Watched>,
    partition: i32,
    marker: MarkOf<T>,
    rising: Rising<Mark>,
}

impl<T> TapLane<T> for DependencyLane<T> {
    #[inline]
    fn poll_admit(&mut self, item: &T, seq: u64, _offset: i64, _cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        let mark = match caught(&self.own.core, || Ok((self.marker)(item))) {
            Ok(mark) => mark,
            Err(error) => return Poll::Ready(Err(error)),
        };
        self.rising.push(seq, mark, |new, last| new > last);
        Poll::Ready(Ok(None))
    }

    fn done(&mut self, seq: u64) {
        let Some(mark) = self.rising.take(seq) else { return };
        self.own.advance(self.partition, mark);
    }

    fn ended(&mut self) {
        let (index, partition) = (self.own.index, self.partition);
        tracing::warn!(
            checkpoint = %self.own.core.name,
            dependency = %self.own.name,
            "has ended: what it had to bring is there, and nothing waits for it any more"
        );
        self.own.core.change(|machine, now| machine.ended(index, partition, now));
    }
}

impl Watched {
    fn advance(self: &Arc<Self>, partition: i32, mark: Mark) {
        let index = self.index;
        let Some(check) = &self.recovered else {
            return self.core.change(|machine, now| machine.advance(index, partition, mark, None, now));
        };
        self.core.change(|machine, now| machine.advance(index, partition, mark, Some(false), now));
        let gap = self.core.look(|machine| Gap::of(machine, index)).filter(|gap| gap.is_down);
        let Some(gap) = gap else { return };
        match caught(&self.core, || Ok(check(gap))) {
            Ok(Answer::Now(recovered)) => self.recovered(recovered),
            Ok(Answer::Later(later)) => {
                let own = Arc::clone(self);
                self.core.tasks.spawn(async move {
                    tokio::select! {
                        recovered = later => own.recovered(recovered),
                        () = own.core.kill.cancelled() => {}
                    }
                });
            }
            Err(error) => self.core.fail(error),
        }
    }

    fn recovered(&self, recovered: bool) {
        if recovered {
            self.core.change(|machine, now| machine.recovered(self.index, now));
        }
    }
}

impl Watch for Watched {
    fn place(&self) -> String {
        place(&self.core.name)
    }

    fn key(&self) -> &str {
        &self.key
    }

    fn needs_whole(&self) -> bool {
        self.needs_whole
    }

    fn handles_early(&self) -> bool {
        false
    }

    fn opened(&self, _held: &Gate, _rewind: Option<Arc<dyn Rewind>>) {}

    fn assigned(&self, partitions: &[(i32, Option<String>)]) {
        let decode = |note: &Option<String>| note.as_deref().and_then(Mark::decode);
        let marks: Vec<_> = partitions.iter().map(|(partition, note)| (*partition, decode(note))).collect();
        self.core.change(|machine, now| machine.assigned(self.index, &marks, now));
    }

    fn notes_before(&self) -> bool {
        true
    }

    fn begin(&self, _partition: i32) -> Option<i64> {
        None
    }

    fn moved(&self, _partition: i32, _outage: Option<u64>) {}

    fn note(&self, partition: i32, _next: i64) -> Option<String> {
        self.core.look(|machine| machine.mark_of(self.index, partition)).map(Mark::encode)
    }
}

/// Whether any of these functions is there.
pub(super) fn has_checks(checks: &[Checks]) -> bool {
    checks.iter().any(|checks| !checks.is_empty())
}
