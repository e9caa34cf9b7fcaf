//! Going back: where a partition begins when something was handled too early, and the rewind after an outage.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::driver::{Assignment, OutOfRange, SeekTo, is_not_ours};
use super::hub::{Key, Move, SeekRequest, Session};
use super::lane::LaneControl;
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::flow::fold::LaneFold;
use crate::flow::tap::{self, Rewind};
use crate::message::place;
use crate::util::step;

/// Between two tries of a rewind, of a count, or of a beginning, while the broker is away.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// How often a rewind looks again where the log begins.
const GONE_AGAIN_MAX: u32 = 10;

/// Partitions and where they go back to.
pub(crate) struct Back {
    pub targets: Vec<(i32, i64)>,
    pub outage: u64,
}

/// Lanes that have drained, each of which is to begin again.
pub(super) struct Drained {
    topic: Arc<str>,
    lanes: Vec<(i32, i64, Arc<LaneControl>)>,
    outage: u64,
    answer: oneshot::Sender<Result<()>>,
}

/// A partition whose rows are not what they were when its position was committed, with what was kept then. That stays: it
/// tells of more than watchers know, who are told of it when the rows are there.
pub(super) struct Unready {
    topic: Arc<str>,
    partition: i32,
    note: Option<Arc<str>>,
}

impl Unready {
    pub(super) fn is(&self, (topic, partition): &(Arc<str>, i32)) -> bool {
        self.topic == *topic && self.partition == *partition
    }

    pub(super) fn is_of(&self, own: &Position) -> bool {
        self.topic == own.topic && self.partition == own.partition
    }
}

/// Why a partition is read from another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Someone asked for it.
    Seek,
    /// Something was handled too early: by a rewind for this outage, or when it was assigned.
    Back(Option<u64>),
    /// The same by a rewind to this place, which the log no longer has: what lay there is not to be corrected any more.
    BackToGone(u64, i64),
}

impl Why {
    /// Of a place to begin at: what was handled too early before it stays to be corrected.
    pub(super) fn back_to(self, offset: i64) -> Option<i64> {
        match self {
            Self::Seek => None,
            Self::Back(_) => Some(offset),
            Self::BackToGone(_, target) => Some(target),
        }
    }

    pub(super) fn outage(self) -> Option<u64> {
        match self {
            Self::Seek => None,
            Self::Back(outage) => outage,
            Self::BackToGone(outage, _) => Some(outage),
        }
    }
}

/// Sends partitions of one topic back.
pub(super) struct HubRewind {
    pub topic: Arc<str>,
    pub seeks: mpsc::Sender<SeekRequest>,
}

impl Rewind for HubRewind {
    fn rewind(&self, targets: Vec<(i32, i64)>, outage: u64) -> BoxFuture<'static, Result<()>> {
        let (seeks, topic) = (self.seeks.clone(), Arc::clone(&self.topic));
        Box::pin(async move {
            let ended = |topic: &str| Error::new(Kind::Closed, "the run has ended").at(format!("topic {topic}"));
            let (answer, answered) = oneshot::channel();
            let request = SeekRequest { topic: Arc::clone(&topic), to: Move::Back(Back { targets, outage }), answer };
            seeks.send(request).await.map_err(|_| ended(&topic))?;
            answered.await.map_err(|_| ended(&topic))?
        })
    }
}

impl Session {
    /// All partitions of an event, before any of them is read.
    ///
    /// Errors: as [`tap::assigned`].
    pub(super) async fn tell_watches(&mut self, assignments: &[Assignment]) -> Result<()> {
        let mut by_topic: HashMap<&Arc<str>, Vec<_>> = HashMap::new();
        for own in assignments {
            by_topic.entry(&own.feed.topic).or_default().push((own.feed.partition, own.note.clone()));
        }
        for (topic, partitions) in by_topic {
            let has_dependencies = self.watches(topic).iter().any(|watch| watch.is_dependency());
            if has_dependencies {
                self.uncounted.insert(Arc::clone(topic));
                self.count_partitions(topic).await;
            }
            let has_rows = has_dependencies && self.makers.get(topic).is_some_and(|maker| maker.fold().is_some());
            let is_sought = self.pending_seeks.contains_key(topic);
            let (later, now): (Vec<_>, Vec<_>) =
                self.watches(topic).iter().partition(|watch| watch.is_dependency() && (has_rows || is_sought));
            let at_topic = |error: Error| error.at(format!("topic {topic}"));
            tap::assigned(now.into_iter(), &partitions).map_err(at_topic)?;
            if is_sought {
                // What was kept is of a place that the seek leaves, and lanes of this event would go by it until then.
                let blank: Vec<_> = partitions.iter().map(|(partition, _)| (*partition, None)).collect();
                tap::assigned(later.into_iter(), &blank).map_err(at_topic)?;
            }
            if has_rows {
                let unready = |(partition, note)| Unready { topic: Arc::clone(topic), partition, note };
                self.unready.extend(partitions.into_iter().map(unready));
            }
        }
        Ok(())
    }

