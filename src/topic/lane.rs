//! The lane of one partition: decodes records in order, drives the stages, and knows how far everything is done.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio_util::sync::CancellationToken;

use super::driver::{Assignment, Feed};
use crate::error::{Error, Kind, Result};
use crate::flow::fold::{Admitted, LaneFold};
use crate::flow::{Budget, Env, Gate, LaneStats, SourceStats, Stage, UnitCx};
use crate::message::Record;
use crate::source::Turn;

/// Turns a record into what the handlers take.
pub(crate) type Decode<In> = Arc<dyn Fn(Record, &Arc<str>, i32) -> Result<In> + Send + Sync>;

/// What whoever started a lane keeps of it.
pub(crate) struct LaneControl {
    /// Stop dispatching, drain, end.
    pub stop: CancellationToken,
    /// End at once: what is in flight is not done.
    pub kill: CancellationToken,
    pub stats: Arc<LaneStats>,
    /// The handlers take no more messages.
    over: AtomicBool,
    /// The partition is to be begun anew, from the beginning of its log.
    starts_over: AtomicBool,
}

impl LaneControl {
    pub(crate) fn new(stats: Arc<LaneStats>) -> Arc<Self> {
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let (over, starts_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { stop, kill, stats, over, starts_over })
    }

    /// Whether the lane ended because its handlers take no more messages.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether the lane ended because its log is another one than its tables know.
    pub(crate) fn starts_over(&self) -> bool {
        self.starts_over.load(Ordering::Acquire)
    }

    /// Makes the lane look at what is done, so that its position is fresh.
    pub(crate) fn poke(&self) {
        self.stats.poke();
    }
}

/// What is kept of a unit until it is done.
#[derive(Clone, Copy, Default)]
struct Kept {
    next: i64,
    bytes: usize,
}

/// One partition in one assignment.
pub(crate) struct PartitionLane<In, St> {
    feed: Arc<Feed>,
    batch: VecDeque<Record>,
    decode: Decode<In>,
    stage: Pin<Box<St>>,
    /// Whether the stage is to be asked if it has ended.
    may_end: bool,
    unit: UnitCx,
    hash_keys: bool,
    kept: Box<[Kept]>,
    /// Everything before this unit has given its bytes back.
    released: u64,
    position: i64,
    budget: Arc<Budget>,
    /// Bytes taken from the budget for messages still to come; none while the lane waits.
    ahead: usize,
    gate: Gate,
    control: Arc<LaneControl>,
    waiting: Option<Record>,
    in_hand: bool,
    turn: Turn,
    /// The rows of the tables that the handlers write.
    fold: Option<Box<dyn LaneFold>>,
    /// Records that handlers do not get, and others hear of.
    told: u64,
}

impl<In: Send, St: Stage<In>> PartitionLane<In, St> {
    pub(crate) fn new(
        assignment: &Assignment,
        decode: Decode<In>,
        stage: St,
        hash_keys: bool,
        budget: Arc<Budget>,
        source: &SourceStats,
        control: Arc<LaneControl>,
        env: &Env,
    ) -> Self {
        let feed = Arc::clone(&assignment.feed);
        let mut unit = UnitCx::new(Arc::clone(&feed.topic), env.parts().max_in_flight);
        let kept = vec![Kept::default(); unit.tracker().len()].into_boxed_slice();
        control.stats.position.store(assignment.from, Ordering::Release);
        control.stats.committed.store(assignment.committed.unwrap_or(-1), Ordering::Release);
        Self {
            feed,
            batch: VecDeque::new(),
            decode,
            may_end: stage.may_end(),
            stage: Box::pin(stage),
            unit,
            hash_keys,
            kept,
            released: 0,
            position: assignment.from,
            budget,
            ahead: 0,
            gate: source.gate.clone(),
            control,
            waiting: None,
            in_hand: false,
            turn: Turn::new(),
            fold: None,
            told: 0,
        }
    }

