//! The writer of a partition: what waits is written together, made durable if someone asked for it, shown to readers,
//! and said to those who wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::booblik::log::{Durable, PartitionLog, View};
use crate::booblik::wire::Acks;
use crate::error::Result;
use crate::util::panic_message;

use super::done::{AppendError, Appended, Done};
use super::options::{BrokerOptions, TopicOptions};
use super::pool::Pool;
use super::queue::{Group, Limits, Queue, Turn};

/// One partition of an open broker.
pub(super) struct Writer {
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
    pub(super) queue: Queue,
    pub(super) room: Notify,
    pub(super) view: Arc<View>,
    pub(super) durable: Arc<Durable>,
    pub(super) counts: Counts,
    /// Whether it can write.
    pub(super) available: watch::Sender<bool>,
    pub(super) max_payload_bytes: usize,
    options: TopicOptions,
    gather: Duration,
    pool: Pool,
    log: Mutex<PartitionLog>,
    flushed: Mutex<Instant>,
    /// Bytes of the group that failed last: as much must fit before the next one is accepted.
    failed_bytes: AtomicU64,
}

/// What a partition has done since it was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) retained: AtomicU64,
}

impl Writer {
    pub(super) fn new(topic: Arc<str>, number: i32, log: PartitionLog, options: &BrokerOptions, pool: &Pool) -> Self {
        let own = options.for_topic(&topic).clone();
        let max_payload_bytes = super::done::max_payload(own.log().max_record_bytes());
        let limits =
            Limits { bytes: options.queue_bytes, records: options.queue_records, record_bytes: max_payload_bytes };
        Self {
            topic,
            number,
            queue: Queue::new(limits),
            room: Notify::new(),
            view: Arc::clone(log.view()),
            durable: Arc::clone(log.durable()),
            counts: Counts::default(),
            available: watch::Sender::new(true),
            max_payload_bytes,
            options: own,
            gather: options.gather,
            pool: pool.clone(),
            log: Mutex::new(log),
            flushed: Mutex::new(Instant::now()),
            failed_bytes: 0.into(),
        }
    }

    /// Takes a batch and calls the writer for it.
    pub(super) fn push<R: AsRef<[u8]>>(
        self: &Arc<Self>,
        records: &mut Option<impl IntoIterator<Item = R>>,
        ack: Acks,
        done: &mut Option<Done>,
        turn: Turn,
    ) -> Result<(), AppendError> {
        let call = self.queue.push(records, ack, done, turn)?;
        self.call(call);
        Ok(())
    }

    /// What waits is written without delay.
    pub(super) fn hurry(self: &Arc<Self>) {
        if self.queue.hurry() {
            self.call(Turn::Now);
        }
    }

    fn call(self: &Arc<Self>, turn: Turn) {
        if turn == Turn::Never {
            return;
        }
        let writer = Arc::clone(self);
        let job = move || writer.write_group();
        if turn == Turn::Soon { self.pool.run_after(self.gather, job) } else { self.pool.run(job) }
    }

    /// Writes what waits.
    pub(super) fn write_group(self: &Arc<Self>) {
        let mut log = self.log();
        let mut group = self.queue.take();
        self.room.notify_waiters();
        if !group.batches.is_empty() {
            let wrote = catch_unwind(AssertUnwindSafe(|| self.write(&mut log, &mut group)));
            if let Err(panic) = wrote {
                self.give_up_after(&panic_message(&*panic), &mut log, &mut group);
            }
        }
        let again = self.queue.finish(group);
        drop(log);
        self.call(again);
    }

    fn write(self: &Arc<Self>, log: &mut PartitionLog, group: &mut Group) {
        match self.try_write(log, group) {
            Ok(base) => {
                self.count(group);
                if log.publish() {
                    self.settle();
                }
                acknowledge(group, base);
            }
            Err(error) => {
                let error = AppendError::unavailable(&error);
                self.failed_bytes.store(group.stored.len() as u64, Ordering::Relaxed);
                self.give_up(group, &error);
            }
        }
    }