    /// What watchers could not be told when partitions came.
    pub(super) async fn tell_late(&mut self) -> Result<()> {
        if !self.uncounted.is_empty() && self.counted.elapsed() >= AGAIN {
            for topic in self.uncounted.clone() {
                self.count_partitions(&topic).await;
            }
        }
        self.tell_current()
    }

    /// Dependencies that are kept in rows have what was kept of them when the rows are built.
    ///
    /// Errors: as [`tap::assigned`].
    pub(super) fn tell_current(&mut self) -> Result<()> {
        let is_current = |own: &Unready| {
            let fold = self.makers.get(&own.topic).and_then(|maker| maker.fold());
            fold.is_none_or(|fold| fold.is_current(own.partition))
        };
        let (current, unready) = std::mem::take(&mut self.unready).into_iter().partition(is_current);
        self.unready = unready;
        for Unready { topic, partition, note } in current {
            let told = self.watches(&topic).iter().filter(|watch| watch.is_dependency());
            tap::assigned(told, &[(partition, note)]).map_err(|error| error.at(format!("topic {topic}")))?;
        }
        Ok(())
    }

    /// Whether watchers are still to be told of it.
    pub(super) fn is_unready(&self, key: &Key) -> bool {
        self.unready.iter().any(|own| own.is(key))
    }

    /// Tells dependencies how many partitions the topic has: as long as nobody knows, they cover nothing.
    async fn count_partitions(&mut self, topic: &Arc<str>) {
        let described = match self.backend.manage() {
            Ok(manage) => manage.describe(Arc::clone(topic)).await,
            Err(error) => Err(error),
        };
        let count = match described {
            Ok(description) => description.map(|description| description.partitions.len()),
            Err(error) => {
                tracing::warn!(%topic, "its partitions cannot be counted, which is tried again: {}", error.report());
                None
            }
        };
        self.counted = Instant::now();
        if count.is_some() {
            self.uncounted.remove(topic);
        }
        self.watches(topic).iter().for_each(|watch| watch.expects(count));
    }

    /// The assignment from where it has to begin, if that is earlier.
    pub(super) async fn assign_earlier(&mut self, assignment: &Assignment) -> Result<Option<Assignment>> {
        let Some(offset) = self.begin_earlier(assignment).await? else { return Ok(None) };
        let feed = &assignment.feed;
        self.begin_at(Arc::clone(&feed.topic), feed.partition, offset, Why::Back(None)).await.map(Some)
    }

