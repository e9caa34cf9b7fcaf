//! The lane of a plain stream: source, handler and sinks are one loop, which one poll runs for a whole batch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use futures::Stream;
use pin_project_lite::pin_project;

use super::Turn;
use crate::error::{Error, Result};
use crate::flow::{Env, LaneStats, Opening, Stage, UnitCx};

pin_project! {
    /// A stream and the stage that it feeds.
    pub(crate) struct StreamLane<S: Stream, St, G> {
        #[pin]
        source: S,
        #[pin]
        stage: St,
        unit: UnitCx,
        gate: G,
        stats: Arc<LaneStats>,
        in_hand: bool,
        phase: Phase,
        turn: Turn,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Finishing,
    Draining,
}

/// Why a batch ended.
enum Step {
    /// As many as were asked for, or the gate was closed.
    Full,
    /// The last message is not finished.
    InHand,
    Failed(Error),
    /// The source has nothing now.
    Dry,
    Ended,
}

/// The hot loop: up to `most` messages, for which there is room; says how many were finished. A function of its own, so
/// that the compiler knows that nobody else reaches the source and the unit, and may keep parts of them in registers.
#[inline(never)]
fn run_batch<S: Stream, St: Stage<S::Item>>(
    most: u64,
    gate: &impl Opening,
    mut source: Pin<&mut S>,
    mut stage: Pin<&mut St>,
    unit: &mut UnitCx,
    cx: &mut Context<'_>,
) -> (u64, Step) {
    let mut finished = 0;
    while finished < most && gate.is_open() {
        let item = match source.as_mut().poll_next(cx) {
            Poll::Ready(Some(item)) => item,
            Poll::Ready(None) => return (finished, Step::Ended),
            Poll::Pending => return (finished, Step::Dry),
        };
        match stage.as_mut().start(item, unit, cx) {
            Poll::Ready(Ok(())) => unit.tracker().end_unit(),
            Poll::Ready(Err(error)) => return (finished, Step::Failed(error)),
            Poll::Pending => return (finished, Step::InHand),
        }
        finished += 1;
    }
    (finished, Step::Full)
}

impl<S: Stream, St: Stage<S::Item>, G: Opening> StreamLane<S, St, G> {
    pub(crate) fn new(source: S, stage: St, name: Arc<str>, gate: G, stats: Arc<LaneStats>, env: &Env) -> Self {
        Self {
            source,
            stage,
            unit: UnitCx::new(name, env.parts().max_in_flight),
            gate,
            stats,
            in_hand: false,
            phase: Phase::Reading,
            turn: Turn::new(),
        }
    }

    /// Runs until the stream ends or the app stops, and everything is acknowledged.
    pub(crate) fn poll_run(mut self: Pin<&mut Self>, stopping: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.stats.register(cx);
        let polled = self.as_mut().poll_all(stopping, cx);
        self.publish();
        polled
    }

    fn poll_all(mut self: Pin<&mut Self>, stopping: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.as_mut().poll_read(stopping, cx))?;
        ready!(self.as_mut().poll_finish(cx))?;
        self.project().unit.tracker().poll_done(cx)
    }

    /// Tells how far everything is done.
    fn publish(self: Pin<&mut Self>) {
        let this = self.project();
        let tracker = this.unit.tracker();
        let done = tracker.scan();
        let in_flight = tracker.next() - done + u64::from(*this.in_hand && !this.stage.is_held());
        this.stats.set_progress(done, in_flight, in_flight > 0);
        this.stage.progress(done);
    }

    pub(crate) fn unit(self: Pin<&mut Self>) -> &mut UnitCx {
        self.project().unit
    }

    fn poll_read(self: Pin<&mut Self>, stopping: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut this = self.project();
        if *this.phase != Phase::Reading {
            return Poll::Ready(Ok(()));
        }
        let mut handled = 0;
        this.turn.begin();
        let polled = loop {
            if *this.in_hand && stopping && this.stage.is_held() {
                *this.in_hand = false;
            }
            if *this.in_hand {
                match this.stage.as_mut().resume(this.unit, cx) {
                    Poll::Ready(Ok(())) => this.unit.tracker().end_unit(),
                    other => break other,
                }
                *this.in_hand = false;
                handled += 1;
            }
            if let Some(error) = this.unit.tracker().take_failure() {
                break Poll::Ready(Err(error));
            }
            if stopping || this.stage.has_ended() {
                *this.phase = Phase::Finishing;
                break Poll::Ready(Ok(()));
            }
            if !this.unit.tracker().has_room() {
                if this.unit.tracker().watch(cx, false) {
                    break Poll::Pending;
                }
                continue;
            }
            if this.gate.poll_open(cx).is_pending() {
                break Poll::Pending;
            }
            let most = this.unit.tracker().room().min(u64::from(this.turn.left()));
            let (begun, step) = run_batch(most, this.gate, this.source.as_mut(), this.stage.as_mut(), this.unit, cx);
            handled += begun;
            match step {
                Step::Full => {}
                Step::InHand => {
                    *this.in_hand = true;
                    break Poll::Pending;
                }
                Step::Failed(error) => break Poll::Ready(Err(error)),
                Step::Ended => {
                    *this.phase = Phase::Finishing;
                    break Poll::Ready(Ok(()));
                }
                Step::Dry => match this.stage.as_mut().idle(this.unit, cx) {
                    Poll::Ready(Ok(())) => this.unit.tracker().end_unit(),
                    Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                    // Woken also by a late failure.
                    Poll::Pending if this.unit.tracker().watch(cx, true) => break Poll::Pending,
                    Poll::Pending => {}
                },
            }
            if this.turn.is_over(u32::try_from(begun).unwrap_or(u32::MAX)) {
                cx.waker().wake_by_ref();
                break Poll::Pending;
            }
        };
        if !this.stage.hands_over() {
            this.stats.handled.fetch_add(handled, Ordering::Relaxed);
        }
        polled
    }

    fn poll_finish(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut this = self.project();
        if *this.phase == Phase::Finishing {
            ready!(this.stage.as_mut().finish(this.unit, cx))?;
            this.unit.tracker().end_unit();
            *this.phase = Phase::Draining;
        }
        Poll::Ready(Ok(()))
    }
}
