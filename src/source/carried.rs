//! The lane of messages that another lane tracks: they come through a queue with a guard each.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use super::Turn;
use crate::error::Result;
use crate::flow::tap::View;
use crate::flow::{Env, Gate, Guard, LaneStats, Queue, Stage, UnitCx};

/// A message on its way between two lanes, with the guard that holds its unit open.
pub(crate) struct Carried<T> {
    pub item: T,
    pub guard: Guard,
    pub partition: i32,
    pub offset: i64,
    /// How often its partition was sent back before.
    pub outage: u64,
    /// What taps say of it.
    pub views: Vec<View>,
}

/// A queue and the stage that it feeds.
pub(crate) struct CarriedLane<T, St> {
    queue: Arc<Queue<Carried<T>>>,
    batch: VecDeque<Carried<T>>,
    stage: Pin<Box<St>>,
    unit: UnitCx,
    /// With a tap on it: the units of this lane that are not done, each with the guard of the message that it is.
    open: Option<VecDeque<(u64, Guard)>>,
    gate: Gate,
    stats: Arc<LaneStats>,
    /// Messages whose part here is over.
    done: u64,
    in_hand: bool,
    finished: bool,
    gives_up: bool,
    turn: Turn,
}

/// Units of the lane's own: what a pipe gives between two messages.
const OWN_UNITS: u32 = 64;

impl<T, St> CarriedLane<T, St> {
    pub(crate) fn new(
        queue: Arc<Queue<Carried<T>>>,
        stage: St,
        source: Arc<str>,
        gate: Gate,
        stats: Arc<LaneStats>,
    ) -> Self {
        Self {
            queue,
            batch: VecDeque::new(),
            stage: Box::pin(stage),
            unit: UnitCx::new(source, OWN_UNITS),
            open: None,
            gate,
            stats,
            done: 0,
            in_hand: false,
            finished: false,
            gives_up: false,
            turn: Turn::new(),
        }
    }

    /// For a tap, which must know when messages are done: each is a unit of this lane too, and the unit that brought it
    /// goes on when this one has ended with all its outputs.
    pub(crate) fn watched(mut self, max_in_flight: u32) -> Self {
        self.unit = UnitCx::new(Arc::clone(self.unit.source()), max_in_flight);
        self.open = Some(VecDeque::new());
        self
    }
}

impl<T: Send, St: Stage<T>> CarriedLane<T, St> {
    /// Runs until the queue is closed and empty, or the app gives up what is in flight.
    pub(crate) async fn run(mut self, env: &Env) -> Result<()> {
        let mut stop = std::pin::pin!(env.stop().cancelled());
        let mut stopping = false;
        let running = std::future::poll_fn(|cx| {
            stopping = stopping || stop.as_mut().poll(cx).is_ready();
            self.poll_run(stopping, cx)
        });
        let result = tokio::select! {
            biased;
            result = running => result,
            () = env.kill().cancelled() => Ok(()),
        };
        if let Err(error) = result {
            // Said before the guards are dropped, so that the cause comes before what it causes.
            let told = error.copy();
            env.fail(error);
            let oldest = self.open.as_mut().and_then(VecDeque::pop_front).map(|(_, guard)| guard);
            if let Some(guard) = self.unit.put_down().or(oldest) {
                guard.fail(told);
            }
            self.stage.as_mut().let_go();
        }
        self.queue.discard();
        self.stats.set_ended();
        Ok(())
    }

    /// Tells how far it is.
    fn publish(&mut self) {
        let tracker = self.unit.tracker();
        let own = tracker.scan();
        let own_open = tracker.next() - own;
        // Before the guards: what is kept with a position tells of all that is done before it.
        self.stage.as_mut().progress(own);
        if let Some(open) = &mut self.open {
            while let Some((_, guard)) = open.pop_front_if(|(seq, _)| *seq < own) {
                guard.ok();
            }
        }
        // While it runs, what is queued is taken at once.
        let queued = if self.gate.is_open() { 0 } else { self.queue.len() };
        let waiting = (self.batch.len() + queued) as u64;
        let is_held = self.stage.is_held();
        let in_flight = waiting + u64::from(self.in_hand && !is_held) + own_open;
        let done = if self.open.is_some() { own } else { self.done + own };
        self.stats.set_progress(done, in_flight, in_flight > 0 || is_held);
    }

