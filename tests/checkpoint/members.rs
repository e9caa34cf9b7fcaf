//! Two members of a group on a real Kafka: an outage while partitions move, and a member whose run is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use slipstream::checkpoint::Doing;
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Dependency};

use crate::schedule::Length;
use crate::world::{Running, World, collect};

const PARTITIONS: u32 = 4;
/// In each partition.
const EARLY: u64 = 9;
const LATE: u64 = 12;

/// What left: partition, marker, and the weather that was there.
type Left = Arc<Mutex<Vec<(i32, u64, u64)>>>;

struct Member {
    running: Running,
    checkpoint: Checkpoint<Message<u64>>,
    left: Left,
}

impl Member {
    fn start(world: &World, index: usize) -> Self {
        let weather: Topic<u64> = world.topic("weather", 1).broadcast();
        let activity: Topic<u64> = world.topic("activity", PARTITIONS);
        let dependency = weather.clone();
        let checkpoint = Checkpoint::named("join", move |it| {
            it.dependent(activity.clone(), |m| m.value)
                .dependency(Dependency::new("weather", dependency.clone(), |m| m.value))
                .threshold(0)
        });
        let (latest, left) = (Arc::new(Mutex::new(0)), Left::default());
        let (store, lookup, leaving) = (Arc::clone(&latest), latest, Arc::clone(&left));
        let join = move |message: Message<u64>| {
            let seen = *lookup.lock().unwrap();
            leaving.lock().unwrap().push((message.partition, message.value, seen));
        };
        let app = App::new().handle(weather, move |n: u64| *store.lock().unwrap() = n, ()).handle(
            checkpoint.clone(),
            join,
            (),
        );
        Self { running: Running::start(app, world.conf(index)), checkpoint, left }
    }

    fn is(&self, doing: Doing) -> bool {
        self.checkpoint.status().is_ok_and(|status| status.doing == doing)
    }

    fn partitions(&self) -> BTreeSet<i32> {
        let health = self.running.handle.health();
        let own = health.sources.iter().filter(|source| source.name.ends_with("activity"));
        own.flat_map(|source| source.lanes.iter().map(|lane| lane.partition)).filter(|own| *own >= 0).collect()
    }

    fn left(&self) -> Vec<(i32, u64, u64)> {
        self.left.lock().unwrap().clone()
    }
}

struct Scene {
    world: World,
    weather: Topic<u64>,
    activity: Topic<u64>,
    /// By partition: a key that lies there.
    keys: BTreeMap<i32, String>,
    /// Records in each partition.
    written: BTreeMap<i32, i64>,
}

impl Scene {
    /// With the weather as of [`EARLY`] + 1, and records of [`EARLY`] in each partition.
    async fn new(world: World) -> Result<Self> {
        let (weather, activity) = (world.alone("weather", 1), world.alone("activity", PARTITIONS));
        weather.send(("it".to_owned(), EARLY + 1)).await?;
        let (mut keys, mut written) = (BTreeMap::new(), BTreeMap::new());
        for n in 0.. {
            let receipt = activity.send((format!("{n}"), EARLY)).await?;
            keys.insert(receipt.partition, format!("{n}"));
            written.insert(receipt.partition, receipt.offset + 1);
            if keys.len() == PARTITIONS as usize {
                break;
            }
        }
        Ok(Self { world, weather, activity, keys, written })
    }

    async fn in_each_partition(&mut self, value: u64) -> Result<()> {
        for key in self.keys.values() {
            let receipt = self.activity.send((key.clone(), value)).await?;
            self.written.insert(receipt.partition, receipt.offset + 1);
        }
        Ok(())
    }

    async fn weather(&self, until: u64) -> Result<()> {
        self.weather.send(("it".to_owned(), until)).await?;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        self.weather.close().await?;
        self.activity.close().await
    }
}

/// The last weather of each late record.
fn last_late(members: &[&Member]) -> BTreeMap<i32, u64> {
    let all = members.iter().flat_map(|member| member.left());
    all.filter(|(_, marker, _)| *marker == LATE).fold(BTreeMap::new(), |mut last: BTreeMap<i32, u64>, (at, _, seen)| {
        let entry = last.entry(at).or_default();
        *entry = seen.max(*entry);
        last
    })
}

