//! Taps: what watches the messages of a source before its handlers get them, and may keep one waiting at the gate. A
//! source without a tap knows nothing of them.

use std::any::Any;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;

use super::{Env, Gate, Stage, UnitCx};
use crate::error::Result;

/// What a tap tells a handler about the message in its hands.
pub(crate) type View = Arc<dyn Any + Send + Sync>;

/// Watches a source; makes a part of itself for each lane.
pub(crate) trait Tap<In>: Send + Sync {
    /// For the lane of a partition; 0 where the source has none.
    fn lane(&self, partition: i32) -> Box<dyn TapLane<In>>;
    /// As whoever reads the source sees it.
    fn watch(&self) -> Arc<dyn Watch>;
}

/// The part of a tap in one lane.
pub(crate) trait TapLane<In>: Send {
    /// Ready when the handlers may have the message, with what to tell them; otherwise the task is woken to ask again
    /// with the same message. `seq` numbers the lane's messages.
    fn poll_admit(&mut self, item: &In, seq: u64, offset: i64, cx: &mut Context<'_>) -> Poll<Result<Option<View>>>;

    /// How often what this lane reads was sent back before.
    fn outage(&self) -> u64 {
        0
    }

    /// The message that was asked for last is given up: nobody will handle it here.
    fn dropped(&mut self) {}

    /// All messages before this one are done.
    fn done(&mut self, _seq: u64) {}

    /// The source has ended by itself, and all its messages are done.
    fn ended(&mut self) {}
}

/// The untyped part of a tap.
pub(crate) trait Watch: Send + Sync {
    /// For errors: who watches.
    fn place(&self) -> String;
    /// Tells its notes apart from those of others: letters, digits, `.`, `_`, `-` and `/`.
    fn key(&self) -> &str;
    /// Whether it has to see all partitions.
    fn needs_whole(&self) -> bool;
    /// Whether messages may reach handlers before what they depend on is there.
    fn handles_early(&self) -> bool;
    /// The source is opened: its counters, and how it is sent back, where it can be.
    fn opened(&self, held: &Gate, rewind: Option<Arc<dyn Rewind>>);
    /// These partitions will be read from now on, each from where its note was written.
    fn assigned(&self, partitions: &[(i32, Option<String>)]);
    /// Where to begin instead, if that is earlier.
    fn begin(&self, partition: i32) -> Option<i64>;
    /// The partition is read from another place from now on: by a rewind for this outage, or by someone's seek.
    fn moved(&self, partition: i32, outage: Option<u64>);
    /// Whether its note is read before the position, of which it must not be ahead. Otherwise it is read after it, and must
    /// not be behind.
    fn notes_before(&self) -> bool;
    /// What to keep with the position `next`.
    fn note(&self, partition: i32, next: i64) -> Option<String>;
}

/// Sends partitions of a source back.
pub(crate) trait Rewind: Send + Sync {
    /// Stops dispatch, waits for what is in flight however long that takes, seeks, and commits the places as those of
    /// this outage. Never forward; a partition that is not ours is left alone.
    fn rewind(&self, targets: Vec<(i32, i64)>, outage: u64) -> BoxFuture<'static, Result<()>>;
}

// ---- notes --------------------------------------------------------------------------------------------------------

/// In front of a note: the version of its format. What follows are `key=payload` entries between spaces.
const NOTE_VERSION: &str = "slipstream1";

/// What all watchers of a source keep with a position; `None` when they keep nothing.
pub(crate) fn note_of(watches: &[Arc<dyn Watch>], partition: i32, next: i64) -> Option<Arc<str>> {
    position_and_note(watches, partition, || next).1
}

/// The position with what all watchers keep with it, while both move on.
pub(crate) fn position_and_note(
    watches: &[Arc<dyn Watch>],
    partition: i32,
    position: impl FnOnce() -> i64,
) -> (i64, Option<Arc<str>>) {
    let (mut before, mut after) = (String::new(), String::new());
    let write = |watch: &Arc<dyn Watch>, next: i64, text: &mut String| {
        if let Some(payload) = watch.note(partition, next) {
            text.extend([" ", watch.key(), "=", &payload]);
        }
    };
    watches.iter().filter(|watch| watch.notes_before()).for_each(|watch| write(watch, 0, &mut before));
    let next = position();
    watches.iter().filter(|watch| !watch.notes_before()).for_each(|watch| write(watch, next, &mut after));
    let is_empty = before.is_empty() && after.is_empty();
    (next, (!is_empty).then(|| Arc::from(format!("{NOTE_VERSION}{before}{after}"))))
}

/// Tells all watchers which partitions come, with the notes that they kept.
pub(crate) fn assigned(watches: &[Arc<dyn Watch>], partitions: &[(i32, Option<Arc<str>>)]) {
    for watch in watches {
        let own = |note: &Option<Arc<str>>| note.as_deref().and_then(|note| entry(note, watch.key()));
        let own: Vec<_> = partitions.iter().map(|(partition, note)| (*partition, own(note))).collect();
        watch.assigned(&own);
    }
}

fn entry(note: &str, key: &str) -> Option<String> {
    let mut words = note.split(' ');
    if words.next() != Some(NOTE_VERSION) {
        return None;
    }
    let found = words.find_map(|word| word.split_once('=').filter(|(own, _)| *own == key));
    found.map(|(_, payload)| payload.to_owned())
}

// ---- the stage ----------------------------------------------------------------------------------------------------

/// A stage behind taps.
pub(crate) struct Tapped<In, St> {
    taps: Vec<Box<dyn TapLane<In>>>,
    stage: Pin<Box<St>>,
    /// The message at the gate.
    waiting: Option<In>,
    /// The taps that have let it pass.
    at: usize,
    /// Set when the source has ended: done up to here, its messages are.
    until: Option<u64>,
    /// The highest of the taps'; a lane that is sent back is another one.
    outage: u64,
    env: Env,
}

// Messages are moved through, the stage is boxed.
impl<In, St> Unpin for Tapped<In, St> {}

impl<In, St> Tapped<In, St> {
    pub(crate) fn new(taps: &[Arc<dyn Tap<In>>], partition: i32, stage: St, env: &Env) -> Self {
        let taps: Vec<_> = taps.iter().map(|tap| tap.lane(partition)).collect();
        let outage = taps.iter().map(|tap| tap.outage()).max().unwrap_or(0);
        Self { taps, stage: Box::pin(stage), waiting: None, at: 0, until: None, outage, env: env.clone() }
    }
}

impl<In: Send, St: Stage<In>> Tapped<In, St> {
    fn poll_gate(&mut self, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let seq = unit.tracker().next();
        let Some(item) = &self.waiting else { return self.stage.as_mut().resume(unit, cx) };
        while let Some(tap) = self.taps.get_mut(self.at) {
            match ready!(tap.poll_admit(item, seq, unit.offset(), cx)) {
                // Of several taps the first that has something to say.
                Ok(Some(view)) if unit.view().is_none() => unit.set_view(Some(view)),
                Ok(_) => {}
                Err(error) => {
                    self.waiting = None;
                    return Poll::Ready(Err(error));
                }
            }
            self.at += 1;
        }
        let Some(item) = self.waiting.take() else { return Poll::Ready(Ok(())) };
        self.stage.as_mut().start(item, unit, cx)
    }
}

impl<In: Send, St: Stage<In>> Stage<In> for Tapped<In, St> {
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.waiting = Some(input);
        self.at = 0;
        unit.set_view(None);
        unit.set_outage(self.outage);
        self.poll_gate(unit, cx)
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_gate(unit, cx)
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.waiting.take().is_some() {
            this.taps.iter_mut().for_each(|tap| tap.dropped());
        }
        ready!(this.stage.as_mut().finish(unit, cx))?;
        if !this.env.stop().is_cancelled() {
            this.until = Some(unit.tracker().next());
        }
        Poll::Ready(Ok(()))
    }