    /// Where to begin instead: when a message before the position was handled too early, or when nobody knows how far a
    /// dependency had come by then, which its last message tells; [`begin_rows`](Self::begin_rows) where it fills tables.
    async fn begin_earlier(&self, assignment: &Assignment) -> Result<Option<i64>> {
        let (topic, partition) = (&assignment.feed.topic, assignment.feed.partition);
        let watches = self.watches(topic);
        let wanted = watches.iter().filter_map(|watch| watch.begin(partition)).min();
        if let Some(offset) = wanted.filter(|offset| *offset < assignment.from) {
            let offset = self.existing(topic, partition, offset).await?;
            tracing::info!(%topic, partition, offset, position = assignment.from, "begins earlier: what was handled too early comes again");
            return Ok(Some(offset));
        }
        let has_rows = self.makers.get(topic).is_some_and(|maker| maker.fold().is_some());
        let is_unknown = !has_rows && watches.iter().any(|watch| watch.needs_last(partition));
        let Some(last) = assignment.committed.filter(|next| is_unknown && *next > 0).map(|next| next - 1) else {
            return Ok(None);
        };
        match self.driver.resolve(Arc::clone(topic), partition, SeekTo::Offset(last)).await {
            Ok(last) => {
                tracing::info!(%topic, partition, offset = last, "its last message is handled again: a checkpoint does not know its marker");
                Ok(Some(last))
            }
            Err(error) if error.kind() == Kind::Seek && !is_not_ours(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins to read a partition; false when it was taken away again, and the event that says so is on its way.
    pub(super) async fn begin_if_ours(&mut self, assignment: &Assignment) -> Result<bool> {
        let Err(error) = self.begin_lane(assignment).await else { return Ok(true) };
        if !is_not_ours(&error) {
            return Err(error);
        }
        let (topic, partition) = (&assignment.feed.topic, assignment.feed.partition);
        tracing::info!(%topic, partition, "taken away before its rows were there: {error}");
        if let Some(fold) = self.makers.get(topic).and_then(|maker| maker.fold()) {
            fold.leave(partition);
        }
        self.unready.retain(|own| !own.is(&(Arc::clone(topic), partition)));
        Ok(false)
    }

    /// Where a partition of tables begins: where its rows go on, or earlier. What lies in the rows from the position on was
    /// done when nothing told of it was kept, and a dependency has to hear of it; of the last message before the position,
    /// too, when nobody knows how far it had come by then. The position stays where it is.
    pub(super) async fn begin_rows(&mut self, assignment: &Assignment, fold: &mut dyn LaneFold) -> Result<i64> {
        let (topic, partition) = (&assignment.feed.topic, assignment.feed.partition);
        let lowest = fold.begins_at();
        if !self.watches(topic).iter().any(|watch| watch.is_dependency()) {
            return Ok(lowest);
        }
        // Rows that are there already have what was kept of them.
        self.tell_current()?;
        let needs_last = self.watches(topic).iter().any(|watch| watch.needs_last(partition));
        let told = assignment.committed.map(|next| if needs_last { (next - 1).max(0) } else { next });
        if told.is_some_and(|told| told >= lowest) {
            return Ok(lowest);
        }
        let told = told.map_or(SeekTo::Beginning, SeekTo::Offset);
        let from = match self.driver.resolve(Arc::clone(topic), partition, told).await {
            // What the log has deleted meanwhile nobody can tell.
            Err(error) if error.kind() == Kind::Seek && !is_not_ours(&error) => {
                self.driver.resolve(Arc::clone(topic), partition, SeekTo::Beginning).await?
            }
            resolved => resolved?,
        };
        fold.tell_from(from);
        if from < lowest.min(assignment.from) {
            tracing::info!(%topic, partition, from, rows = lowest, "begins earlier: a checkpoint does not know all that its rows have");
        }
        Ok(from.min(lowest))
    }

    /// The offset, or the log's start where it is gone.
    async fn existing(&self, topic: &Arc<str>, partition: i32, offset: i64) -> Result<i64> {
        match self.driver.resolve(Arc::clone(topic), partition, SeekTo::Offset(offset)).await {
            Err(error) if error.kind() == Kind::Seek && !is_not_ours(&error) => {
                let start = self.driver.resolve(Arc::clone(topic), partition, SeekTo::Beginning).await?;
                tracing::error!(%topic, partition, offset, start, "the log begins later than what has to be corrected");
                Ok(start)
            }
            resolved => resolved,
        }
    }

    /// Where to go on when messages are gone that were not read yet: the topic's own policy says that.
    ///
    /// Errors: `Kind::OutOfRange` when it is to stop.
    async fn beyond(&self, topic: &Arc<str>, partition: i32, position: i64, start: i64) -> Result<i64> {
        let missing = start.abs_diff(position);
        let policy = self.makers.get(topic).map(|maker| maker.out_of_range()).unwrap_or_default();
        let begin = match policy {
            OutOfRange::Stop => {
                let message = format!(
                    "the log begins at {start}: with what was handled too early, {missing} offsets are gone that were not \
                     read during the outage. Say with `.out_of_range(…)` where to go on without them, and have the log keep \
                     records for longer than an outage lasts"
                );
                return Err(Error::new(Kind::OutOfRange, message).at(place(topic, partition, position)));
            }
            OutOfRange::Earliest => start,
            OutOfRange::Latest => self.driver.resolve(Arc::clone(topic), partition, SeekTo::End).await?,
        };
        tracing::error!(%topic, partition, position, start, begin, missing, "unread messages are gone as well: reading goes on elsewhere");
        Ok(begin)
    }

    /// The first steps of a rewind: no more dispatch, and what is in flight is done. That may take longer than a bound:
    /// it is said, and nothing moves before.
    pub(super) fn stop_for_rewind(&mut self, topic: Arc<str>, back: Back, answer: oneshot::Sender<Result<()>>) {
        let Back { targets, outage } = back;
        let (mut lanes, mut ends) = (Vec::new(), Vec::new());
        for (partition, target) in targets {
            if let Some(lane) = self.lanes.get(&(Arc::clone(&topic), partition)) {
                lane.control.stop.cancel();
                lanes.push((partition, target, Arc::clone(&lane.control)));
                ends.push(lane.ended.clone());
            }
        }
        step("stopped");
        let (env, limit) = (self.env.clone(), self.revoke_timeout);
        self.rewinds.spawn(async move {
            let all = async {
                for mut ended in ends {
                    let _ = ended.wait_for(|ended| *ended).await;
                }
            };
            tokio::pin!(all);
            if tokio::time::timeout(limit, &mut all).await.is_err() {
                let who = format!("rewind of topic {topic}");
                tracing::error!(%topic, ?limit, "what is in flight before a rewind is not done in time: it stays paused until it is");
                env.set_notice(&who, Some("waits for messages in flight".to_owned()));
                all.await;
                env.set_notice(&who, None);
            }
            step("drained");
            Drained { topic, lanes, outage, answer }
        });
    }

    /// The last steps: seek, commit, begin again. Partitions that were revoked or moved meanwhile are left alone.
    pub(super) async fn go_back(&mut self, drained: Drained) {
        let Drained { topic, lanes, outage, answer } = drained;
        let mut result = Ok(());
        let mut later = Vec::new();
        for (partition, target, control) in lanes {
            let key = (Arc::clone(&topic), partition);
            if !self.lanes.get(&key).is_some_and(|lane| Arc::ptr_eq(&lane.control, &control)) {
                continue;
            }
            let position = control.stats.position.load(Ordering::Acquire).max(0);
            let Err(error) = self.go_back_one(&topic, partition, target, position, outage).await else { continue };
            if error.is_retryable() {
                // Nothing of it is read meanwhile.
                tracing::warn!(%topic, partition, target, "cannot go back yet, which is tried again: {}", error.report());
                later.push((partition, target, control));
            } else {
                // Its lane has ended and nothing would read it: better no run than one that sits idle.
                self.env.fail(if error.kind() == Kind::OutOfRange {
                    error.copy()
                } else {
                    let place = format!("{topic}[{partition}]");
                    Error::new(Kind::Seek, format!("the rewind failed half-way: {error}")).at(place)
                });
                result = Err(error);
            }
        }
        if later.is_empty() {
            let _ = answer.send(result);
            return;
        }
        let again = Drained { topic, lanes: later, outage, answer };
        self.rewinds.spawn(async move {
            tokio::time::sleep(AGAIN).await;
            again
        });
    }

    /// Never forward from `position`, unless the log begins behind it.
    async fn go_back_one(
        &mut self,
        topic: &Arc<str>,
        partition: i32,
        target: i64,
        position: i64,
        outage: u64,
    ) -> Result<()> {
        let target = target.min(position);
        let mut again = 0..GONE_AGAIN_MAX;
        let begun = loop {
            let begun = self.begin_back(topic, partition, target, position, outage).await;
            // Retention has taken what was there a moment ago.
            let is_gone = begun.as_ref().is_err_and(|error| error.kind() == Kind::Seek && !is_not_ours(error));
            if !is_gone || again.next().is_none() {
                break begun;
            }
        };
        let assignment = match begun {
            // The broker has taken it away, and the event that says so is on its way: it commits where to go back to, and
            // whoever has the partition next goes there.
            Err(error) if is_not_ours(&error) => {
                tracing::info!(%topic, partition, target, "taken away before it was rewound: {error}");
                return Ok(());
            }
            begun => begun?,
        };
        tracing::info!(%topic, partition, target, from = assignment.from, outage, "rewound");
        self.start_lane(&assignment, None);
        step("rewound");
        Ok(())
    }

    /// Has the partition read from `target` on, or from where its log allows that.
    async fn begin_back(
        &mut self,
        topic: &Arc<str>,
        partition: i32,
        target: i64,
        position: i64,
        outage: u64,
    ) -> Result<Assignment> {
        let offset = match self.existing(topic, partition, target).await? {
            start if start > position => self.beyond(topic, partition, position, start).await?,
            offset => offset,
        };
        let why = if offset > target { Why::BackToGone(outage, target) } else { Why::Back(Some(outage)) };
        self.begin_at(Arc::clone(topic), partition, offset, why).await
    }
}
