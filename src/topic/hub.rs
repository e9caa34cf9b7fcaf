//! One reading connection of an app: which partitions it has, a lane for each, and what is committed when.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::assigned::Late;
use super::back::{Back, Drained, HubRewind, Unready};
use super::driver::{
    Assignment, Backend, Driver, EVENTS_MAX, Event, Membership, OutOfRange, SeekTo, Subscription, Wanted,
};
use super::lane::LaneControl;
use super::offsets::OwnPositions;
use super::tables;
use crate::error::{Error, Kind, Result};
use crate::flow::fold::{LaneFold, SourceFold};
use crate::flow::tap::{Rewind, Watch, needed, position_and_note};
use crate::flow::{Env, Position, SourceStats};
use crate::util::step;

pub(super) type Key = (Arc<str>, i32);

/// Makes and runs the lane of a partition; the typed part of a topic, as the hub sees it.
pub(crate) trait LaneMaker: Send + Sync {
    /// The future of a lane.
    fn lane(
        &self,
        assignment: &Assignment,
        control: Arc<LaneControl>,
        fold: Option<Box<dyn LaneFold>>,
    ) -> BoxFuture<'static, ()>;
    /// The source's counters.
    fn stats(&self) -> &Arc<SourceStats>;
    /// Whether a partition that the group has no position for is an error.
    fn needs_position(&self) -> bool;
    /// What to do when the log does not have a position.
    fn out_of_range(&self) -> OutOfRange;
    /// Who watches the source.
    fn watches(&self) -> &[Arc<dyn Watch>];
    /// The tables that it is folded into.
    fn fold(&self) -> Option<&Arc<dyn SourceFold>>;
}

/// A seek that someone asked for.
pub(crate) struct SeekRequest {
    pub topic: Arc<str>,
    pub to: Move,
    pub answer: oneshot::Sender<Result<()>>,
}

/// Where to.
pub(crate) enum Move {
    /// All partitions that are ours.
    All(SeekTo),
    /// These, for an outage that is over.
    Back(Back),
}

/// Seeks that may wait.
const SEEKS_MAX: usize = 16;

/// One reading connection of one run; made while the app is built, started by the first of its topics.
pub(crate) struct Hub {
    backend: Arc<dyn Backend>,
    group: Option<Arc<str>>,
    topics: Mutex<Vec<(Wanted, Arc<dyn LaneMaker>)>>,
    seeks: mpsc::Sender<SeekRequest>,
    waiting_seeks: Mutex<Option<mpsc::Receiver<SeekRequest>>>,
    ended: watch::Sender<bool>,
}

impl Hub {
    /// With a group, or reading everything.
    pub(crate) fn new(backend: Arc<dyn Backend>, group: Option<Arc<str>>) -> Arc<Self> {
        let (seeks, waiting) = mpsc::channel(SEEKS_MAX);
        Arc::new(Self {
            backend,
            group,
            topics: Mutex::default(),
            seeks,
            waiting_seeks: Mutex::new(Some(waiting)),
            ended: watch::Sender::new(false),
        })
    }

    pub(crate) fn add(&self, wanted: Wanted, maker: Arc<dyn LaneMaker>) {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).push((wanted, maker));
    }

    /// Sends partitions of a topic back.
    pub(crate) fn rewind(&self, topic: &Arc<str>) -> Arc<dyn Rewind> {
        Arc::new(HubRewind { topic: Arc::clone(topic), seeks: self.seeks.clone() })
    }

    pub(crate) fn seeks(&self) -> mpsc::Sender<SeekRequest> {
        self.seeks.clone()
    }

    /// Runs the connection, or waits for the topic that does.
    pub(crate) async fn run(self: Arc<Self>, env: Env) -> Result<()> {
        let seeks = self.waiting_seeks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(seeks) = seeks else {
            let mut ended = self.ended.subscribe();
            let _ = ended.wait_for(|ended| *ended).await;
            return Ok(());
        };
        let topics = std::mem::take(&mut *self.topics.lock().unwrap_or_else(PoisonError::into_inner));
        // Opening a large log takes a while: who does not want to wait for it ends the run.
        let opened = tokio::select! {
            biased;
            () = env.stop().cancelled() => None,
            opened = Session::open(&self, topics, &env) => Some(opened),
        };
        let result = match opened {
            Some(Ok((session, events))) => session.run(events, seeks).await,
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        if let Err(error) = result {
            env.fail(error);
        }
        self.ended.send_replace(true);
        Ok(())
    }
}