    fn idle(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.stage.as_mut().idle(unit, cx)
    }

    fn has_ended(&self) -> bool {
        self.stage.has_ended()
    }

    fn may_end(&self) -> bool {
        self.stage.may_end()
    }

    fn let_go(mut self: Pin<&mut Self>) {
        self.stage.as_mut().let_go();
    }

    fn hands_over(&self) -> bool {
        self.stage.hands_over()
    }

    fn is_held(&self) -> bool {
        self.waiting.is_some()
    }

    fn progress(mut self: Pin<&mut Self>, done: u64) {
        let this = &mut *self;
        this.taps.iter_mut().for_each(|tap| tap.done(done));
        if this.until.is_some_and(|until| done >= until) {
            this.until = None;
            this.taps.iter_mut().for_each(|tap| tap.ended());
        }
    }
}

/// Either a stage or one behind taps, for lanes whose type must not depend on it.
pub(crate) fn tapped<In: Send + 'static, St: Stage<In> + 'static>(
    taps: &[Arc<dyn Tap<In>>],
    partition: i32,
    stage: St,
    env: &Env,
) -> Pin<Box<dyn Stage<In>>> {
    Box::pin(Tapped::new(taps, partition, stage, env))
}

/// Marks of messages that are not done, oldest first; only those that are higher than all before them are kept.
pub(crate) struct Rising<M>(VecDeque<(u64, M)>);

impl<M> Default for Rising<M> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<M: Copy> Rising<M> {
    /// A message with this mark begins.
    pub(crate) fn push(&mut self, seq: u64, mark: M, is_higher: impl Fn(M, M) -> bool) {
        if self.0.back().is_none_or(|(_, last)| is_higher(mark, *last)) {
            self.0.push_back((seq, mark));
        }
    }

    /// The highest mark of the messages before `seq`, once.
    pub(crate) fn take(&mut self, seq: u64) -> Option<M> {
        let mut last = None;
        while self.0.front().is_some_and(|(own, _)| *own < seq) {
            last = self.0.pop_front().map(|(_, mark)| mark);
        }
        last
    }
}
