//! The open channel of a proxy or of a cache's changes, in one run: many writers, one lane that feeds all handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use super::{Carried, CarriedLane, NotePlace, SourceOptions, boxed_stage, fan_out, open_taps};
use crate::error::{Error, Kind, Result};
use crate::flow::{Env, Gate, NodeId, Push, Queue, StageFactory, Stages, Tracker, UnitCx};

/// What a full proxy does with one more message.
///
/// ```
/// use slipstream::Proxy;
/// use slipstream::proxy::Overflow;
///
/// static LATEST: Proxy<u64> = Proxy::new("latest").capacity(1).overflow(Overflow::DropOldest);
/// # assert_eq!(LATEST.dropped(), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// The writer waits.
    #[default]
    Wait,
    /// The oldest message is dropped, counts as done, and is counted.
    DropOldest,
    /// The writer gets an error.
    Error,
}

/// One queue, read by one lane that feeds all handlers.
pub(crate) struct Channel<T> {
    node: NodeId,
    queue: Arc<Queue<Carried<T>>>,
    overflow: Overflow,
    writers: AtomicUsize,
    dropped: AtomicU64,
    has_reader: AtomicBool,
}

impl<T> Channel<T> {
    pub(crate) fn new(node: NodeId, capacity: usize, overflow: Overflow) -> Self {
        let queue = Arc::new(Queue::new(capacity, usize::MAX));
        let (writers, dropped, has_reader) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { node, queue, overflow, writers, dropped, has_reader }
    }

    /// A handler reads it; known before anything is written.
    pub(crate) fn set_reader(&self) {
        self.has_reader.store(true, Ordering::Release);
    }

    pub(crate) fn has_reader(&self) -> bool {
        self.has_reader.load(Ordering::Acquire)
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
            Push::Closed(_) => Err(Error::new(Kind::Closed, "its reader has ended").at(self.node.to_string())),
            Push::Full(carried) if self.overflow == Overflow::Error => {
                // Refused, not lost: the writer's unit fails with the error below.
                carried.guard.ok();
                Err(Error::new(Kind::Sink, "full").at(self.node.to_string()).retryable())
            }
            Push::Full(carried) => Ok(Some(carried)),
        }
    }

    /// Offers what waits until it is taken.
    pub(crate) fn poll_offer(&self, waiting: &mut Option<Carried<T>>, cx: &Context<'_>) -> Poll<Result<()>> {
        while let Some(carried) = waiting.take() {
            *waiting = self.offer(carried)?;
            if waiting.is_some() {
                ready!(self.queue.poll_room(0, cx));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A message of a unit.
    pub(crate) fn carried(item: T, unit: &mut UnitCx) -> Carried<T> {
        let (partition, offset, outage) = (unit.partition(), unit.offset(), unit.outage());
        Carried { item, guard: unit.guard(), partition, offset, outage, views: Vec::new() }
    }

    /// A message from outside: a unit of its own, which the tracker that is returned knows.
    pub(crate) async fn send_external(&self, message: T) -> Result<Tracker> {
        let mut tracker = Tracker::new(1);
        let guard = tracker.guard();
        tracker.end_unit();
        let mut waiting =
            Some(Carried { item: message, guard, partition: 0, offset: -1, outage: 0, views: Vec::new() });
        std::future::poll_fn(|cx| self.poll_offer(&mut waiting, cx)).await?;
        Ok(tracker)
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

impl<T> Writer<T> {
    pub(crate) fn channel(&self) -> &Arc<Channel<T>> {
        &self.0
    }
}

/// Runs the lane that reads a channel, until its writers have ended. `outside` is a writer that ends when the app is
/// told to stop; `note`: where taps keep what they have to.
pub(crate) async fn run_channel<T: Clone + Send + 'static>(
    channel: Arc<Channel<T>>,
    outside: Option<Writer<T>>,
    gate: Gate,
    options: SourceOptions<T>,
    stages: Vec<StageFactory<T>>,
    note: Option<NotePlace>,
    env: Env,
) -> Result<()> {
    let name = &channel.node.name;
    let stats = env.add_source(name, gate.clone());
    stats.set_channel();
    let lane_stats = stats.add_lane(0);
    let (queue, source) = (Arc::clone(&channel.queue), Arc::clone(name));
    let make = || Stages::new(&stages);
    let kept = note.as_ref().map_or(Ok(None), NotePlace::read)?;
    let opened = open_taps(&options.taps, &stats, kept);
    opened.map_err(|error| match &note {
        Some(note) if error.kind() == Kind::Corrupt => note.refused(error),
        _ => error,
    })?;
    note.and_then(|note| note.keep(&options.taps)).into_iter().for_each(|note| env.add_durable(note));
    let lane = async {
        if !options.taps.is_empty() {
            let stage = boxed_stage(options, 0, make, &stats, &env);
            let lane = CarriedLane::new(queue, stage, source, gate, lane_stats);
            lane.watched(env.parts().max_in_flight).run(&env).await
        } else if options.concurrency > 1 {
            let fanout = fan_out(options.concurrency, options.key, make, &stats, &env);
            CarriedLane::new(queue, fanout, source, gate, lane_stats).run(&env).await
        } else {
            CarriedLane::new(queue, make(), source, gate, lane_stats).run(&env).await
        }
    };
    let mut lane = std::pin::pin!(lane);
    tokio::select! {
        biased;
        result = &mut lane => return result,
        () = env.stop().cancelled() => drop(outside),
    }
    lane.await
}
