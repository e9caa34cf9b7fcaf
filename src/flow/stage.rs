//! One handler with its sinks, as a lane drives it: begin a message, go on with it, end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::UnitCx;
use crate::error::Result;

/// A handler and everything behind it, for one lane.
///
/// A stage is not a future: it keeps one pinned place for whatever it waits for, which every message reuses.
pub trait Stage<In>: Send {
    /// Begins one message. `Ready`: finished, all outputs were accepted by the sinks. `Pending`: [`resume`](Self::resume)
    /// goes on with it; the stage has taken `input`.
    fn start(self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>>;

    /// Goes on with the message that is in hand.
    fn resume(self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>>;

    /// The source has ended: whatever the stage still holds back comes out.
    fn finish(self: Pin<&mut Self>, _unit: &mut UnitCx, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Lets a stage act between two messages (a pipe with a timer of its own); `Pending` when there is nothing to do.
    fn idle(self: Pin<&mut Self>, _unit: &mut UnitCx, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Pending
    }

    /// Whether it takes no more messages (its pipe ended).
    fn has_ended(&self) -> bool {
        false
    }

    /// Whether it can come to take no more messages.
    fn may_end(&self) -> bool {
        false
    }

    /// No more messages come, also after an error: lanes of its own go on with those that they have.
    fn let_go(self: Pin<&mut Self>) {}

    /// Whether it only hands messages on to lanes of its own, which count them.
    fn hands_over(&self) -> bool {
        false
    }

    /// Whether the message in hand waits at the gate: no handler has it yet, and dropping it loses nothing.
    fn is_held(&self) -> bool {
        false
    }

    /// This message lies in the rows of tables: no handler gets it, and it is done with the unit in hand.
    ///
    /// # Errors
    /// What whoever watches the source has to say against it.
    fn known(self: Pin<&mut Self>, _input: In, _unit: &mut UnitCx) -> Result<()> {
        Ok(())
    }

    /// All messages before the one with this number are done.
    fn progress(self: Pin<&mut Self>, _done: u64) {}
}

/// A stage behind a pointer.
pub(crate) type BoxStage<In> = Pin<Box<dyn Stage<In>>>;

/// Makes the stage of one handler anew for each lane.
pub(crate) type StageFactory<In> = Arc<dyn Fn() -> BoxStage<In> + Send + Sync>;

impl<In, S: Stage<In> + ?Sized> Stage<In> for Pin<Box<S>> {
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        (*self).as_mut().start(input, unit, cx)
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        (*self).as_mut().resume(unit, cx)
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        (*self).as_mut().finish(unit, cx)
    }

    fn idle(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        (*self).as_mut().idle(unit, cx)
    }

    fn has_ended(&self) -> bool {
        (**self).has_ended()
    }

    fn may_end(&self) -> bool {
        (**self).may_end()
    }

    fn let_go(mut self: Pin<&mut Self>) {
        (*self).as_mut().let_go();
    }

    fn hands_over(&self) -> bool {
        (**self).hands_over()
    }

    fn is_held(&self) -> bool {
        (**self).is_held()
    }

    fn known(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx) -> Result<()> {
        (*self).as_mut().known(input, unit)
    }

    fn progress(mut self: Pin<&mut Self>, done: u64) {
        (*self).as_mut().progress(done);
    }
}

/// All handlers of a shared source: each gets every message, each finished before the next begins.
pub(crate) struct Stages<In> {
    list: Vec<BoxStage<In>>,
    /// The group of tables that each belongs to.
    groups: Arc<[Option<usize>]>,
    /// The message for the handlers that have not had it yet.
    input: Option<In>,
    at: usize,
    in_hand: bool,
}

// Messages are moved through, never pinned.
impl<In> Unpin for Stages<In> {}

impl<In> Stages<In> {
    pub(crate) fn new(factories: &[StageFactory<In>]) -> Self {
        Self::with_tables(factories, Arc::new([]))
    }

    /// The same for handlers that belong to `groups` of tables.
    pub(crate) fn with_tables(factories: &[StageFactory<In>], groups: Arc<[Option<usize>]>) -> Self {
        Self { list: factories.iter().map(|make| make()).collect(), groups, input: None, at: 0, in_hand: false }
    }

    /// Whether the stage at `at` gets the unit: one of the past is not given to those that are done with it.
    #[inline]
    fn gets(&self, at: usize, unit: &mut UnitCx) -> bool {
        !unit.has_past() || unit.enter(self.groups.get(at).copied().flatten())
    }
}

impl<In: Clone + Send> Stages<In> {
    fn poll_rest(&mut self, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let count = self.list.len();
        loop {
            let gets = self.in_hand || self.gets(self.at, unit);
            let Some(stage) = self.list.get_mut(self.at) else { break };
            let result = if self.in_hand {
                ready!(stage.as_mut().resume(unit, cx))
            } else if stage.has_ended() || !gets {
                Ok(())
            } else {
                let last = self.at + 1 == count;
                let Some(input) = (if last { self.input.take() } else { self.input.clone() }) else { break };
                self.in_hand = true;
                ready!(stage.as_mut().start(input, unit, cx))
            };
            self.in_hand = false;
            self.at += 1;
            result?;
        }
        self.input = None;
        Poll::Ready(Ok(()))
    }

    fn poll_each(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut BoxStage<In>, &mut Context<'_>) -> Poll<Result<()>>,
    ) -> Poll<Result<()>> {
        while let Some(stage) = self.list.get_mut(self.at) {
            ready!(poll(stage, cx))?;
            self.at += 1;
        }
        Poll::Ready(Ok(()))
    }
}

impl<In: Clone + Send> Stage<In> for Stages<In> {
    #[inline]
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.list.len() == 1 && !this.gets(0, unit) {
            this.at = 1;
            return Poll::Ready(Ok(()));
        }
        if let [only] = this.list.as_mut_slice() {
            // Counted as begun before it is: a `Pending` is resumed, an error ends the lane.
            this.at = 0;
            this.in_hand = true;
            let polled = only.as_mut().start(input, unit, cx);
            this.in_hand = polled.is_pending();
            this.at = usize::from(polled.is_ready());
            return polled;
        }
        self.at = 0;
        self.input = Some(input);
        self.poll_rest(unit, cx)
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_rest(unit, cx)
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.at >= self.list.len() && !self.in_hand {
            self.at = 0;
            self.in_hand = true; // from here on `at` counts the stages that have finished
        }
        self.poll_each(cx, |stage, cx| stage.as_mut().finish(unit, cx))
    }

    fn idle(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        for stage in &mut self.list {
            if let Poll::Ready(result) = stage.as_mut().idle(unit, cx) {
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    }

    fn may_end(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(Stage::may_end)
    }

    fn has_ended(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(Stage::has_ended)
    }
}
