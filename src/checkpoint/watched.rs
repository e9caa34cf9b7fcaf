//! What a checkpoint does behind its dependencies: it counts what their handlers have done.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt as _;

use super::check::{Answer, Gap, RecoveryCheck};
use super::core::Core;
use super::machine::Machine;
use super::mark::Mark;
use super::note::KeptMark;
use super::plan::{Dependency, MarkOf};
use super::tap::{caught, decoded, place};
use crate::error::Result;
use crate::flow::tap::{Rewind, Rising, Tap, TapLane, View, Watch};
use crate::flow::{Gate, Stage, UnitCx};

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
    /// Of the function of the user's that answers later: one question at a time.
    asking: Mutex<Asking>,
    needs_whole: bool,
    /// Whether each marker counts, or only the highest: of two that are far ahead the second says that the first is right.
    takes_all: bool,
    /// Whether the clock decides about silence.
    watches_silence: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Asking {
    #[default]
    Nothing,
    Once,
    /// There was a heartbeat since it was asked.
    Again,
}

impl<T> DependencyTap<T> {
    pub(super) fn new(core: Arc<Core>, index: usize, own: &Dependency, marker: MarkOf<T>) -> Self {
        let key = format!("{}/{}", core.name, own.name);
        let needs_whole = !core.look(|machine| machine.rules().single_member);
        let (name, recovered) = (Arc::clone(&own.name), own.recovery_check.clone());
        let takes_all = core.look(|machine| machine.rules().far_future.is_some());
        let watches_silence = own.idle_after.is_some();
        let asking = Mutex::default();
        let watched = Watched { core, index, name, key, recovered, asking, needs_whole, takes_all, watches_silence };
        Self { dependency: Arc::new(watched), marker }
    }
}

impl<T: 'static> Tap<T> for DependencyTap<T> {
    fn lane(&self, partition: i32) -> Box<dyn TapLane<T>> {
        let (own, marker) = (Arc::clone(&self.dependency), Arc::clone(&self.marker));
        Box::new(DependencyLane { own, partition, marker, rising: Rising::default(), busy_until: None })
    }

    fn watch(&self) -> Arc<dyn Watch> {
        Arc::clone(&self.dependency) as Arc<dyn Watch>
    }
}

struct DependencyLane<T> {
    own: Arc<Watched>,
    partition: i32,
    marker: MarkOf<T>,
    /// With the offsets of their messages.
    rising: Rising<(Mark, i64)>,
    /// Where silence counts: messages before this one are in handlers.
    busy_until: Option<u64>,
}

impl<T> TapLane<T> for DependencyLane<T> {
    #[inline]
    fn poll_admit(&mut self, item: &T, seq: u64, offset: i64, _cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        Poll::Ready(self.known(item, seq, offset).map(|()| None))
    }

    #[inline]
    fn known(&mut self, item: &T, seq: u64, offset: i64) -> Result<()> {
        let mark = caught(&self.own.core, || Ok((self.marker)(item)))?;
        let takes_all = self.own.takes_all;
        self.rising.push(seq, (mark, offset), |new, last| takes_all || new.0 > last.0);
        if self.own.watches_silence && self.busy_until.replace(seq + 1).is_none() {
            self.own.busy(self.partition, true);
        }
        Ok(())
    }

    fn done(&mut self, seq: u64) {
        if self.busy_until.is_some_and(|until| seq >= until) {
            self.busy_until = None;
            self.own.busy(self.partition, false);
        }
        if self.own.takes_all {
            while let Some(mark) = self.rising.next(seq) {
                self.own.advance(self.partition, mark);
            }
        } else if let Some(mark) = self.rising.take(seq) {
            self.own.advance(self.partition, mark);
        }
    }

    fn ended(&self) {
        let (index, partition) = (self.own.index, self.partition);
        tracing::warn!(
            checkpoint = %self.own.core.name,
            dependency = %self.own.name,
            "has ended: what it had to bring is there, and nothing waits for it any more"
        );
        self.own.core.change(|machine, now| machine.ended(index, partition, now));
    }
}