    fn poll_run(&mut self, stopping: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.stats.register(cx);
        let mut handled = 0;
        self.turn.begin();
        let polled = self.poll_messages(&mut handled, cx);
        if !self.stage.hands_over() {
            self.stats.handled.fetch_add(handled, Ordering::Relaxed);
        }
        self.done += handled;
        self.publish();
        if polled.is_pending() && self.open.is_some() {
            self.watch(cx);
        }
        if self.gives_up || (stopping && self.stage.is_held()) {
            ready!(self.poll_give_up(cx));
        } else {
            ready!(polled)?;
        }
        if !self.finished {
            ready!(self.stage.as_mut().finish(&mut self.unit, cx))?;
            self.unit.tracker().end_unit();
            self.finished = true;
            self.publish();
        }
        ready!(self.unit.tracker().poll_done(cx))?;
        self.publish();
        Poll::Ready(Ok(()))
    }

    /// Has the task woken when there is progress to tell. A failure is seen when the message in hand is through.
    fn watch(&mut self, cx: &Context<'_>) {
        let tracker = self.unit.tracker();
        let waits = tracker.watch(cx, false) || (self.in_hand && tracker.has_failed());
        if !waits {
            cx.waker().wake_by_ref();
        }
    }

    /// The run ends while a message waits at the gate: it and those behind it are given up. They were not done, and come
    /// again if their source can bring them.
    fn poll_give_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.gives_up = true;
        if std::mem::take(&mut self.in_hand) {
            let own = self.open.as_mut().and_then(VecDeque::pop_back);
            drop((self.unit.put_down(), own));
        }
        loop {
            self.batch.clear();
            if !ready!(self.queue.poll_take(&mut self.batch, cx)) {
                return Poll::Ready(());
            }
        }
    }

    fn poll_messages(&mut self, handled: &mut u64, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.finished && !self.gives_up {
            if self.in_hand {
                ready!(self.stage.as_mut().resume(&mut self.unit, cx))?;
                self.put_down(handled);
            }
            if let Some(error) = self.unit.tracker().take_failure() {
                return Poll::Ready(Err(error));
            }
            ready!(self.gate.poll_open(cx));
            if self.open.is_some() && !self.unit.tracker().has_room() {
                return Poll::Pending; // for what the caller watches
            }
            let Some(next) = self.batch.pop_front() else {
                match self.queue.poll_take(&mut self.batch, cx) {
                    Poll::Ready(true) => {
                        self.skip_if_ended();
                        continue;
                    }
                    Poll::Ready(false) => return Poll::Ready(Ok(())),
                    Poll::Pending => ready!(self.stage.as_mut().idle(&mut self.unit, cx))?,
                }
                self.unit.tracker().end_unit();
                continue;
            };
            self.unit.set_origin(next.partition, next.offset);
            self.unit.set_outage(next.outage);
            *self.unit.views() = next.views;
            match &mut self.open {
                Some(open) => open.push_back((self.unit.tracker().next(), next.guard)),
                None => self.unit.carry(next.guard),
            }
            self.in_hand = true;
            ready!(self.stage.as_mut().start(next.item, &mut self.unit, cx))?;
            self.put_down(handled);
            if self.turn.is_over(1) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A pipe that has ended takes nothing: what comes is done. One that ends within a batch lets the rest pass.
    fn skip_if_ended(&mut self) {
        if self.stage.has_ended() {
            self.batch.drain(..).for_each(|carried| carried.guard.ok());
        }
    }

    fn put_down(&mut self, handled: &mut u64) {
        self.in_hand = false;
        *handled += 1;
        match self.unit.put_down() {
            Some(guard) => guard.ok(),
            None => self.unit.tracker().end_unit(),
        }
    }
}
