//! Pipes: functions from a stream to a stream, between a source and its handler.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures::Stream;
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use crate::error::{Error, Kind, Result};
use crate::flow::fold::HandlerTables;
use crate::flow::{Stage, UnitCx};
use crate::util::panic_message;

/// What a pipe reads: the messages of the handler's sources, merged.
///
/// What a pipe keeps in memory does not survive a crash: a message is done when the pipe has asked for the next one
/// and everything it emitted before that is done. State that must survive belongs in a store.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::pipe;
///
/// fn odd(numbers: Piped<u32>) -> impl Stream<Item = u32> + Send {
///     numbers.filter(|n| std::future::ready(n % 2 == 1))
/// }
///
/// # slipstream::testing::block_on(async {
/// App::new().handle(pipe(stream::iter(0..5), odd), |n: u32| n, |n: u32| assert!(n % 2 == 1)).run().await
/// # }).unwrap();
/// ```
pub struct Piped<T>(Arc<Mutex<Slot<T>>>);

struct Slot<T> {
    item: Option<T>,
    /// The pipe looked for a message and found none.
    asked: bool,
    ended: bool,
    waker: Option<Waker>,
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Stream for Piped<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0);
        if let Some(item) = slot.item.take() {
            return Poll::Ready(Some(item));
        }
        if slot.ended {
            return Poll::Ready(None);
        }
        slot.asked = true;
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

pin_project! {
    /// A pipe with the handler behind it.
    pub(crate) struct PipeStage<In, P, St> {
        slot: Arc<Mutex<Slot<In>>>,
        #[pin]
        pipe: P,
        #[pin]
        stage: St,
        handler: Arc<str>,
        in_hand: bool,
        ended: bool,
        marker: PhantomData<fn(In)>,
    }
}

impl<In, P, St> PipeStage<In, P, St> {
    /// Calls the pipe once, for a stage.
    pub(crate) fn new(pipe: impl FnOnce(Piped<In>) -> P, stage: St, handler: Arc<str>) -> Self {
        let slot = Arc::new(Mutex::new(Slot { item: None, asked: false, ended: false, waker: None }));
        let pipe = pipe(Piped(Arc::clone(&slot)));
        Self { slot, pipe, stage, handler, in_hand: false, ended: false, marker: PhantomData }
    }
}