impl<T> Drop for DependencyLane<T> {
    fn drop(&mut self) {
        if self.busy_until.is_some() {
            self.own.busy(self.partition, false);
        }
    }
}

impl Watched {
    fn busy(&self, partition: i32, is_busy: bool) {
        self.core.judge(|machine, now| machine.busy(self.index, partition, is_busy, now));
    }

    fn advance(self: &Arc<Self>, partition: i32, mark: (Mark, i64)) {
        let index = self.index;
        // Where the user decides, the comparison does not.
        let answer = self.recovered.as_ref().map(|_| false);
        self.core.change(|machine, now| machine.advance(index, partition, mark, answer, now));
        let asked = caught(&self.core, || {
            self.ask();
            Ok(())
        });
        if let Err(error) = asked {
            self.core.fail(error);
        }
    }

    /// Asks the user's function whether it has recovered, if it is down and there is one.
    fn ask(self: &Arc<Self>) {
        let Some(check) = &self.recovered else { return };
        loop {
            let (gap, outage) = self.core.look(|machine| (Gap::of(machine, self.index), number(machine)));
            let Some(gap) = gap.filter(|gap| gap.is_down) else { return };
            if !self.begins_asking() {
                return;
            }
            match check(gap) {
                Answer::Now(recovered) => {
                    self.recovered(recovered, outage);
                    if std::mem::take(&mut *self.asking()) != Asking::Again {
                        return;
                    }
                }
                Answer::Later(later) => {
                    let own = Arc::clone(self);
                    self.core.tasks.spawn(async move {
                        tokio::select! {
                            answer = AssertUnwindSafe(later).catch_unwind() => own.answered(answer, outage),
                            () = own.core.stop.cancelled() => {}
                        }
                    });
                    return;
                }
            }
        }
    }

    /// False while it is asked: it is asked once more then.
    fn begins_asking(&self) -> bool {
        let mut asking = self.asking();
        let begins = *asking == Asking::Nothing;
        *asking = if begins { Asking::Once } else { Asking::Again };
        begins
    }

    fn answered(self: &Arc<Self>, answer: std::thread::Result<bool>, outage: Option<u64>) {
        let asked = std::mem::take(&mut *self.asking());
        let result = caught(&self.core, || {
            self.recovered(answer.unwrap_or_else(|panic| resume_unwind(panic)), outage);
            if asked == Asking::Again {
                self.ask();
            }
            Ok(())
        });
        if let Err(error) = result {
            self.core.fail(error);
        }
    }

    fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recovered(&self, recovered: bool, outage: Option<u64>) {
        if recovered {
            self.core.change(|machine, now| machine.recovered(self.index, outage, now));
        }
    }
}

fn number(machine: &Machine) -> Option<u64> {
    machine.open_outage().map(|(number, _)| number)
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

    fn opened(&self, _held: &Gate, _rewind: Option<Arc<dyn Rewind>>, _lasts: bool) -> Result<()> {
        Ok(())
    }

    fn assigned(&self, partitions: &[(i32, Option<String>)]) -> Result<()> {
        let kept = decoded(partitions, KeptMark::decode).map_err(|error| error.at(self.place()))?;
        self.core.change(|machine, now| machine.assigned(self.index, &kept, now));
        Ok(())
    }

    fn is_dependency(&self) -> bool {
        true
    }

    fn begin(&self, _partition: i32) -> Option<i64> {
        None
    }

    fn moved(&self, partition: i32, back_to: Option<i64>, _outage: Option<u64>) {
        // Somebody reads it again, or leaves something out: what it has brought by then is not known.
        if back_to.is_none() {
            self.core.change(|machine, now| machine.sought(self.index, partition, now));
        }
    }

    fn needs_last(&self, partition: i32) -> bool {
        self.core.look(|machine| machine.kept_of(self.index, partition)).is_none()
    }

    fn expects(&self, partitions: Option<usize>) {
        self.core.change(|machine, now| machine.expects(self.index, partitions, now));
    }

    fn note(&self, partition: i32, _next: i64) -> Option<String> {
        self.core.look(|machine| machine.kept_of(self.index, partition)).map(KeptMark::encode)
    }
}