pub(super) struct Lane {
    pub(super) control: Arc<LaneControl>,
    pub(super) ended: watch::Receiver<bool>,
    maker: Arc<dyn LaneMaker>,
    /// What was committed with the last position.
    noted: Option<Arc<str>>,
}

/// The running part of a hub.
pub(super) struct Session {
    pub(super) env: Env,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) makers: HashMap<Arc<str>, Arc<dyn LaneMaker>>,
    pub(super) lanes: HashMap<Key, Lane>,
    /// Topics whose handlers take no more messages, and who tells of one.
    pub(super) over: HashSet<Arc<str>>,
    pub(super) lane_over: Arc<Notify>,
    /// Work that must not hold up events: answers to revocations.
    answers: JoinSet<()>,
    /// Partitions on their way back, while they drain.
    pub(super) rewinds: JoinSet<Drained>,
    /// Positions that the app keeps itself.
    own: Option<Arc<OwnPositions>>,
    pub(super) pending_seeks: HashMap<Arc<str>, SeekTo>,
    /// Partitions that could not begin yet.
    pub(super) late: Late,
    /// Partitions that watchers are told of when their rows are built.
    pub(super) unready: Vec<Unready>,
    /// Watched topics with a number of partitions that nobody knows yet.
    pub(super) uncounted: BTreeSet<Arc<str>>,
    /// When they were counted last.
    pub(super) counted: Instant,
    pub(super) revoke_timeout: Duration,
}

