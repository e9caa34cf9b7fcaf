//! Random schedules: two topics, joined by time. Whatever is late, stopped, started or killed, the last value of each key
//! is that of the batch join; in hold mode no other value ever leaves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use slipstream::prelude::*;
use slipstream::{Checkpoint, Dependency};

use crate::world::{Running, World};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Weather {
    time: u64,
    value: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Activity {
    id: u64,
    time: u64,
}

/// What a member has kept of the weather: survives its restarts, as a cache does.
type Kept = Arc<Mutex<BTreeMap<u64, u64>>>;
/// Everything that left, in order: activity, value.
type Left = Arc<Mutex<Vec<(u64, Option<u64>)>>>;

const CLOSING: u64 = u64::MAX;

fn as_of(kept: &BTreeMap<u64, u64>, time: u64) -> Option<u64> {
    kept.range(..=time).next_back().map(|(_, value)| *value)
}

struct Plan {
    seed: u64,
    holds: bool,
    members: usize,
    partitions: (u32, u32),
    weather: Vec<Weather>,
    activities: Vec<Activity>,
}

impl Plan {
    fn new(seed: u64, world: &World) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut time = 0;
        let weather = (0..random.u64(1..40)).map(|_| {
            time += random.u64(1..5);
            Weather { time, value: random.u64(..1000) }
        });
        let weather: Vec<_> = weather.collect();
        let mut time = 0;
        let activities = (0..random.u64(1..60)).map(|id| {
            time += random.u64(0..4);
            // Somewhat out of order.
            Activity { id, time: time + random.u64(0..6) }
        });
        let activities = activities.collect();
        Self {
            seed,
            holds: random.bool(),
            members: if world.has_groups { random.usize(1..=2) } else { 1 },
            partitions: (random.u32(1..=4), random.u32(1..=4)),
            activities,
            weather,
        }
    }

    fn start(&self, world: &World, index: usize, member: &Member, left: &Left) -> Started {
        let kept = &member.kept;
        let weather: Topic<Weather> = world.topic("weather", self.partitions.0).broadcast();
        let activity: Topic<Activity> = world.topic("activity", self.partitions.1);
        let (holds, dependency) = (self.holds, weather.clone());
        let checkpoint = Checkpoint::named("join", move |it| {
            let guard = it
                .dependent(activity.clone(), |message| message.value.time)
                .dependency(Dependency::new("weather", dependency.clone(), |message| message.value.time))
                .threshold(0);
            if holds { guard.hold() } else { guard }
        });
        let (store, lookup, left) = (Arc::clone(kept), Arc::clone(kept), Arc::clone(left));
        let is_dead = Arc::new(AtomicBool::new(false));
        let dead = Arc::clone(&is_dead);
        let keep = move |seen: Weather| {
            store.lock().unwrap().insert(seen.time, seen.value);
        };
        let join = move |message: Message<Activity>| {
            let activity = message.value;
            let (partition, offset) = (message.partition, message.offset);
            let found = as_of(&lookup.lock().unwrap(), activity.time);
            let mut left = left.lock().unwrap();
            if dead.load(Ordering::SeqCst) {
                return Err(std::io::Error::other("killed"));
            }
            if std::env::var_os("CHECKPOINT_TRACE").is_some() {
                eprintln!("TRACE member {index} activity {} at {partition}@{offset}: {found:?}", activity.id);
            }
            left.push((activity.id, found));
            Ok(())
        };
        let app = App::new().handle(weather, keep, ()).handle(checkpoint.clone(), join, ());
        Started { running: Running::start(app, world.conf(index)), checkpoint, is_dead }
    }

    fn expected(&self) -> BTreeMap<u64, Option<u64>> {
        let all = self.weather.iter().map(|seen| (seen.time, seen.value)).collect();
        self.activities.iter().map(|activity| (activity.id, as_of(&all, activity.time))).collect()
    }
}

fn last(left: &Left) -> BTreeMap<u64, Option<u64>> {
    left.lock().unwrap().iter().copied().collect()
}

/// Writes records in order; the last ones close each partition of the dependency.
struct Writer {
    weather: Topic<Weather>,
    activity: Topic<Activity>,
    written: (usize, usize),
}

impl Writer {
    async fn weather(&mut self, plan: &Plan, count: usize) -> Result<()> {
        for seen in plan.weather.iter().skip(self.written.0).take(count) {
            self.weather.send((seen.time.to_string(), seen.clone())).await?;
            self.written.0 += 1;
        }
        Ok(())
    }

    async fn activity(&mut self, plan: &Plan, count: usize) -> Result<()> {
        for activity in plan.activities.iter().skip(self.written.1).take(count) {
            self.activity.send((activity.id.to_string(), activity.clone())).await?;
            self.written.1 += 1;
        }
        Ok(())
    }

    async fn close(&mut self, plan: &Plan) -> Result<()> {
        let mut open: std::collections::BTreeSet<i32> = (0..i32::try_from(plan.partitions.0).unwrap()).collect();
        for key in 0.. {
            if open.is_empty() {
                return Ok(());
            }
            let receipt = self.weather.send((format!("close {key}"), Weather { time: CLOSING, value: 0 })).await?;
            open.remove(&receipt.partition);
        }
        Ok(())
    }
}

