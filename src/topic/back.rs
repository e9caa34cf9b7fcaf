//! Going back: where a partition begins when something was handled too early, and the rewind after an outage.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::driver::{Assignment, SeekTo};
use super::hub::{Move, SeekRequest, Session};
use super::lane::LaneControl;
use crate::error::{Error, Kind, Result};
use crate::flow::tap::{self, Rewind};
use crate::util::step;

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

/// Why a partition is read from another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Someone asked for it.
    Seek,
    /// Something was handled too early: by a rewind for this outage, or when it was assigned.
    Back(Option<u64>),
}

impl Why {
    pub(super) fn outage(self) -> Option<u64> {
        match self {
            Self::Seek => None,
            Self::Back(outage) => outage,
        }
    }
}

fn never_forward(target: i64, control: &LaneControl) -> i64 {
    target.min(control.stats.position.load(Ordering::Acquire).max(0))
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
    pub(super) fn tell_watches(&self, assignments: &[Assignment]) {
        let mut by_topic: HashMap<&Arc<str>, Vec<_>> = HashMap::new();
        for own in assignments {
            by_topic.entry(&own.feed.topic).or_default().push((own.feed.partition, own.note.clone()));
        }
        for (topic, partitions) in by_topic {
            tap::assigned(self.watches(topic), &partitions);
        }
    }

    /// The assignment from where it has to begin, if that is earlier.
    pub(super) async fn assign_earlier(&mut self, assignment: &Assignment) -> Result<Option<Assignment>> {
        let Some(offset) = self.begin_earlier(assignment).await? else { return Ok(None) };
        let feed = &assignment.feed;
        self.begin_at(Arc::clone(&feed.topic), feed.partition, offset, Why::Back(None)).await.map(Some)
    }

    /// Where to begin instead, when a message before the position was handled too early.
    async fn begin_earlier(&self, assignment: &Assignment) -> Result<Option<i64>> {
        let (topic, partition) = (&assignment.feed.topic, assignment.feed.partition);
        let wanted = self.watches(topic).iter().filter_map(|watch| watch.begin(partition)).min();
        let Some(offset) = wanted.filter(|offset| *offset < assignment.from) else { return Ok(None) };
        let offset = self.existing(topic, partition, offset).await?;
        tracing::info!(%topic, partition, offset, position = assignment.from, "begins earlier: what was handled too early comes again");
        Ok(Some(offset))
    }

    /// The offset, or the log's start where it is gone.
    async fn existing(&self, topic: &Arc<str>, partition: i32, offset: i64) -> Result<i64> {
        match self.driver.resolve(Arc::clone(topic), partition, SeekTo::Offset(offset)).await {
            Err(error) if error.kind() == Kind::Seek => {
                let start = self.driver.resolve(Arc::clone(topic), partition, SeekTo::Beginning).await?;
                tracing::error!(%topic, partition, offset, start, "the log begins later than what has to be corrected");
                Ok(start)
            }
            resolved => resolved,
        }
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
        for (partition, target, control) in lanes {
            let key = (Arc::clone(&topic), partition);
            if !self.lanes.get(&key).is_some_and(|lane| Arc::ptr_eq(&lane.control, &control)) {
                continue;
            }
            if let Err(error) = self.go_back_one(&topic, partition, never_forward(target, &control), outage).await {
                // Its lane has ended and nothing would read it: better no run than one that sits idle.
                let place = format!("{topic}[{partition}]");
                self.env.fail(Error::new(Kind::Seek, format!("the rewind failed half-way: {error}")).at(place));
                result = Err(error);
            }
        }
        let _ = answer.send(result);
    }

    async fn go_back_one(&mut self, topic: &Arc<str>, partition: i32, target: i64, outage: u64) -> Result<()> {
        let begun = match self.existing(topic, partition, target).await {
            Ok(target) => self.begin_at(Arc::clone(topic), partition, target, Why::Back(Some(outage))).await,
            Err(error) => Err(error),
        };
        let assignment = match begun {
            // The broker has taken it away, and the event that says so is on its way: it commits where to go back to, and
            // whoever has the partition next goes there.
            Err(error) if error.kind() == Kind::Seek => {
                tracing::info!(%topic, partition, target, "taken away before it was rewound: {error}");
                return Ok(());
            }
            begun => begun?,
        };
        tracing::info!(%topic, partition, target, outage, "rewound");
        self.start_lane(&assignment, None);
        step("rewound");
        Ok(())
    }
}