    /// With rows that handlers write: positions are those that are stored with them.
    pub(crate) fn with_fold(mut self, fold: Option<Box<dyn LaneFold>>) -> Self {
        if let Some(fold) = &fold {
            self.unit.set_tables(fold.tables());
            self.control.stats.position.store(fold.committable(self.position), Ordering::Release);
        }
        self.fold = fold;
        self
    }

    /// Runs until it is told to stop and has drained, is told to end at once, or fails.
    pub(crate) async fn run(mut self, env: &Env) {
        let control = Arc::clone(&self.control);
        let mut stop = std::pin::pin!(control.stop.cancelled());
        let mut stopping = false;
        let result = tokio::select! {
            biased;
            () = control.kill.cancelled() => Ok(()),
            () = env.kill().cancelled() => Ok(()),
            result = std::future::poll_fn(|cx| {
                stopping = stopping || stop.as_mut().poll(cx).is_ready();
                self.poll_run(stopping, cx)
            }) => result,
        };
        if let Err(error) = result {
            // Said before the guards are dropped, so that the cause comes before what it causes.
            if self.unit.fail_run(error, env) || self.fold.is_some() {
                self.settle(env).await;
            }
        }
        self.publish();
        self.feed.queue.discard();
        let kept = self.kept_bytes();
        self.budget.give_back(kept);
        self.control.stats.set_ended();
    }

    /// Waits until everything before the unit that failed is done: its position is the last one of this lane. Bounded
    /// by whoever ends the lane, at the latest when the drain timeout is over.
    async fn settle(&mut self, env: &Env) {
        let control = Arc::clone(&self.control);
        tokio::select! {
            biased;
            () = control.kill.cancelled() => {}
            () = env.kill().cancelled() => {}
            () = std::future::poll_fn(|cx| {
                self.control.stats.register(cx);
                self.publish();
                ready!(self.unit.tracker().poll_settled(cx));
                let low = self.unit.tracker().scan();
                // What cannot be stored any more comes again, as after a crash; the run has its error.
                let stored = self.fold.as_mut().map_or(Poll::Ready(Ok(())), |fold| fold.poll_last(low, cx));
                stored.map(drop)
            }) => {}
        }
    }

