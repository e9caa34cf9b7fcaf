//! The stage of a handler that is bound to a checkpoint: it gets what that one says, whoever else guards the source.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::Result;
use crate::flow::{Stage, UnitCx};

pub(super) struct Bound<St> {
    stage: Pin<Box<St>>,
    /// Where the unit has it while the stage is at work.
    checkpoint: Option<Arc<str>>,
}

impl<St> Bound<St> {
    pub(super) fn new(stage: St, checkpoint: &Arc<str>) -> Self {
        Self { stage: Box::pin(stage), checkpoint: Some(Arc::clone(checkpoint)) }
    }

    /// The others of the source see what they are bound to themselves.
    fn within<T>(&mut self, unit: &mut UnitCx, work: impl FnOnce(Pin<&mut St>, &mut UnitCx) -> T) -> T {
        std::mem::swap(unit.bound_mut(), &mut self.checkpoint);
        let result = work(self.stage.as_mut(), unit);
        std::mem::swap(unit.bound_mut(), &mut self.checkpoint);
        result
    }
}

impl<In: Send, St: Stage<In>> Stage<In> for Bound<St> {
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.within(unit, |stage, unit| stage.start(input, unit, cx))
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.within(unit, |stage, unit| stage.resume(unit, cx))
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.within(unit, |stage, unit| stage.finish(unit, cx))
    }

    fn idle(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.within(unit, |stage, unit| stage.idle(unit, cx))
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
        self.stage.is_held()
    }

    fn progress(mut self: Pin<&mut Self>, done: u64) {
        self.stage.as_mut().progress(done);
    }
}
