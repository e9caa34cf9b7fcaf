//! Numbers in a topic, joined to the highest ones up to them of one or two others: for restarts and rewinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::checkpoint::{Doing, Guard, Status};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Dependency};

use crate::world::{Running, World};

type Known = Arc<Mutex<BTreeMap<&'static str, BTreeSet<i64>>>>;

/// A number and what was found for it, in the order of the dependencies.
pub type Row = (i64, Vec<Option<i64>>);

pub struct Joined {
    pub world: World,
    names: &'static [&'static str],
    partitions: u32,
    is_shared: bool,
    /// Survives restarts, as a cache does.
    known: Known,
    pub rows: Arc<Mutex<Vec<Row>>>,
    pub checkpoint: Checkpoint<Message<i64>>,
    writers: BTreeMap<&'static str, Topic<i64>>,
}

impl Joined {
    /// With as many partitions of the dependent; one of each dependency.
    pub fn new(
        world: World,
        names: &'static [&'static str],
        partitions: u32,
        declare: impl Fn(Guard<Message<i64>>) -> Guard<Message<i64>> + Send + Sync + 'static,
    ) -> Self {
        Self::make(world, names, partitions, false, declare)
    }

    /// The group shares the dependencies, and has one member.
    pub fn shared(
        world: World,
        names: &'static [&'static str],
        declare: impl Fn(Guard<Message<i64>>) -> Guard<Message<i64>> + Send + Sync + 'static,
    ) -> Self {
        Self::make(world, names, 1, true, move |guard| declare(guard.single_member()))
    }

    fn make(
        world: World,
        names: &'static [&'static str],
        partitions: u32,
        is_shared: bool,
        declare: impl Fn(Guard<Message<i64>>) -> Guard<Message<i64>> + Send + Sync + 'static,
    ) -> Self {
        let activity = world.topic("activity", partitions);
        let topics: Vec<_> = names.iter().map(|name| (*name, dependency(&world, name, is_shared))).collect();
        let checkpoint = Checkpoint::named("joined", move |it| {
            let guard = it.dependent(activity.clone(), |m: &Message<i64>| m.value);
            declare(topics.iter().fold(guard, |guard, (name, topic)| {
                guard.dependency(Dependency::new(*name, topic.clone(), |m| m.value))
            }))
        });
        let writers = names.iter().map(|name| (*name, world.alone(name, 1)));
        let writers = writers.chain([("activity", world.alone("activity", partitions))]).collect();
        let (known, rows) = (Known::default(), Arc::default());
        Self { world, names, partitions, is_shared, known, rows, checkpoint, writers }
    }

    pub fn start(&self) -> Running {
        self.start_as(0, |_| std::future::ready(()))
    }

    /// As one of several members; `before` is awaited by each message when it has looked and not yet left.
    pub fn start_as<F>(&self, member: usize, before: impl Fn(i64) -> F + Clone + Send + Sync + 'static) -> Running
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (known, rows, names) = (Arc::clone(&self.known), Arc::clone(&self.rows), self.names);
        let join = move |n: i64| {
            let (before, rows) = (before.clone(), Arc::clone(&rows));
            let known = known.lock().unwrap();
            let last = |name: &&str| known.get(*name).and_then(|all| all.range(..=n).next_back().copied());
            let found = names.iter().map(last).collect();
            async move {
                before(n).await;
                rows.lock().unwrap().push((n, found));
            }
        };
        let app = self.names.iter().fold(App::new(), |app, name| {
            let known = Arc::clone(&self.known);
            let keep = move |n: i64| {
                known.lock().unwrap().entry(*name).or_default().insert(n);
            };
            app.handle(dependency(&self.world, name, self.is_shared), keep, ())
        });
        Running::start(app.handle(self.checkpoint.clone(), join, ()), self.world.conf(member))
    }

    /// Without the checkpoint, from where the app's position is; what it handles.
    pub fn start_plain(&self) -> (Running, Arc<Mutex<Vec<i64>>>) {
        let (seen, keep) = crate::world::collect();
        let activity: Topic<i64> = self.world.topic("activity", self.partitions);
        (Running::start(App::new().handle(activity, keep, ()), self.world.conf(0)), seen)
    }

    /// To a dependency, or to `activity`.
    pub async fn send(&self, name: &str, n: i64) {
        self.writers[name].send(n).await.unwrap();
    }

    /// To a partition of the dependent.
    pub async fn send_to(&self, partition: i32, n: i64) {
        let key = self.key_of(partition).await;
        let receipt = self.writers["activity"].send((key, n)).await.unwrap();
        assert_eq!(receipt.partition, partition);
    }

    /// A key that lies there.
    async fn key_of(&self, partition: i32) -> String {
        let other = self.world.alone::<i64>("keys", self.partitions);
        for n in 0.. {
            let key = format!("{n}");
            if other.send((key.clone(), 0)).await.unwrap().partition == partition {
                return key;
            }
        }
        unreachable!("some key lies there")
    }

    pub async fn reaches(&self, name: &str, n: i64) {
        self.send(name, n).await;
        let text = n.to_string();
        let is_there = |status: Status| {
            let own = status.dependencies.into_iter().find(|own| own.name == name).unwrap();
            own.marker.is_some_and(|marker| marker == text)
        };
        until(|| self.checkpoint.status().is_ok_and(is_there)).await;
    }

    pub async fn is(&self, doing: Doing) {
        until(|| self.checkpoint.status().is_ok_and(|status| status.doing == doing)).await;
    }

    pub async fn has(&self, rows: usize) {
        until(|| self.rows.lock().unwrap().len() >= rows).await;
    }

    pub fn rows(&self) -> Vec<Row> {
        self.rows.lock().unwrap().clone()
    }

    pub fn numbers(&self) -> Vec<i64> {
        self.rows().into_iter().map(|(n, _)| n).collect()
    }

    /// What is committed of a topic's only partition.
    pub fn committed(&self, running: &Running, name: &str) -> Option<i64> {
        let health = running.handle.health();
        let name = self.world.name(name);
        let own = health.sources.into_iter().find(|source| source.name.ends_with(&name))?;
        own.lanes.first().and_then(|lane| lane.committed)
    }
}

fn dependency(world: &World, name: &str, is_shared: bool) -> Topic<i64> {
    let topic = world.topic(name, 1);
    if is_shared { topic } else { topic.broadcast() }
}

/// Far beyond what anything takes while the clock stands still: everything that can happen has happened.
pub async fn nothing_more_happens() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}
