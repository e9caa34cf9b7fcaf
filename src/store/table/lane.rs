//! One partition's tables while it is ours: the generations that units write to, and how these are stored.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rocksdb::WriteBatch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::mistake::{self, Mistake};
use super::open::{TableStore, Turn};
use super::record::{LastRecord, PositionRecord};
use super::source::{OnRefusal, Partitions, StoreCell};
use crate::error::{Error, Kind, Result};
use crate::flow::fold::{Admitted, LaneFold, LaneTables, Past};
use crate::flow::{Env, UnitCx};
use crate::message::{Record, place};

/// Sealed generations that wait to be stored.
const SEALED_MAX: usize = 2;
/// Between two tries of a write that failed for a reason that can go away.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The rows of one table in a lane, without their types.
pub(super) trait LaneRows: Send + Sync {
    /// What the unit wrote becomes the rows; how many bytes more the open generation has.
    fn end_unit(&self) -> Result<usize>;
    /// Adds what changed in the open generation to `batch`, and begins the next one.
    fn seal(&self, batch: &mut WriteBatch) -> Result<()>;
    /// The oldest generation that was sealed and not stored is stored.
    fn stored(&self);
    /// Bytes and rows in memory.
    fn size(&self) -> (usize, usize);
}

/// When the open generation is sealed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) units: u64,
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

/// Where a lane writes.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) store: Arc<TableStore>,
    pub(super) cell: Arc<StoreCell>,
    pub(super) env: Env,
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) turn: Arc<Turn>,
    pub(super) own_turn: u64,
}

/// One group of the lane and the position that its rows are as of.
#[derive(Debug, Clone)]
pub(super) struct LaneGroup {
    pub(super) name: Arc<str>,
    pub(super) next: i64,
}

/// What a lane begins with.
pub(super) struct Begin {
    pub(super) target: Target,
    pub(super) tables: LaneTables,
    pub(super) rows: Vec<Arc<dyn LaneRows>>,
    pub(super) groups: Vec<LaneGroup>,
    pub(super) past: Past,
    /// Records that must be the ones that were read, where they still are.
    pub(super) known: Vec<(LastRecord, OnRefusal)>,
    /// Below it there is nothing for anybody.
    pub(super) lowest: i64,
    /// What the group has committed; never lowered.
    pub(super) committed: Option<i64>,
    pub(super) limits: Limits,
    pub(super) partitions: Arc<Partitions>,
}

/// The open generation.
#[derive(Debug, Default)]
struct Open {
    units: u64,
    bytes: usize,
    since: Option<Instant>,
}

/// A generation that waits to be stored.
struct Sealed {
    batch: WriteBatch,
    /// Written before it, by mistake.
    early: Option<WriteBatch>,
    /// The number of the unit behind its last one.
    end: u64,
    units: u64,
    next: i64,
}

pub(super) struct Generations {
    begin: Begin,
    past: Option<Arc<Past>>,
    /// From here on those that count what is done have heard of nothing.
    untold: i64,
    /// The record that was admitted last, and the one whose unit ended last.
    admitted: Option<LastRecord>,
    last: Option<LastRecord>,
    /// The number of the next unit.
    end: u64,
    open: Open,
    sealed: VecDeque<Sealed>,
    writing: Option<BoxFuture<'static, Result<()>>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Writing fails for a reason that can go away: nothing is dispatched meanwhile.
    troubled: Arc<AtomicBool>,
    done: u64,
    /// The offset behind the last unit that is done.
    done_to: i64,
}

impl Generations {
    pub(super) fn new(begin: Begin) -> Self {
        let (past, done_to) = (Some(Arc::new(begin.past.clone())), begin.lowest);
        Self {
            begin,
            past,
            untold: i64::MAX,
            admitted: None,
            last: None,
            end: 0,
            open: Open::default(),
            sealed: VecDeque::new(),
            writing: None,
            timer: None,
            troubled: Arc::default(),
            done: 0,
            done_to,
        }
    }

    /// The lowest position that is stored.
    fn stored(&self) -> i64 {
        self.begin.groups.iter().map(|group| group.next).min().unwrap_or(i64::MAX)
    }

    fn is_over_limits(&self) -> bool {
        self.open.units >= self.begin.limits.units || self.open.bytes >= self.begin.limits.bytes
    }

    fn is_due(&self) -> bool {
        self.open.since.is_some_and(|since| since.elapsed() >= self.begin.limits.time)
    }

    /// Ends the open generation if there is one and if there is room for it behind those that wait.
    fn try_seal(&mut self) -> Result<()> {
        if self.open.units == 0 || self.sealed.len() >= SEALED_MAX {
            return Ok(());
        }
        let Some(last) = self.last else { return Ok(()) };
        let mut batch = WriteBatch::default();
        if !mistake::is_made(Mistake::NewestRows) {
            self.seal_rows(&mut batch)?;
        }
        let early = mistake::is_made(Mistake::RowsBeforePosition).then(|| WriteBatch::from_data(batch.data()));
        let record = PositionRecord { next: last.offset + 1, last: Some(last) };
        let target = &self.begin.target;
        for group in self.begin.groups.iter().filter(|group| group.next < record.next) {
            record.put(&target.store, &mut batch, &group.name, target.partition)?;
        }
        let units = std::mem::take(&mut self.open).units;
        self.timer = None;
        self.sealed.push_back(Sealed { batch, early, end: self.end, units, next: record.next });
        Ok(())
    }