impl<In, P: Stream, St: Stage<P::Item>> PipeStage<In, P, St> {
    /// Lets the pipe emit what it will; ready when it has ended, or has taken its message and asked for another.
    /// The flag says whether it emitted anything.
    fn poll_pipe(self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> (bool, Poll<Result<()>>) {
        let mut this = self.project();
        let mut emitted = false;
        loop {
            if *this.in_hand {
                match this.stage.as_mut().resume(unit, cx) {
                    Poll::Ready(Ok(())) => *this.in_hand = false,
                    other => return (emitted, other),
                }
            }
            if *this.ended {
                return (emitted, Poll::Ready(Ok(())));
            }
            let polled = catch_unwind(AssertUnwindSafe(|| this.pipe.as_mut().poll_next(cx)));
            let item = match polled {
                Ok(Poll::Ready(Some(item))) => item,
                Ok(Poll::Ready(None)) => {
                    *this.ended = true;
                    lock(this.slot).item = None;
                    continue;
                }
                Ok(Poll::Pending) => {
                    let slot = lock(this.slot);
                    let idle = slot.item.is_none() && slot.asked;
                    return (emitted, if idle { Poll::Ready(Ok(())) } else { Poll::Pending });
                }
                Err(panic) => {
                    let message = format!("its pipe panicked: {}", panic_message(&*panic));
                    let place = format!("handler {} on {}", this.handler, unit.place());
                    return (emitted, Poll::Ready(Err(Error::new(Kind::Panic, message).at(place))));
                }
            };
            emitted = true;
            match this.stage.as_mut().start(item, unit, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return (emitted, Poll::Ready(Err(error))),
                Poll::Pending => {
                    *this.in_hand = true;
                    return (emitted, Poll::Pending);
                }
            }
        }
    }

    fn wake(slot: &mut Slot<In>) {
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl<In: Send, P: Stream + Send, St: Stage<P::Item>> Stage<In> for PipeStage<In, P, St> {
    fn start(self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.ended {
            unit.refuse();
            return Poll::Ready(Ok(()));
        }
        {
            let mut slot = lock(&self.slot);
            slot.item = Some(input);
            slot.asked = false;
            Self::wake(&mut slot);
        }
        self.poll_pipe(unit, cx).1
    }

    fn resume(self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_pipe(unit, cx).1
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        {
            let mut slot = lock(&self.slot);
            slot.ended = true;
            Self::wake(&mut slot);
        }
        ready!(self.as_mut().poll_pipe(unit, cx).1)?;
        // A pipe that ignores the end of its input has nothing left to say.
        Poll::Ready(Ok(()))
    }

    fn idle(self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.ended && !self.in_hand {
            return Poll::Pending;
        }
        match self.poll_pipe(unit, cx) {
            (false, Poll::Ready(Ok(()))) => Poll::Pending,
            (_, polled) => polled,
        }
    }

    fn may_end(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.ended && !self.in_hand
    }
}

/// A pipe is one lane.
pub(crate) fn refuse_lanes(label: &str, concurrency: usize, handlers: &[HandlerTables]) -> Result<()> {
    if handlers.iter().any(|handler| !handler.tables.is_empty()) {
        let message = "`pipe` with `table` is refused: what a pipe holds back is in no table";
        return Err(Error::new(Kind::Build, message).at(label));
    }
    if concurrency > 1 {
        let message = "`pipe` with `concurrency` is refused: a pipe is one lane";
        return Err(Error::new(Kind::Build, message).at(label));
    }
    Ok(())
}

/// One stage used by several lanes in turn, so that a pipe is called once per handler whatever its sources are.
pub(crate) struct SharedStage<St> {
    stage: Arc<Mutex<Pin<Box<St>>>>,
    turn: Arc<Semaphore>,
    /// Sources that have not ended; the pipe ends with the last.
    sources: Arc<AtomicUsize>,
}

impl<St> Clone for SharedStage<St> {
    fn clone(&self) -> Self {
        Self { stage: Arc::clone(&self.stage), turn: Arc::clone(&self.turn), sources: Arc::clone(&self.sources) }
    }
}

impl<St> SharedStage<St> {
    pub(crate) fn new(stage: St, sources: usize) -> Self {
        let (turn, sources) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicUsize::new(sources)));
        Self { stage: Arc::new(Mutex::new(Box::pin(stage))), turn, sources }
    }

    /// The stage as one lane sees it.
    pub(crate) fn lane<In>(&self) -> SharedLane<In, St> {
        SharedLane {
            stage: Arc::clone(&self.stage),
            turn: PollSemaphore::new(Arc::clone(&self.turn)),
            sources: Arc::clone(&self.sources),
            permit: None,
            waiting: None,
            finishing: None,
        }
    }
}

/// The stage of one lane: the shared one, and the message that waits for its turn.
pub(crate) struct SharedLane<In, St> {
    stage: Arc<Mutex<Pin<Box<St>>>>,
    turn: PollSemaphore,
    sources: Arc<AtomicUsize>,
    permit: Option<OwnedSemaphorePermit>,
    waiting: Option<In>,
    /// Set when this lane's source has ended: whether it was the last one.
    finishing: Option<bool>,
}

// The message is moved through, never pinned.
impl<In, St> Unpin for SharedLane<In, St> {}

impl<In, St> SharedLane<In, St> {
    fn with<R>(&self, f: impl FnOnce(Pin<&mut St>) -> R) -> R {
        f(self.stage.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }
}

impl<In: Send, St: Stage<In>> SharedLane<In, St> {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.permit.is_none() {
            self.permit = ready!(self.turn.poll_acquire(cx));
        }
        Poll::Ready(())
    }
}

impl<In: Send, St: Stage<In>> Stage<In> for SharedLane<In, St> {
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.waiting = Some(input);
        self.resume(unit, cx)
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_turn(cx));
        let polled = match self.waiting.take() {
            Some(input) => self.with(|stage| stage.start(input, unit, cx)),
            None => self.with(|stage| stage.resume(unit, cx)),
        };
        if polled.is_ready() {
            self.permit = None;
        }
        polled
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let sources = Arc::clone(&self.sources);
        if !*self.finishing.get_or_insert_with(|| sources.fetch_sub(1, Ordering::AcqRel) == 1) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_turn(cx));
        let polled = self.with(|stage| stage.finish(unit, cx));
        if polled.is_ready() {
            self.permit = None;
        }
        polled
    }

    fn idle(self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        // Only tries: a lane that waits in line here could be given its turn while it is paused, and keep it.
        let Ok(_permit) = self.turn.clone_inner().try_acquire_owned() else { return Poll::Pending };
        self.with(|stage| stage.idle(unit, cx))
    }

    fn may_end(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.with(|stage| stage.has_ended())
    }
}
