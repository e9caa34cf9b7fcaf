//! The open channel of a proxy, in one run.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use super::Overflow;
use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::{Guard, Push, Queue, Tracker, UnitCx};
use crate::sink::Sink;
use crate::source::Carried;

/// One queue, read by one lane that feeds all handlers.
pub(crate) struct Channel<T> {
    name: Arc<str>,
    queue: Arc<Queue<Carried<T>>>,
    overflow: Overflow,
    writers: AtomicUsize,
    dropped: AtomicU64,
}

impl<T> Channel<T> {
    pub(crate) fn new(name: Arc<str>, capacity: usize, overflow: Overflow) -> Self {
        let queue = Arc::new(Queue::new(capacity, usize::MAX));
        Self { name, queue, overflow, writers: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }

    pub(crate) fn queue(&self) -> &Arc<Queue<Carried<T>>> {
        &self.queue
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Offers a message; `None` when it was taken.
    fn offer(&self, carried: Carried<T>) -> Result<Option<Carried<T>>> {
        let push = match self.overflow {
            Overflow::Wait | Overflow::Error => self.queue.push(carried, 0),
            Overflow::DropOldest => {
                let (push, dropped) = self.queue.push_dropping_oldest(carried, 0);
                self.dropped.fetch_add(dropped.len() as u64, Ordering::Relaxed);
                dropped.into_iter().for_each(|carried| carried.guard.ok());
                push
            }
        };
        match push {
            Push::Taken => Ok(None),
            Push::Closed(_) => Err(Error::new(Kind::Closed, "its reader has ended").at(format!("proxy {}", self.name))),
            Push::Full(carried) if self.overflow == Overflow::Error => {
                // Refused, not lost: the writer's unit fails with the error below.
                carried.guard.ok();
                Err(Error::new(Kind::Sink, "full").at(format!("proxy {}", self.name)).retryable())
            }
            Push::Full(carried) => Ok(Some(carried)),
        }
    }

    fn poll_offer(&self, waiting: &mut Option<Carried<T>>, cx: &Context<'_>) -> Poll<Result<()>> {
        while let Some(carried) = waiting.take() {
            *waiting = self.offer(carried)?;
            if waiting.is_some() {
                ready!(self.queue.poll_room(0, cx));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A message from outside: a unit of its own, which the tracker that is returned knows.
    pub(crate) async fn send_external(&self, message: T) -> Result<Tracker> {
        let mut tracker = Tracker::new(1);
        let guard = tracker.guard();
        tracker.end_unit();
        let mut waiting = Some(Carried { item: message, guard, partition: 0, offset: -1 });
        std::future::poll_fn(|cx| self.poll_offer(&mut waiting, cx)).await?;
        Ok(tracker)
    }
}

/// Ready when the unit is done or failed.
pub(crate) fn poll_done(tracker: &mut Tracker, cx: &Context<'_>) -> Poll<Result<()>> {
    loop {
        if let Some(error) = tracker.take_failure() {
            return Poll::Ready(Err(error));
        }
        if tracker.is_idle() {
            return Poll::Ready(Ok(()));
        }
        if tracker.watch(cx, true) {
            return Poll::Pending;
        }
    }
}

/// Keeps a channel open; the last one to go closes it.
pub(crate) struct Writer<T>(Arc<Channel<T>>);

impl<T> Writer<T> {
    pub(crate) fn new(channel: &Arc<Channel<T>>) -> Self {
        channel.writers.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(channel))
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        if self.0.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.queue.close();
        }
    }
}

/// A proxy as a sink of one lane.
pub struct ProxySink<T> {
    writer: Writer<T>,
    waiting: Option<Carried<T>>,
}

// The message is moved through, never pinned.
impl<T> Unpin for ProxySink<T> {}

impl<T> ProxySink<T> {
    pub(crate) fn new(writer: Writer<T>) -> Self {
        Self { writer, waiting: None }
    }
}

impl<T: Send> Sink<T> for ProxySink<T> {
    #[inline]
    fn poll_send(
        mut self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = &mut *self;
        if let Some(item) = value.take() {
            let guard: Guard = unit.guard();
            this.waiting = Some(Carried { item, guard, partition: unit.partition(), offset: unit.offset() });
        }
        this.writer.0.poll_offer(&mut this.waiting, cx).map_err(Into::into)
    }

    fn fork(&self) -> Self {
        Self { writer: Writer::new(&self.writer.0), waiting: None }
    }
}