    fn seal_rows(&self, batch: &mut WriteBatch) -> Result<()> {
        let mut tables = self.begin.rows.iter();
        tables.try_for_each(|rows| rows.seal(batch)).map_err(|error| self.here(error))
    }

    fn here(&self, error: Error) -> Error {
        let target = &self.begin.target;
        error.at(format!("tables of {}[{}]", target.topic, target.partition))
    }

    fn on_stored(&mut self) {
        let Some(sealed) = self.sealed.pop_front() else { return };
        self.begin.rows.iter().for_each(|rows| rows.stored());
        self.begin.groups.iter_mut().for_each(|group| group.next = group.next.max(sealed.next));
        self.done += sealed.units;
        self.done_to = sealed.next;
        let partition = self.begin.target.partition;
        self.begin.partitions.stored(partition, self.stored());
    }

    /// Begins to write the oldest sealed generation if its outputs are acknowledged.
    fn begin_write(&mut self, acked: u64) -> Result<bool> {
        if self.sealed.front().is_none_or(|sealed| sealed.end > acked) {
            return Ok(false);
        }
        if mistake::is_made(Mistake::NewestRows) {
            self.seal_late()?;
        }
        let Some(sealed) = self.sealed.front() else { return Ok(false) };
        let batches = sealed.early.iter().chain([&sealed.batch]).map(|batch| batch.data().to_vec()).collect();
        self.writing = Some(write(self.begin.target.clone(), batches, Arc::clone(&self.troubled)).boxed());
        Ok(true)
    }

    /// By mistake: the rows that belong to the oldest sealed generation are those of now.
    #[cold]
    fn seal_late(&mut self) -> Result<()> {
        let mut batch =
            self.sealed.front().map(|sealed| WriteBatch::from_data(sealed.batch.data())).unwrap_or_default();
        self.seal_rows(&mut batch)?;
        if let Some(sealed) = self.sealed.front_mut() {
            sealed.batch = batch;
        }
        Ok(())
    }

    fn poll_write(&mut self, acked: u64, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if let Some(writing) = &mut self.writing {
                let Poll::Ready(result) = writing.poll_unpin(cx) else { return Poll::Pending };
                self.writing = None;
                result?;
                self.on_stored();
            }
            if !self.begin_write(acked)? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let Some(since) = self.open.since.filter(|_| self.sealed.len() < SEALED_MAX) else { return Ok(()) };
        let due = since + self.begin.limits.time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.poll_unpin(cx).is_ready() {
            self.try_seal()?;
        }
        Ok(())
    }

    /// Of a record that lies in the rows.
    #[cold]
    fn known(&self, offset: i64) -> Admitted {
        if offset < self.untold {
            return Admitted::Known;
        }
        let mut behind = self.begin.known.iter().map(|(known, _)| known.offset).filter(|known| *known > offset);
        Admitted::Untold { is_sure: behind.all(|known| known >= self.begin.lowest) }
    }

    /// Compares a record with what is known of it.
    #[cold]
    fn recognise(&mut self, read: LastRecord) -> Result<Admitted> {
        self.begin.known.retain(|(known, _)| known.offset >= read.offset);
        let mut known = self.begin.known.iter().filter(|(known, _)| known.offset == read.offset && *known != read);
        let Some((known, _)) = known.clone().find(|(_, policy)| *policy == OnRefusal::Stop).or_else(|| known.next())
        else {
            return Ok(Admitted::Taken);
        };
        let stops = self.begin.known.iter().any(|(own, policy)| own == known && *policy == OnRefusal::Stop);
        let target = &self.begin.target;
        let message = format!(
            "the log was replaced: this record (timestamp {:?}, checksum {:08x}) is not the one that the tables have \
             (timestamp {:?}, checksum {:08x}). Bring the log back, or declare the tables with `.rebuild()`",
            read.timestamp, read.crc, known.timestamp, known.crc
        );
        let error = Error::new(Kind::OutOfRange, message).at(place(&target.topic, target.partition, read.offset));
        if stops {
            return Err(error);
        }
        tracing::warn!("{error}");
        self.begin.partitions.start_over(target.partition);
        Ok(Admitted::StartOver)
    }
}

impl LaneFold for Generations {
    fn tables(&self) -> LaneTables {
        Arc::clone(&self.begin.tables)
    }

    fn begins_at(&self) -> i64 {
        self.begin.lowest
    }

    fn tell_from(&mut self, offset: i64) {
        self.untold = offset;
    }