struct Member {
    kept: Kept,
    running: Option<Started>,
}

struct Started {
    running: Running,
    checkpoint: Checkpoint<Message<Activity>>,
    /// A process that was killed says nothing more, whatever its threads were about to.
    is_dead: Arc<AtomicBool>,
}

async fn run(world: &World, seed: u64) -> Result<()> {
    if std::env::var_os("CHECKPOINT_TRACE").is_some() {
        slipstream::log::init();
    }
    let plan = Plan::new(seed, world);
    let mut random = fastrand::Rng::with_seed(seed ^ 0x9e37_79b9);
    let left = Left::default();
    let mut members: Vec<_> = (0..plan.members).map(|_| Member { kept: Kept::default(), running: None }).collect();
    let weather = world.alone("weather", plan.partitions.0);
    let activity = world.alone("activity", plan.partitions.1);
    let mut writer = Writer { weather, activity, written: (0, 0) };
    let pause = if world.url.starts_with("kafka") { 50 } else { 2 };
    for _ in 0..random.usize(4..16) {
        match random.u8(..8) {
            0..=1 => writer.weather(&plan, random.usize(1..10)).await?,
            2..=3 => writer.activity(&plan, random.usize(1..12)).await?,
            4..=5 => {
                let index = random.usize(..members.len());
                let member = &mut members[index];
                match member.running.take() {
                    Some(started) if random.bool() => started.running.stop().await?,
                    Some(started) => {
                        {
                            let _nothing_leaves_meanwhile = left.lock().unwrap();
                            started.is_dead.store(true, Ordering::SeqCst);
                        }
                        started.running.crash().await;
                        // Nothing of it runs any more, as after a real crash.
                        slipstream::testing::until(|| Arc::strong_count(&member.kept) == 1).await;
                    }
                    None => {
                        member.running = Some(plan.start(world, index, member, &left));
                    }
                }
            }
            _ => tokio::time::sleep(Duration::from_millis(random.u64(..pause))).await,
        }
    }
    let (weather_first, rest) = (random.bool(), (plan.weather.len(), plan.activities.len()));
    if weather_first {
        writer.weather(&plan, rest.0).await?;
    }
    writer.activity(&plan, rest.1).await?;
    writer.weather(&plan, rest.0).await?;
    writer.close(&plan).await?;
    if members.iter().all(|member| member.running.is_none()) {
        members[0].running = Some(plan.start(world, 0, &members[0], &left));
    }
    let expected = plan.expected();
    let began = Instant::now();
    while last(&left) != expected || !are_calm(&members) {
        for member in &mut members {
            if let Some(started) = member.running.take_if(|started| started.running.is_over()) {
                started.running.ended().await.inspect_err(|error| eprintln!("seed {seed}: {}", error.report()))?;
            }
        }
        let statuses: Vec<_> = members
            .iter()
            .filter_map(|member| member.running.as_ref())
            .map(|started| (started.checkpoint.status(), started.running.is_over(), started.running.handle.health()))
            .collect();
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "seed {seed} on {}: holds {}, members {}, partitions {:?}\nexpected {expected:?}\nlast     {:?}\n{statuses:#?}",
            world.url,
            plan.holds,
            plan.members,
            plan.partitions,
            last(&left)
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for member in members {
        if let Some(started) = member.running {
            started.running.stop().await?;
        }
    }
    assert_eq!(last(&left), expected, "seed {} on {}: changed while draining", plan.seed, world.url);
    if plan.holds {
        let wrong: Vec<_> = left.lock().unwrap().iter().filter(|(id, value)| expected[id] != *value).copied().collect();
        assert!(
            wrong.is_empty(),
            "seed {seed} on {}: wrong values left although they should have been held: {wrong:?}",
            world.url
        );
    }
    writer.weather.close().await?;
    writer.activity.close().await
}

/// Nobody is down, and nothing is on its way back.
fn are_calm(members: &[Member]) -> bool {
    let running = members.iter().filter_map(|member| member.running.as_ref());
    running
        .map(|started| started.checkpoint.status())
        .all(|status| status.is_ok_and(|status| status.doing == slipstream::checkpoint::Doing::Running))
}

fn runs(short: u64) -> u64 {
    std::env::var("CHECKPOINT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(short)
}

fn first() -> u64 {
    std::env::var("CHECKPOINT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_memory_the_last_value_is_that_of_the_batch_join() -> Result<()> {
    for seed in first()..first() + runs(200) {
        run(&World::memory(), seed).await?;
    }
    Ok(())
}

#[cfg(feature = "booblik")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_log_in_the_process_the_last_value_is_that_of_the_batch_join() -> Result<()> {
    for seed in first()..first() + runs(5).min(50) {
        run(&World::embedded(), seed).await?;
    }
    Ok(())
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_kafka_the_last_value_is_that_of_the_batch_join() -> Result<()> {
    for seed in first()..first() + runs(3).min(20) {
        let Some(world) = World::kafka() else { return Ok(()) };
        run(&world, seed).await?;
    }
    Ok(())
}