    fn poll_run(&mut self, stopping: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.control.stats.register(cx);
        self.turn.begin();
        let mut handled = 0;
        let polled = self.poll_records(stopping, &mut handled, cx);
        if !self.stage.hands_over() {
            self.control.stats.handled.fetch_add(handled, Ordering::Relaxed);
        }
        self.publish();
        self.poll_fold(cx)?;
        ready!(polled)?;
        ready!(self.unit.tracker().poll_done(cx))?;
        let low = self.unit.tracker().scan();
        match &mut self.fold {
            Some(fold) => fold.poll_last(low, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Stores what can be stored.
    fn poll_fold(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let Some(fold) = &mut self.fold else { return Ok(()) };
        let (before, _) = fold.progress();
        fold.poll(self.unit.tracker().scan(), cx)?;
        if fold.progress().0 == before {
            return Ok(());
        }
        self.publish();
        // There may be room for more.
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn poll_records(&mut self, stopping: bool, handled: &mut u64, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if self.in_hand && stopping && self.stage.is_held() {
                return Poll::Ready(Ok(())); // not begun: it is dropped with the stage
            }
            if self.in_hand {
                ready!(self.stage.as_mut().resume(&mut self.unit, cx))?;
                self.end_unit(handled)?;
            }
            if let Some(error) = self.unit.tracker().take_failure() {
                return Poll::Ready(Err(error));
            }
            if stopping || self.is_over() {
                return Poll::Ready(Ok(()));
            }
            if !self.has_room() {
                self.fold.as_mut().map_or(Ok(()), |fold| fold.seal())?;
                if self.unit.tracker().watch(cx, false) {
                    return Poll::Pending;
                }
                continue;
            }
            if self.gate.poll_open(cx).is_pending() {
                self.fold.as_mut().map_or(Ok(()), |fold| fold.seal())?;
                return self.wait_for_acks(cx);
            }
            if self.fold.as_ref().is_some_and(|fold| fold.is_full()) {
                return self.wait_for_acks(cx);
            }
            if let Some(record) = self.waiting.take().or_else(|| self.batch.pop_front()) {
                ready!(self.poll_record(record, handled, cx))?;
            } else if !ready!(self.poll_more(cx))? {
                return Poll::Ready(Ok(()));
            }
            if self.turn.is_over(1) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Whether the handlers take no more messages: what is not handled is left to whoever reads on.
    #[inline]
    fn is_over(&self) -> bool {
        let is_over = self.may_end && self.stage.has_ended();
        if is_over {
            self.control.over.store(true, Ordering::Release);
        }
        is_over
    }

    /// The message in hand is handled, unless the last pipe that could take it ended before it did.
    #[inline]
    fn end_unit(&mut self, handled: &mut u64) -> Result<()> {
        self.in_hand = false;
        if self.may_end && self.unit.take_refusal() && self.stage.has_ended() {
            self.ahead += self.kept_of_next().map_or(0, |kept| std::mem::take(&mut kept.bytes));
            return Ok(());
        }
        self.unit.tracker().end_unit();
        *handled += 1;
        match &mut self.fold {
            Some(fold) => fold.end_unit(self.unit.tracker().next()),
            None => Ok(()),
        }
    }

    /// Waits for records; false when there will be none.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        if let Poll::Ready(open) = self.feed.queue.poll_take(&mut self.batch, cx) {
            return Poll::Ready(Ok(open));
        }
        match self.stage.as_mut().idle(&mut self.unit, cx) {
            Poll::Ready(result) => {
                result?;
                let next = self.position_of_next();
                self.end_own_unit(next);
                Poll::Ready(Ok(true))
            }
            Poll::Pending => self.wait_for_acks(cx),
        }
    }

    /// Whether another unit may begin. What is kept of a unit that is done is taken out before its place is given to
    /// the next one: a full ring would otherwise show the next one's position as done.
    fn has_room(&mut self) -> bool {
        let len = self.kept.len() as u64;
        if self.unit.tracker().next() - self.released >= len {
            self.publish();
        }
        self.unit.tracker().next() - self.released < len
    }

    /// Pending, and woken when the newest open unit is done or one fails.
    fn wait_for_acks<R>(&mut self, cx: &mut Context<'_>) -> Poll<R> {
        if !self.unit.tracker().watch(cx, true) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn poll_record(&mut self, record: Record, handled: &mut u64, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if record.offset < self.position_of_next() {
            return Poll::Ready(Ok(())); // delivered twice by the client
        }
        match self.fold.as_mut().map(|fold| fold.admit(&record, &mut self.unit)).transpose()? {
            None | Some(Admitted::Taken) => {}
            Some(Admitted::Known) => {
                if self.unit.tracker().next() == 0 {
                    self.position = record.offset + 1;
                }
                return Poll::Ready(Ok(()));
            }
            Some(Admitted::Untold { is_sure }) => return Poll::Ready(self.tell_known(record, is_sure)),
            Some(Admitted::StartOver) => {
                self.control.starts_over.store(true, Ordering::Release);
                self.control.kill.cancel();
                return Poll::Pending;
            }
        }
        let bytes = record.size_bytes();
        if self.poll_bytes(bytes, cx).is_pending() {
            self.waiting = Some(record);
            self.publish();
            return self.wait_for_acks(cx);
        }
        let offset = record.offset;
        if let Some(kept) = self.kept_of_next() {
            *kept = Kept { next: offset + 1, bytes };
        }
        self.unit.set_place(self.feed.partition, offset);
        if self.hash_keys {
            self.unit.set_key_hash(record.key.as_ref().map(|key| u64::from(crc32c::crc32c(key))));
        }
        self.control.stats.received.store(offset, Ordering::Relaxed);
        let item = (self.decode)(record, &self.feed.topic, self.feed.partition)?;
        self.in_hand = true;
        ready!(self.stage.as_mut().start(item, &mut self.unit, cx))?;
        Poll::Ready(self.end_unit(handled))
    }

    /// A record that lies in the rows is done for whoever counts that. Those by which the log is not known yet are one unit:
    /// of another log nothing is told, and no position moves.
    fn tell_known(&mut self, record: Record, is_sure: bool) -> Result<()> {
        let next = record.offset + 1;
        self.unit.set_place(self.feed.partition, record.offset);
        let item = (self.decode)(record, &self.feed.topic, self.feed.partition)?;
        self.stage.as_mut().known(item, &mut self.unit)?;
        self.told += 1;
        if is_sure {
            self.end_own_unit(next);
        }
        Ok(())
    }

    fn poll_bytes(&mut self, bytes: usize, cx: &Context<'_>) -> Poll<()> {
        if self.ahead < bytes {
            self.ahead += ready!(self.budget.poll_take_ahead(bytes - self.ahead, cx));
        }
        self.ahead -= bytes;
        Poll::Ready(())
    }

    /// The lowest offset that may come next.
    fn position_of_next(&mut self) -> i64 {
        let next = self.unit.tracker().next();
        if next == 0 {
            return self.position.max(0);
        }
        let at = self.unit.tracker().index(next - 1);
        self.kept.get(at).map_or(0, |kept| kept.next)
    }

    /// What is kept of the unit that is worked on.
    fn kept_of_next(&mut self) -> Option<&mut Kept> {
        let tracker = self.unit.tracker();
        let at = tracker.index(tracker.next());
        self.kept.get_mut(at)
    }

    /// A unit without a record for handlers: what a pipe gives between two messages, or what is known.
    fn end_own_unit(&mut self, next: i64) {
        if let Some(kept) = self.kept_of_next() {
            *kept = Kept { next, bytes: 0 };
        }
        self.unit.tracker().end_unit();
    }

    /// Looks how far everything is done, gives bytes back, and tells the position.
    fn publish(&mut self) {
        let low = self.unit.tracker().scan();
        let mut bytes = std::mem::take(&mut self.ahead);
        while self.released < low {
            let at = self.unit.tracker().index(self.released);
            if let Some(kept) = self.kept.get(at) {
                bytes += kept.bytes;
                self.position = kept.next;
            }
            self.released += 1;
        }
        self.budget.give_back(bytes);
        let next = self.unit.tracker().next();
        let stats = &self.control.stats;
        // Of units that write rows, those are done that are stored.
        let (position, done) = match &self.fold {
            Some(fold) => (fold.committable(self.position), next - fold.progress().1),
            None => (self.position, low),
        };
        let in_flight = next - done + u64::from(self.in_hand && !self.stage.is_held());
        // Before the position: whoever finds that finds a note that tells of this progress.
        self.stage.as_mut().progress(done);
        stats.position.store(position, Ordering::Release);
        let has_work = in_flight > 0 || self.waiting.is_some() || !self.batch.is_empty();
        stats.set_progress(done + self.told, in_flight, has_work);
    }

    fn kept_bytes(&mut self) -> usize {
        let next = self.unit.tracker().next() + u64::from(self.in_hand);
        let units = (self.released..next).map(|seq| self.unit.tracker().index(seq)).collect::<Vec<_>>();
        units.into_iter().filter_map(|at| self.kept.get(at)).map(|kept| kept.bytes).sum()
    }
}

/// An undecodable record, named by its place.
pub(crate) fn decode_error(error: Error, topic: &Arc<str>, partition: i32, offset: i64, what: &str) -> Error {
    let place = crate::message::place(topic, partition, offset);
    Error::new(Kind::Decode, format!("the {what} cannot be decoded")).at(place).because(error)
}