    #[inline]
    fn admit(&mut self, record: &Record, unit: &mut UnitCx) -> Result<Admitted> {
        let read = identity(record);
        if let Some(past) = &self.past {
            let is_over = record.offset >= past.end();
            if is_over {
                self.past = None;
            }
            unit.set_past(self.past.clone());
        }
        if !self.begin.known.is_empty() && self.recognise(read)? == Admitted::StartOver {
            return Ok(Admitted::StartOver);
        }
        if record.offset < self.begin.lowest {
            return Ok(self.known(record.offset));
        }
        self.admitted = Some(read);
        Ok(Admitted::Taken)
    }

    #[inline]
    fn end_unit(&mut self, end: u64) -> Result<()> {
        (self.end, self.last) = (end, self.admitted);
        self.open.units += 1;
        for rows in &self.begin.rows {
            self.open.bytes += rows.end_unit()?;
        }
        if self.open.since.is_none() {
            self.open.since = Some(Instant::now());
        }
        if self.is_over_limits() { self.try_seal() } else { Ok(()) }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.is_over_limits() || self.troubled.load(Ordering::Relaxed)
    }

    fn seal(&mut self) -> Result<()> {
        self.try_seal()
    }

    fn poll(&mut self, acked: u64, cx: &mut Context<'_>) -> Result<()> {
        if let Poll::Ready(result) = self.poll_write(acked, cx) {
            result?;
        }
        if self.is_over_limits() || self.is_due() {
            self.try_seal()?;
        }
        self.poll_timer(cx)?;
        // What was sealed just now may be written at once.
        match self.poll_write(acked, cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    fn poll_last(&mut self, acked: u64, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if self.open.units > 0 && self.end <= acked {
                self.try_seal()?;
            }
            if self.poll_write(acked, cx)?.is_pending() {
                return Poll::Pending;
            }
            let is_left = self.open.units > 0 && self.end <= acked && self.sealed.is_empty();
            if !is_left {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn committable(&self, acked: i64) -> i64 {
        // Also of units that are in the rows already: whoever counts what is done hears of them when they are stored again.
        let is_all = self.open.units == 0 && self.sealed.is_empty();
        let done = if is_all { acked } else { acked.min(self.done_to) };
        done.min(self.stored()).max(self.begin.committed.unwrap_or(-1))
    }

    fn progress(&self) -> (u64, u64) {
        let waiting: u64 = self.sealed.iter().map(|sealed| sealed.units).sum();
        (self.done, waiting + self.open.units)
    }
}

fn identity(record: &Record) -> LastRecord {
    let crc = crc32c::crc32c(record.key.as_deref().unwrap_or_default());
    let crc = crc32c::crc32c_append(crc, record.value.as_deref().unwrap_or_default());
    LastRecord { offset: record.offset, timestamp: record.timestamp.millis(), crc }
}

/// Stores a batch once everything that its units wrote elsewhere is durable. Tries again while the reason of a failure
/// can go away, which `troubled` and the run's health tell meanwhile.
async fn write(target: Target, batches: Vec<Vec<u8>>, troubled: Arc<AtomicBool>) -> Result<()> {
    let batches = Arc::new(batches);
    let who = format!("tables of {}[{}]", target.topic, target.partition);
    let mut wait = RETRY_FIRST;
    loop {
        let synced = target.env.sync_others(target.cell.address()).await;
        let can_go_away = if synced.is_ok() { can_go_away } else { can_go_away_elsewhere };
        let written = match synced {
            Ok(()) => write_once(&target, &batches).await,
            Err(error) => Err(error),
        };
        match written {
            Err(error) if can_go_away(&error) => {
                if !troubled.swap(true, Ordering::Relaxed) {
                    tracing::error!("{who}: nothing is handled until this is over: {}", error.report());
                }
                target.env.set_notice(&who, Some(error.to_string()));
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
            other => {
                if troubled.swap(false, Ordering::Relaxed) {
                    target.env.set_notice(&who, None);
                    tracing::info!("{who}: stored again");
                }
                return other;
            }
        }
    }
}

async fn write_once(target: &Target, batches: &Arc<Vec<Vec<u8>>>) -> Result<()> {
    let (store, turn, own) = (Arc::clone(&target.store), Arc::clone(&target.turn), target.own_turn);
    let batches = Arc::clone(batches);
    let write_all = move || {
        for bytes in batches.iter() {
            store.write(WriteBatch::from_data(bytes))?;
            mistake::linger();
        }
        Ok(())
    };
    let write = move || turn.during(own, write_all);
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|error| Err(Error::new(Kind::Store, "a write was interrupted").because(error)))
}

/// No room: rows are kept until there is. After other errors of the disk RocksDB writes no more before it is opened anew,
/// and damage does not go away.
fn can_go_away(error: &Error) -> bool {
    matches!(error.kind(), Kind::DiskFull | Kind::Store)
}

/// The same of what units wrote in other places.
fn can_go_away_elsewhere(error: &Error) -> bool {
    can_go_away(error) || error.kind() == Kind::Io
}
