//! Watches the topics of a subscription: creates or awaits missing ones, notices new partitions, and says when the
//! broker is back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Admin;
use super::leftover::Leftover;
use super::lookup::{self, Lookup};
use super::reader::Command;
use super::rebalance::names;
use super::shared::Shared;
use super::wake::Signal;
use crate::error::Result;
use crate::topic::driver::{Event, EventSender, Wanted};

/// Between two looks while a topic or the broker is missing.
const MISSING_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks at topics that are read without a group, where nobody else notices new partitions.
const GROWTH_INTERVAL: Duration = Duration::from_secs(3);
/// Between two looks when all is well.
const CALM_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct Watch {
    pub lookup: Arc<Lookup>,
    pub admin: Admin,
    pub shared: Arc<Shared>,
    pub topics: Vec<Wanted>,
    pub in_group: bool,
    /// The group in which this member is a static one.
    pub static_in: Option<Arc<str>>,
    pub events: EventSender,
    /// Weak: the driver's end decides when reading ends.
    pub commands: mpsc::WeakSender<Command>,
    pub signal: Arc<Signal>,
    pub stop: CancellationToken,
}

/// What has been seen and told.
#[derive(Default)]
struct Seen {
    partitions: HashMap<Arc<str>, i32>,
    missing: HashSet<Arc<str>>,
    broker_told: bool,
    subscribed: bool,
    leftover: Leftover,
}

impl Watch {
    pub(super) async fn run(self) {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.watch()).await;
    }

    async fn watch(self) {
        let mut seen = Seen::default();
        loop {
            let looked = self.look_at_all(&mut seen).await;
            self.tell_broker(&mut seen, looked.as_ref().err().map(ToString::to_string)).await;
            let pause = match looked {
                Err(_) => MISSING_INTERVAL,
                Ok(()) if !seen.missing.is_empty() => MISSING_INTERVAL,
                Ok(()) if self.static_in.is_some() && !seen.leftover.none => MISSING_INTERVAL,
                Ok(()) if self.in_group => CALM_INTERVAL,
                Ok(()) => GROWTH_INTERVAL,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shared.trouble.notified() => {
                    let trouble = self.shared.take_trouble();
                    if trouble.is_some() {
                        self.tell_broker(&mut seen, trouble).await;
                    }
                }
            }
        }
    }

    async fn look_at_all(&self, seen: &mut Seen) -> Result<()> {
        for wanted in &self.topics {
            self.look(wanted, seen).await?;
        }
        if self.in_group && !seen.subscribed {
            seen.subscribed = true;
            self.command(Command::Subscribe).await;
        }
        match &self.static_in {
            Some(group) => self.look_at_group(group, seen).await,
            None => Ok(()),
        }
    }

    /// Joins the group again when it has partitions that nobody reads.
    async fn look_at_group(&self, group: &Arc<str>, seen: &mut Seen) -> Result<()> {
        let asked = Arc::clone(group);
        let look = lookup::blocking(&self.lookup, "no broker answers", move |lookup| lookup.group(&asked)).await?;
        let all = seen.partitions.iter().flat_map(|(topic, count)| (0..*count).map(|part| (Arc::clone(topic), part)));
        let left = seen.leftover.after(&look, all, Instant::now());
        if !left.is_empty() {
            let partitions = names(&left);
            tracing::warn!(%partitions, "the group gives them to no member, as can be when a static one comes back: joining again");
            self.command(Command::Rejoin).await;
        }
        Ok(())
    }

    async fn look(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let name = Arc::clone(&wanted.name);
        let count = lookup::blocking(&self.lookup, "no broker answers", move |lookup| lookup.partitions(&name)).await?;
        self.shared.seen(&wanted.name, count.unwrap_or(0));
        match count {
            Some(count) => self.found(wanted, count, seen).await,
            None => self.missing(wanted, seen).await,
        }
        Ok(())
    }

    async fn found(&self, wanted: &Wanted, count: i32, seen: &mut Seen) {
        if seen.missing.remove(&wanted.name) {
            tracing::info!(topic = &*wanted.name, "the topic is there");
            self.tell(Some(&wanted.name), None).await;
        }
        let before = seen.partitions.insert(Arc::clone(&wanted.name), count).unwrap_or(0);
        if !self.in_group && count > before {
            let new = (before..count).map(|partition| (Arc::clone(&wanted.name), partition));
            self.command(Command::Take(new.collect())).await;
        }
    }

    async fn missing(&self, wanted: &Wanted, seen: &mut Seen) {
        let mut text = format!("waits for the topic `{}`, which does not exist", wanted.name);
        if let Some(partitions) = wanted.partitions {
            match self.admin.create(&wanted.name, partitions).await {
                Ok(()) => {
                    tracing::info!(topic = &*wanted.name, partitions, "topic created");
                    // Looked for again soon; there is nothing to warn of.
                    seen.missing.insert(Arc::clone(&wanted.name));
                    return;
                }
                Err(error) => text = format!("cannot create the topic `{}`: {error}", wanted.name),
            }
        }
        if seen.missing.insert(Arc::clone(&wanted.name)) {
            self.tell(Some(&wanted.name), Some(text)).await;
        }
    }

    /// Says that the broker is away, or back; each once.
    async fn tell_broker(&self, seen: &mut Seen, trouble: Option<String>) {
        if seen.broker_told == trouble.is_some() {
            return;
        }
        seen.broker_told = trouble.is_some();
        if trouble.is_none() {
            tracing::info!("the broker answers again");
        }
        self.tell(None, trouble).await;
    }

    async fn tell(&self, topic: Option<&Arc<str>>, text: Option<String>) {
        // An app that listens no more has ended.
        let _ended = self.events.send(Event::Notice { topic: topic.cloned(), text }).await;
    }

    async fn command(&self, command: Command) {
        if let Some(commands) = self.commands.upgrade()
            && commands.send(command).await.is_ok()
        {
            self.signal.raise();
        }
    }
}
