//! The lane of a plain stream: source, handler and sinks are one loop, which one poll runs for a whole batch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use futures::Stream;
use pin_project_lite::pin_project;

use super::Turn;
use crate::error::Result;
use crate::flow::{Env, Gate, LaneStats, Stage, UnitCx};

pin_project! {
    /// A stream and the stage that it feeds.
    pub(crate) struct StreamLane<S: Stream, St> {
        #[pin]
        source: S,
        #[pin]
        stage: St,
        unit: UnitCx,
        gate: Gate,
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

impl<S: Stream, St: Stage<S::Item>> StreamLane<S, St> {
    pub(crate) fn new(source: S, stage: St, name: Arc<str>, gate: Gate, stats: Arc<LaneStats>, env: &Env) -> Self {
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
        ready!(self.as_mut().poll_read(stopping, cx))?;
        ready!(self.as_mut().poll_finish(cx))?;
        self.poll_drain(cx)
    }

    fn poll_read(self: Pin<&mut Self>, stopping: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut this = self.project();
        if *this.phase != Phase::Reading {
            return Poll::Ready(Ok(()));
        }
        let mut handled = 0;
        this.turn.begin();
        let polled = loop {
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
            let item = match this.source.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => item,
                Poll::Ready(None) => {
                    *this.phase = Phase::Finishing;
                    break Poll::Ready(Ok(()));
                }
                Poll::Pending => match this.stage.as_mut().idle(this.unit, cx) {
                    Poll::Ready(Ok(())) => {
                        this.unit.tracker().end_unit();
                        continue;
                    }
                    Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                    // Woken also by a late failure.
                    Poll::Pending => {
                        if this.unit.tracker().watch(cx, true) {
                            break Poll::Pending;
                        }
                        continue;
                    }
                },
            };
            match this.stage.as_mut().start(item, this.unit, cx) {
                Poll::Ready(Ok(())) => this.unit.tracker().end_unit(),
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => {
                    *this.in_hand = true;
                    break Poll::Pending;
                }
            }
            handled += 1;
            if this.turn.is_over() {
                cx.waker().wake_by_ref();
                break Poll::Pending;
            }
        };
        this.stats.handled.fetch_add(handled, Ordering::Relaxed);
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

    fn poll_drain(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.project();
        loop {
            if let Some(error) = this.unit.tracker().take_failure() {
                return Poll::Ready(Err(error));
            }
            if this.unit.tracker().is_idle() {
                return Poll::Ready(Ok(()));
            }
            if this.unit.tracker().watch(cx, true) {
                return Poll::Pending;
            }
        }
    }
}
