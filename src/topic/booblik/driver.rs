//! One app's reading connection: all partitions of all its topics.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::feeding::Feeder;
use super::log::Log;
use super::{begin, place};
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::topic::begin::Bounds;
use crate::topic::driver::{
    Assignment, Driver, Event, EventSender, Feed, Kept, Membership, SeekTo, Subscription, Wanted, not_ours,
};

/// How often a topic that is missing is looked for.
const MISSING_AGAIN: Duration = Duration::from_millis(500);

type Tp = (Arc<str>, i32);

/// Reads until it is closed or dropped.
pub(super) struct LogDriver<L: Log> {
    inner: Arc<Inner<L>>,
    stop: CancellationToken,
}

struct Inner<L> {
    log: Arc<L>,
    topics: Vec<Wanted>,
    kept: Vec<Kept>,
    events: EventSender,
    /// Ends the reading of each partition.
    readings: Mutex<HashMap<Tp, DropGuard>>,
    stop: CancellationToken,
    /// The log was out of reach, and is not any more.
    back: Notify,
}

impl<L: Log> LogDriver<L> {
    /// Begins to read.
    ///
    /// Errors: `Kind::Unsupported` outside a tokio runtime, and for a group.
    pub(super) fn start(log: Arc<L>, subscription: Subscription, events: EventSender) -> Result<Self> {
        let no_runtime = |_| Error::new(Kind::Unsupported, "topics are read in a tokio runtime only");
        let runtime = Handle::try_current().map_err(no_runtime)?;
        let Membership::Everything(kept) = subscription.group else {
            return Err(Error::new(Kind::Unsupported, "this broker knows no groups"));
        };
        let stop = CancellationToken::new();
        let (topics, readings) = (subscription.topics, Mutex::default());
        let inner = Arc::new(Inner { log, topics, kept, events, readings, stop: stop.clone(), back: Notify::new() });
        let looking = Arc::clone(&inner);
        runtime.spawn(async move { looking.stop.run_until_cancelled(looking.look()).await });
        if let Some(away) = inner.log.away() {
            let watching = Arc::clone(&inner);
            runtime.spawn(async move { watching.stop.run_until_cancelled(watching.watch(away)).await });
        }
        Ok(Self { inner, stop })
    }
}

impl<L: Log> Drop for LogDriver<L> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<L: Log> Inner<L> {
    /// Finds the topics and their partitions, now and as often as that can change.
    async fn look(&self) {
        let mut known: HashMap<Arc<str>, Found> = HashMap::new();
        loop {
            for wanted in &self.topics {
                let found = known.entry(Arc::clone(&wanted.name)).or_default();
                if let Err(error) = self.look_for(wanted, found).await {
                    // An app that does not listen any more has ended.
                    let _ = self.events.send(Event::Failed(error)).await;
                    return;
                }
            }
            let pause = match (known.values().all(|found| found.there), L::LOOK_AGAIN) {
                (true, None) => return,
                (true, Some(pause)) => pause,
                (false, _) => MISSING_AGAIN,
            };
            // A broker that comes back may have other topics, and what was said before was taken back with its return.
            if tokio::time::timeout(pause, self.back.notified()).await.is_ok() {
                known.values_mut().for_each(|found| found.told = None);
            }
        }
    }

    /// Says that the log cannot be reached, and that it can again.
    async fn watch(&self, mut away: watch::Receiver<Option<Arc<str>>>) {
        let mut is_said = false;
        loop {
            let why = away.borrow_and_update().clone();
            if why.is_some() != is_said {
                is_said = why.is_some();
                let text = why.map(|why| format!("the broker cannot be reached: {why}"));
                // An app that does not listen any more has ended.
                let _ = self.events.send(Event::Notice { topic: None, text }).await;
                if !is_said {
                    self.back.notify_one();
                }
            }
            if away.changed().await.is_err() {
                return;
            }
        }
    }