impl Session {
    async fn open(
        hub: &Hub,
        topics: Vec<(Wanted, Arc<dyn LaneMaker>)>,
        env: &Env,
    ) -> Result<(Self, mpsc::Receiver<Event>)> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (group, own) = match &hub.group {
            Some(group) => (Membership::Group(Arc::clone(group)), None),
            None => {
                let own = OwnPositions::open(&*hub.backend, env).await?;
                (Membership::Everything(own.all().await), Some(own))
            }
        };
        tables::open(&*hub.backend, topics.iter().filter_map(|(_, maker)| maker.fold()), env).await?;
        let revoke_timeout = env.parts().revoke_timeout;
        let wanted = topics.iter().map(|(wanted, _)| wanted.clone()).collect();
        let driver = hub.backend.subscribe(Subscription { topics: wanted, group, revoke_timeout }, sender)?;
        let makers = topics.into_iter().map(|(wanted, maker)| (wanted.name, maker)).collect();
        let session = Self {
            env: env.clone(),
            backend: Arc::clone(&hub.backend),
            driver,
            makers,
            lanes: HashMap::new(),
            over: HashSet::new(),
            lane_over: Arc::default(),
            answers: JoinSet::new(),
            rewinds: JoinSet::new(),
            own,
            pending_seeks: HashMap::new(),
            late: Late::new(),
            unready: Vec::new(),
            uncounted: BTreeSet::new(),
            counted: Instant::now(),
            revoke_timeout,
        };
        Ok((session, events))
    }

    async fn run(mut self, mut events: mpsc::Receiver<Event>, mut seeks: mpsc::Receiver<SeekRequest>) -> Result<()> {
        let mut commits = interval(self.env.parts().commit_interval.max(Duration::from_millis(1)));
        commits.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (stop, kill) = (self.env.stop().clone(), self.env.kill().clone());
        let lane_over = Arc::clone(&self.lane_over);
        let mut draining = false;
        let mut failure = None;
        loop {
            tokio::select! {
                biased;
                () = kill.cancelled() => break,
                () = stop.cancelled(), if !draining => {
                    draining = true;
                    self.lanes.values().for_each(|lane| lane.control.stop.cancel());
                }
                () = lane_over.notified(), if !draining => {
                    if let Err(error) = self.start_over().await {
                        self.env.fail(error);
                    }
                    draining = self.end_topics();
                }
                () = all_ended(self.lanes.values()), if draining => break,
                event = events.recv() => match event {
                    Some(event) => if let Err(error) = self.on_event(event, draining).await {
                        self.env.fail(error);
                    },
                    None => {
                        failure = (!draining).then(|| Error::new(Kind::Broker, "the reading connection has ended"));
                        break;
                    }
                },
                Some(_) = self.answers.join_next() => {}
                Some(Ok(drained)) = self.rewinds.join_next(), if !draining => self.go_back(drained).await,
                Some(request) = seeks.recv(), if !draining => self.on_seek(request).await,
                _ = commits.tick() => {
                    self.commit().await;
                    let begun = if draining { Ok(()) } else { self.assign_late().await };
                    let told = match begun {
                        Ok(()) => self.tell_late().await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = told {
                        self.env.fail(error);
                    }
                }
            }
        }
        // Also after a kill: what is done is committed, within bounds.
        let _ = tokio::time::timeout(self.revoke_timeout, self.commit()).await;
        let closed = tokio::time::timeout(self.revoke_timeout, self.close(events)).await;
        match (failure, closed) {
            (Some(failure), _) => Err(failure),
            (None, Ok(result)) => result,
            (None, Err(_)) => {
                tracing::warn!("the broker did not let go of the connection in time");
                Ok(())
            }
        }
    }

    /// Leaves the group; whatever is still asked meanwhile is answered with nothing.
    async fn close(&mut self, mut events: mpsc::Receiver<Event>) -> Result<()> {
        let mut close = self.driver.close();
        loop {
            tokio::select! {
                result = &mut close => return result,
                Some(event) = events.recv() => drop(event),
            }
        }
    }

    async fn on_event(&mut self, event: Event, draining: bool) -> Result<()> {
        match event {
            Event::Assigned(assignments) if draining => {
                drop(assignments);
            }
            Event::Assigned(assignments) => self.on_assigned(assignments).await?,
            Event::Revoked { partitions, lost, answer } => self.revoke(partitions, lost, answer),
            Event::Notice { topic, text } => {
                if let Some(text) = &text {
                    tracing::warn!(topic = topic.as_deref().unwrap_or_default(), "{text}");
                }
                let concerned =
                    self.makers.iter().filter(|(name, _)| topic.as_ref().is_none_or(|topic| topic == *name));
                concerned.for_each(|(_, maker)| maker.stats().set_notice(text.clone()));
            }
            Event::Failed(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn start_lane(&mut self, assignment: &Assignment, fold: Option<Box<dyn LaneFold>>) {
        let feed = &assignment.feed;
        let Some(maker) = self.makers.get(&feed.topic).cloned() else { return };
        let stats = maker.stats().add_lane(feed.partition);
        let control = LaneControl::new(Arc::clone(&stats));
        let lane = maker.lane(assignment, Arc::clone(&control), fold);
        let (end, ended) = watch::channel(false);
        let source = Arc::clone(maker.stats());
        let (over, own) = (Arc::clone(&self.lane_over), Arc::clone(&control));
        self.env.tasks().spawn(async move {
            lane.await;
            source.remove_lane(&stats);
            end.send_replace(true);
            if own.is_over() || own.starts_over() {
                over.notify_one();
            }
        });
        let lane = Lane { control, ended, maker, noted: assignment.note.clone() };
        if let Some(old) = self.lanes.insert((Arc::clone(&feed.topic), feed.partition), lane) {
            old.control.kill.cancel();
        }
    }

    /// Takes the partitions away from us and answers when their lanes have drained, or when the time is over.
    fn revoke(&mut self, partitions: Vec<Key>, lost: bool, answer: oneshot::Sender<Vec<Position>>) {
        // Those that never began, too.
        let with_maker = |(topic, partition): &Key| Some((*partition, Arc::clone(self.makers.get(topic)?)));
        let watched: Vec<_> = partitions.iter().filter_map(with_maker).collect();
        watched.iter().filter_map(|(own, maker)| Some((own, maker.fold()?))).for_each(|(own, fold)| fold.leave(*own));
        let is_revoked = |own: &mut Unready| partitions.iter().any(|key| own.is(key));
        let unready: Vec<_> = self.unready.extract_if(.., is_revoked).collect();
        self.late.leave(&partitions);
        let lanes: Vec<_> =
            partitions.into_iter().filter_map(|key| Some((key.clone(), self.lanes.remove(&key)?))).collect();
        tracing::info!(partitions = lanes.len(), lost, "revoked");
        let let_go = move || {
            for (partition, maker) in watched {
                maker.watches().iter().for_each(|watch| watch.revoked(partition));
            }
        };
        if lost {
            lanes.iter().for_each(|(_, lane)| lane.control.kill.cancel());
            let_go();
            let _ = answer.send(Vec::new());
            return;
        }
        let (env, limit) = (self.env.clone(), self.revoke_timeout.mul_f64(0.8));
        self.answers.spawn(async move {
            let mut positions = drain(lanes, limit).await;
            positions.retain(|own| !unready.iter().any(|unready| unready.is_of(own)));
            let_go();
            // Durable before committed.
            let positions = match env.sync().await {
                Ok(()) => positions,
                Err(error) => {
                    env.fail(error);
                    Vec::new()
                }
            };
            let _ = answer.send(positions);
        });
    }

    /// Commits what has moved since the last time. A failure is tried again by the next tick.
    pub(super) async fn commit(&mut self) {
        self.lanes.values().for_each(|lane| lane.control.poke());
        tokio::task::yield_now().await;
        let ready = self.lanes.iter().filter(|(key, _)| !self.is_unready(key));
        let moved: Vec<_> = ready.filter_map(|(key, lane)| moved(key, lane)).collect();
        if moved.is_empty() {
            return;
        }
        step("committing");
        // Durable before committed.
        let result = match self.env.sync().await {
            Ok(()) => self.store(moved.clone()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::warn!("positions could not be committed, the next commit tries again: {}", error.report());
            return;
        }
        step("committed");
        for Position { topic, partition, next, note, .. } in moved {
            if let Some(lane) = self.lanes.get_mut(&(topic, partition)) {
                lane.noted = note;
                lane.control.stats.committed.store(next, Ordering::Release);
            }
        }
    }

    /// Tells the broker what is needed of positions that are as they were stored, also of those that never moved here.
    pub(super) fn tell_stored(&self) {
        if self.own.is_some() {
            let all = self.lanes.iter().filter_map(|(key, lane)| position(key, lane));
            self.driver.stored(all.filter_map(|(position, moved)| (!moved).then_some(position)).collect());
        }
    }

    pub(super) async fn store(&mut self, positions: Vec<Position>) -> Result<()> {
        match &self.own {
            Some(own) => {
                own.store(self.driver.stamp(positions.clone()).await?).await?;
                self.driver.stored(positions);
                Ok(())
            }
            None => self.driver.commit(positions).await,
        }
    }

    /// Who watches a topic.
    pub(super) fn watches(&self, topic: &Arc<str>) -> &[Arc<dyn Watch>] {
        self.makers.get(topic).map(|maker| maker.watches()).unwrap_or_default()
    }
}

async fn all_ended(lanes: impl Iterator<Item = &Lane>) {
    for lane in lanes {
        let _ = lane.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// The position of a lane, if it moved since it was committed.
fn moved(key: &Key, lane: &Lane) -> Option<Position> {
    position(key, lane).and_then(|(position, moved)| moved.then_some(position))
}

/// The position of a lane, and whether it moved since it was committed.
fn position((topic, partition): &Key, lane: &Lane) -> Option<(Position, bool)> {
    let stats = &lane.control.stats;
    let read = || stats.position.load(Ordering::Acquire);
    let (next, note) = position_and_note(lane.maker.watches(), *partition, read);
    if next < 0 {
        return None;
    }
    let moved = next != stats.committed.load(Ordering::Acquire) || note != lane.noted;
    let needed = needed(lane.maker.watches(), *partition, next);
    Some((Position { topic: Arc::clone(topic), partition: *partition, next, needed, note }, moved))
}

/// Stops lanes, waits for them for at most `limit`, and gives their positions.
pub(super) async fn drain(lanes: Vec<(Key, Lane)>, limit: Duration) -> Vec<Position> {
    lanes.iter().for_each(|(_, lane)| lane.control.stop.cancel());
    let ended = all_ended(lanes.iter().map(|(_, lane)| lane));
    if tokio::time::timeout(limit, ended).await.is_err() {
        tracing::warn!(?limit, "some messages were not done in time: their partitions move on without them");
    }
    let positions = lanes.iter().filter_map(|(key, lane)| moved(key, lane)).collect();
    lanes.iter().for_each(|(_, lane)| lane.control.kill.cancel());
    positions
}