    /// Nobody was told how far a panic came: what was not shown to readers is taken back.
    fn give_up_after(&self, panic: &str, log: &mut PartitionLog, group: &mut Group) {
        log.take_back();
        let reason = format!("its writer panicked: {panic}");
        self.give_up(group, &AppendError::Unavailable { disk_full: false, reason: reason.into() });
    }

    /// Writes the group and makes it durable if that is due. After a failure nothing of it is there.
    fn try_write(&self, log: &mut PartitionLog, group: &Group) -> Result<i64> {
        let range = log.append(&group.stored)?;
        let many = |limit| self.durable.unsynced().unsigned_abs() >= limit;
        if group.forced || self.options.flush_every_records.is_some_and(many) {
            self.durable.sync().inspect_err(|_| {
                log.take_back();
            })?;
        }
        Ok(range.start)
    }

    /// Nothing is accepted until a probe succeeds. What waits is told at once.
    fn give_up(&self, group: &mut Group, error: &AppendError) {
        tracing::error!("{}-{}: {error}; it is tried again", self.topic, self.number);
        self.queue.refuse(Some(error.clone()));
        self.available.send_replace(false);
        self.counts.failed.fetch_add(group.batches.len() as u64, Ordering::Relaxed);
        group.fail(error);
        let mut rest = self.queue.take();
        self.counts.failed.fetch_add(rest.batches.len() as u64, Ordering::Relaxed);
        rest.fail(error);
    }

    /// Tries whether a partition that gave up can write again.
    pub(super) fn try_resume(&self) {
        if *self.available.borrow() {
            return;
        }
        let wanted = usize::try_from(self.failed_bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        match self.log().probe(wanted) {
            Ok(()) => {
                tracing::info!("{}-{}: writing again", self.topic, self.number);
                self.queue.refuse(None);
                self.available.send_replace(true);
                self.room.notify_waiters();
            }
            Err(error) => self.queue.refuse(Some(AppendError::unavailable(&error))),
        }
    }

    /// Brings full segments to stable storage, beside the writing.
    fn settle(self: &Arc<Self>) {
        let writer = Arc::clone(self);
        self.pool.run(move || {
            if let Err(error) = writer.durable.sync() {
                tracing::warn!(%error, "{}-{}: a full segment could not be synced yet", writer.topic, writer.number);
            }
        });
    }

    /// Syncs if the oldest record that is not synced may be too old.
    pub(super) fn flush_if_due(&self) {
        let Some(every) = self.options.flush_every else { return };
        let mut flushed = self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        if flushed.elapsed() < every || self.durable.unsynced() == 0 {
            return;
        }
        *flushed = Instant::now();
        if let Err(error) = self.durable.sync() {
            tracing::warn!(%error, "{}-{}: could not be synced", self.topic, self.number);
        }
    }

    /// Removes the segments that may go.
    pub(super) fn retain(&self) {
        let removed = self.log().retain(&self.options.retention());
        self.counts.retained.fetch_add(removed as u64, Ordering::Relaxed);
    }

    /// Accepts nothing any more. What was accepted will be written.
    pub(super) fn refuse_all(&self) {
        self.queue.refuse(Some(AppendError::Closed));
        self.room.notify_waiters();
    }

    fn count(&self, group: &Group) {
        self.counts.groups.fetch_add(1, Ordering::Relaxed);
        self.counts.batches.fetch_add(group.batches.len() as u64, Ordering::Relaxed);
        self.counts.records.fetch_add(group.records as u64, Ordering::Relaxed);
        self.counts.bytes.fetch_add(group.stored.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn log(&self) -> MutexGuard<'_, PartitionLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells everyone where their records are.
fn acknowledge(group: &mut Group, mut base: i64) {
    group.tell(|records| {
        let appended = Appended { base_offset: base, end_offset: base + i64::from(records) };
        base = appended.end_offset;
        Ok(appended)
    });
}