    async fn look_for(&self, wanted: &Wanted, found: &mut Found) -> Result<()> {
        // What turns up at a later look was created since the first one.
        let is_new = found.was_looked_for;
        let trouble = match self.assign(wanted, is_new).await {
            Ok(true) => {
                (found.was_looked_for, found.there) = (true, true);
                None
            }
            Ok(false) => {
                found.was_looked_for = true;
                Some(self.log.missing(wanted))
            }
            Err(error) if error.is_retryable() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        if found.told != trouble && !(found.there && trouble.is_some()) {
            found.told.clone_from(&trouble);
            let _ = self.events.send(Event::Notice { topic: Some(Arc::clone(&wanted.name)), text: trouble }).await;
        }
        Ok(())
    }

    /// Begins to read the partitions that are not read yet; whether the topic is there.
    async fn assign(&self, wanted: &Wanted, is_new: bool) -> Result<bool> {
        let Some(partitions) = self.log.partitions(wanted).await? else { return Ok(false) };
        let mut assignments = Vec::new();
        for (partition, bounds) in partitions {
            if self.is_read(&wanted.name, partition) {
                continue;
            }
            let kept = self.kept.iter().find(|kept| kept.topic == wanted.name && kept.partition == partition);
            let from = begin::find(&*self.log, wanted, partition, bounds, kept, is_new).await?;
            let feed = self.read(wanted, partition, from.offset);
            let note = kept.and_then(|kept| kept.note.clone());
            assignments.push(Assignment { feed, from: from.offset, committed: from.committed, note });
        }
        if !assignments.is_empty() {
            let _ = self.events.send(Event::Assigned(assignments)).await;
        }
        Ok(true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Tp, DropGuard>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_read(&self, topic: &Arc<str>, partition: i32) -> bool {
        self.lock().contains_key(&(Arc::clone(topic), partition))
    }

    /// Reads the partition from `next` on, into a new feed, and no longer into an older one.
    fn read(&self, wanted: &Wanted, partition: i32, next: i64) -> Arc<Feed> {
        let feed = Feed::new(&wanted.name, partition);
        let stop = self.stop.child_token();
        let feeder = Feeder {
            log: Arc::clone(&self.log),
            wanted: wanted.clone(),
            feed: Arc::clone(&feed),
            events: self.events.clone(),
            next,
            troubled: false,
        };
        self.lock().insert((Arc::clone(&wanted.name), partition), stop.clone().drop_guard());
        tokio::spawn(async move { stop.run_until_cancelled(feeder.run()).await });
        feed
    }

    /// The topic, and where the log of a partition of ours begins and ends.
    async fn bounds(&self, topic: &Arc<str>, partition: i32) -> Result<(&Wanted, Bounds)> {
        let not_ours = || not_ours(place(topic, partition));
        let wanted = self.topics.iter().find(|wanted| wanted.name == *topic).ok_or_else(not_ours)?;
        let partitions = self.log.partitions(wanted).await?.unwrap_or_default();
        let own = partitions.into_iter().find(|(number, _)| *number == partition);
        own.filter(|_| self.is_read(topic, partition)).map(|(_, bounds)| (wanted, bounds)).ok_or_else(not_ours)
    }

    async fn resolve(&self, topic: Arc<str>, partition: i32, to: SeekTo) -> Result<i64> {
        let (_, bounds) = self.bounds(&topic, partition).await?;
        begin::resolve(&*self.log, &topic, partition, bounds, to).await
    }

    async fn seek(&self, topic: Arc<str>, partition: i32, offset: i64) -> Result<Assignment> {
        let (wanted, bounds) = self.bounds(&topic, partition).await?;
        let from = begin::resolve(&*self.log, &topic, partition, bounds, SeekTo::Offset(offset)).await?;
        Ok(Assignment { feed: self.read(wanted, partition, from), from, committed: None, note: None })
    }

    async fn stamp(&self, positions: Vec<Position>) -> Result<Vec<Kept>> {
        let mut stamped = Vec::with_capacity(positions.len());
        for Position { topic, partition, next, note, .. } in positions {
            self.log.sync(&topic, partition).await?;
            let crc = match next {
                ..=0 => None,
                _ => self.log.crc(&topic, partition, next - 1).await?,
            };
            stamped.push(Kept { topic, partition, next, crc, note });
        }
        Ok(stamped)
    }
}

/// What is known of a topic.
#[derive(Default)]
struct Found {
    /// The broker has answered whether it is there.
    was_looked_for: bool,
    there: bool,
    told: Option<String>,
}

impl<L: Log> Driver for LogDriver<L> {
    fn commit(&self, _positions: Vec<Position>) -> BoxFuture<'static, Result<()>> {
        ready(Err(Error::new(Kind::Unsupported, "this broker keeps no positions"))).boxed()
    }

    fn stamp(&self, positions: Vec<Position>) -> BoxFuture<'static, Result<Vec<Kept>>> {
        let inner = Arc::clone(&self.inner);
        async move { inner.stamp(positions).await }.boxed()
    }

    fn resolve(&self, topic: Arc<str>, partition: i32, to: SeekTo) -> BoxFuture<'static, Result<i64>> {
        let inner = Arc::clone(&self.inner);
        async move { inner.resolve(topic, partition, to).await }.boxed()
    }

    fn seek(&self, topic: Arc<str>, partition: i32, offset: i64) -> BoxFuture<'static, Result<Assignment>> {
        let inner = Arc::clone(&self.inner);
        async move { inner.seek(topic, partition, offset).await }.boxed()
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.stop.cancel();
        self.inner.lock().clear();
        ready(Ok(())).boxed()
    }
}