fn all_at(seen: u64) -> BTreeMap<i32, u64> {
    (0..i32::try_from(PARTITIONS).unwrap()).map(|partition| (partition, seen)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_owner_pauses_and_rewinds_what_it_took_over() -> Result<()> {
    let Some(world) = World::kafka() else { return Ok(()) };
    let mut scene = Scene::new(world).await?;
    let first = Member::start(&scene.world, 0);
    until(|| first.is(Doing::Running) && first.partitions().len() == PARTITIONS as usize).await;
    scene.in_each_partition(LATE).await?;
    until(|| first.is(Doing::Paused) && !last_late(&[&first]).is_empty()).await;
    let early = last_late(&[&first]);
    // What was handled too early is on record before its partition moves.
    let second = Member::start(&scene.world, 1);
    until(|| second.partitions().len() == 2 && first.partitions().len() == 2).await;
    let taken = second.partitions();
    if early.keys().any(|partition| taken.contains(partition)) {
        until(|| second.is(Doing::Paused)).await;
    }
    assert!(early.values().all(|seen| *seen == EARLY + 1));
    scene.weather(LATE + 2).await?;
    until(|| last_late(&[&first, &second]) == all_at(LATE + 2)).await;
    until(|| first.is(Doing::Running) && second.is(Doing::Running)).await;
    let by_second: BTreeSet<i32> =
        second.left().into_iter().filter(|own| own.1 == LATE && own.2 == LATE + 2).map(|own| own.0).collect();
    assert_eq!(by_second, taken, "what it took over, whoever had handled that too early");
    second.running.stop().await?;
    first.running.stop().await?;
    scene.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_that_begins_and_ends_while_partitions_move_is_corrected() -> Result<()> {
    for recovers_first in [false, true] {
        let Some(world) = World::kafka() else { return Ok(()) };
        let mut scene = Scene::new(world).await?;
        let first = Member::start(&scene.world, 0);
        until(|| first.is(Doing::Running) && first.partitions().len() == PARTITIONS as usize).await;
        if recovers_first {
            scene.in_each_partition(LATE).await?;
            until(|| first.is(Doing::Paused)).await;
        }
        // Neither waits for the group.
        let second = Member::start(&scene.world, 1);
        if !recovers_first {
            scene.in_each_partition(LATE).await?;
        }
        let mut weather = LATE;
        while second.partitions().len() != 2 || first.partitions().len() != 2 {
            if recovers_first && weather < LATE + 200 {
                weather += 1;
                scene.weather(weather).await?;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        scene.weather(LATE + 300).await?;
        let is_right = || last_late(&[&first, &second]).iter().filter(|(_, seen)| **seen > LATE).count();
        until(|| is_right() == PARTITIONS as usize).await;
        until(|| first.is(Doing::Running) && second.is(Doing::Running)).await;
        second.running.stop().await?;
        first.running.stop().await?;
        scene.close().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_dropped_leaves_its_group() -> Result<()> {
    for round in 0..Length::read().choose(2, 6) {
        let Some(world) = World::kafka() else { return Ok(()) };
        let scene = Scene::new(world).await?;
        let (first, second) = (Member::start(&scene.world, 0), Member::start(&scene.world, 1));
        // In the middle of a rebalance too.
        if round % 2 == 0 {
            until(|| first.partitions().len() == 2 && second.partitions().len() == 2).await;
        } else {
            until(|| first.partitions().len() + second.partitions().len() > 0).await;
        }
        let began = std::time::Instant::now();
        second.running.crash().await;
        until(|| first.partitions().len() == PARTITIONS as usize).await;
        eprintln!("round {round}: {:?}", began.elapsed());
        first.running.stop().await?;
        scene.close().await?;
    }
    Ok(())
}

/// What another member has of the dependency is not seen here, whatever was promised: it holds back what it might cover.
#[tokio::test]
async fn partitions_of_the_dependency_that_are_not_here_hold_it_back() -> Result<()> {
    let world = World::memory();
    let (elsewhere, weather): (Topic<u64>, Topic<u64>) = (world.topic("weather", 3), world.topic("weather", 3));
    let activity: Topic<u64> = world.topic("activity", 1);
    let other = Running::start(App::new().handle(elsewhere, |_: u64| (), ()), world.conf(0));
    until(|| other.handle.health().sources.iter().any(|source| source.lanes.len() == 3)).await;
    let (dependent, dependency) = (activity.clone(), weather.clone());
    let checkpoint = Checkpoint::named("join", move |it| {
        it.dependent(dependent.clone(), |message| message.value)
            .dependency(Dependency::new("weather", dependency.clone(), |message| message.value))
            .single_member()
            .hold()
    });
    let (seen, keep) = collect::<u64>();
    let app = App::new().handle(weather, |_: u64| (), ()).handle(checkpoint.clone(), keep, ());
    let own = Running::start(app, world.conf(1));
    let lanes = |running: &Running| {
        let health = running.handle.health();
        health.sources.iter().find(|source| source.name == world.name("weather")).map_or(0, |source| source.lanes.len())
    };
    until(|| lanes(&own) == 1 && lanes(&other) == 2).await;
    let (weather, activity) = (world.alone::<u64>("weather", 3), world.alone::<u64>("activity", 1));
    for key in 0..20_u64 {
        weather.send((key.to_string(), 100)).await?;
    }
    activity.send(50).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.held_lanes == 1)).await;
    until(|| checkpoint.status().is_ok_and(|status| status.dependencies[0].held_back_by.len() == 2)).await;
    assert!(seen.lock().unwrap().is_empty(), "what the other has may still be on its way");
    other.stop().await?;
    until(|| !seen.lock().unwrap().is_empty()).await;
    own.stop().await
}
