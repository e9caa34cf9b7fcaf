//! Random schedules: topics that are joined by time. Whatever is late, stopped, started or killed, the last value of each
//! key is that of the batch join; in hold mode no other value ever leaves.
//!
//! Seeds are new in each run; a failure says which one it was, and `CHAOS_SEED` begins with it. `CHAOS_LENGTH=full` takes
//! as many as docs/reliability.md tells of; a number is a number of schedules for each kind of topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use slipstream::prelude::*;
use slipstream::{Checkpoint, Dependency};

use crate::schedule::{Length, Schedule};
use crate::world::{Running, World};

/// Of one time there may be several, in several partitions: the one with the highest number counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Weather {
    time: u64,
    number: u64,
    value: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Activity {
    id: u64,
    time: u64,
}

/// What is known of one dependency, by time and number.
type Known = BTreeMap<(u64, u64), u64>;
/// What a member has kept of each dependency: survives its restarts, as a cache does.
type Kept = Arc<Mutex<Vec<Known>>>;
/// What an activity is joined to, in the order of the dependencies.
type Joined = Vec<Option<u64>>;
/// Everything that left, in order: activity, values.
type Left = Arc<Mutex<Vec<(u64, Joined)>>>;

const CLOSING: u64 = u64::MAX;
/// The dependencies; some schedules have only the first.
const NAMES: [&str; 2] = ["weather", "news"];

fn as_of(kept: &[Known], time: u64) -> Joined {
    let last = |known: &Known| known.range(..=(time, u64::MAX)).next_back().map(|(_, value)| *value);
    kept.iter().map(last).collect()
}

struct Plan {
    seed: u64,
    holds: bool,
    /// Otherwise it goes on, and more has to be corrected.
    pauses: bool,
    members: usize,
    /// Of the activities.
    partitions: u32,
    activities: Vec<Activity>,
    /// Each with its partitions.
    dependencies: Vec<(u32, Vec<Weather>)>,
}

fn weather(random: &mut fastrand::Rng) -> Vec<Weather> {
    let (count, mut time) = (random.u64(1..40), 1);
    let one = |number| {
        time += random.u64(0..5);
        Weather { time, number, value: random.u64(..1000) }
    };
    (0..count).map(one).collect()
}

impl Plan {
    fn new(seed: u64, world: &World) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = if random.u8(..3) == 0 { 2 } else { 1 };
        let dependencies = (0..count).map(|_| (random.u32(1..=4), weather(&mut random))).collect();
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
            pauses: random.u8(..3) != 0,
            members: if world.has_groups { random.usize(1..=2) } else { 1 },
            partitions: random.u32(1..=4),
            activities,
            dependencies,
        }
    }

    fn start(&self, world: &World, index: usize, member: &Member, left: &Left) -> Started {
        let kept = &member.kept;
        let topics = self.dependencies.iter().zip(NAMES).map(|((partitions, _), name)| world.topic(name, *partitions));
        let topics: Vec<Topic<Weather>> = topics.map(Topic::broadcast).collect();
        let activity: Topic<Activity> = world.topic("activity", self.partitions);
        let (holds, pauses, dependencies) = (self.holds, self.pauses, topics.clone());
        let checkpoint = Checkpoint::named("join", move |it| {
            let guard = it.dependent(activity.clone(), |message| message.value.time).threshold(0);
            let guard = dependencies.iter().zip(NAMES).fold(guard, |guard, (topic, name)| {
                guard.dependency(Dependency::new(name, topic.clone(), |message| message.value.time))
            });
            if holds { guard.hold() } else { guard.pause_dependent(pauses) }
        });
        let (lookup, left) = (Arc::clone(kept), Arc::clone(left));
        let is_dead = Arc::new(AtomicBool::new(false));
        let dead = Arc::clone(&is_dead);
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
        let app = topics.into_iter().enumerate().fold(App::new(), |app, (at, topic)| {
            let store = Arc::clone(kept);
            let keep = move |seen: Weather| {
                store.lock().unwrap()[at].insert((seen.time, seen.number), seen.value);
            };
            app.handle(topic, keep, ())
        });
        let app = app.handle(checkpoint.clone(), join, ());
        Started { running: Running::start(app, world.conf(index)), checkpoint, is_dead }
    }

    fn expected(&self) -> BTreeMap<u64, Joined> {
        let known = |all: &[Weather]| all.iter().map(|seen| ((seen.time, seen.number), seen.value)).collect();
        let all: Vec<Known> = self.dependencies.iter().map(|(_, all)| known(all)).collect();
        self.activities.iter().map(|activity| (activity.id, as_of(&all, activity.time))).collect()
    }
}

fn last(left: &Left) -> BTreeMap<u64, Joined> {
    left.lock().unwrap().iter().cloned().collect()
}

/// Writes records in order; the last ones close each partition of the dependencies.
struct Writer {
    dependencies: Vec<(Topic<Weather>, usize)>,
    activity: (Topic<Activity>, usize),
}

impl Writer {
    fn new(plan: &Plan, world: &World) -> Self {
        let topics = plan.dependencies.iter().zip(NAMES).map(|((partitions, _), name)| world.alone(name, *partitions));
        let dependencies = topics.map(|topic| (topic, 0)).collect();
        Self { dependencies, activity: (world.alone("activity", plan.partitions), 0) }
    }

    async fn weather(&mut self, plan: &Plan, at: usize, count: usize) -> Result<()> {
        let (topic, written) = &mut self.dependencies[at];
        for seen in plan.dependencies[at].1.iter().skip(*written).take(count) {
            topic.send((seen.number.to_string(), seen.clone())).await?;
            *written += 1;
        }
        Ok(())
    }

    async fn all_weather(&mut self, plan: &Plan) -> Result<()> {
        for at in 0..plan.dependencies.len() {
            self.weather(plan, at, usize::MAX).await?;
        }
        Ok(())
    }

    async fn activity(&mut self, plan: &Plan, count: usize) -> Result<()> {
        let (topic, written) = &mut self.activity;
        for activity in plan.activities.iter().skip(*written).take(count) {
            topic.send((activity.id.to_string(), activity.clone())).await?;
            *written += 1;
        }
        Ok(())
    }

    async fn close(&self, plan: &Plan) -> Result<()> {
        for ((topic, _), (partitions, _)) in self.dependencies.iter().zip(&plan.dependencies) {
            let mut open: BTreeSet<i32> = (0..i32::try_from(*partitions).unwrap()).collect();
            let closing = Weather { time: CLOSING, number: 0, value: 0 };
            for key in 0.. {
                if open.is_empty() {
                    break;
                }
                let receipt = topic.send((format!("close {key}"), closing.clone())).await?;
                open.remove(&receipt.partition);
            }
        }
        Ok(())
    }

    async fn end(self) -> Result<()> {
        for (topic, _) in self.dependencies {
            topic.close().await?;
        }
        self.activity.0.close().await
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

async fn run(world: &World, seed: u64) -> Result<Found> {
    if std::env::var_os("CHECKPOINT_TRACE").is_some() {
        slipstream::log::init();
    }
    let plan = Plan::new(seed, world);
    let mut random = fastrand::Rng::with_seed(seed ^ 0x9e37_79b9);
    let left = Left::default();
    let kept = || Arc::new(Mutex::new(vec![Known::new(); plan.dependencies.len()]));
    let mut members: Vec<_> = (0..plan.members).map(|_| Member { kept: kept(), running: None }).collect();
    let mut writer = Writer::new(&plan, world);
    let pause = if world.url.starts_with("kafka") { 50 } else { 2 };
    for _ in 0..random.usize(4..16) {
        match random.u8(..8) {
            0..=1 => writer.weather(&plan, random.usize(..plan.dependencies.len()), random.usize(1..10)).await?,
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
    if random.bool() {
        writer.all_weather(&plan).await?;
    }
    writer.activity(&plan, usize::MAX).await?;
    writer.all_weather(&plan).await?;
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
            "seed {seed} on {}: holds {}, pauses {}, members {}, partitions {} and {:?}\nexpected {expected:?}\nlast     {:?}\n{statuses:#?}",
            world.url,
            plan.holds,
            plan.pauses,
            plan.members,
            plan.partitions,
            plan.dependencies.iter().map(|(partitions, _)| partitions).collect::<Vec<_>>(),
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
        let left = left.lock().unwrap();
        let wrong: Vec<_> = left.iter().filter(|(id, values)| expected[id] != *values).collect();
        assert!(
            wrong.is_empty(),
            "seed {seed} on {}: wrong values left although they should have been held: {wrong:?}",
            world.url
        );
    }
    let found = Found {
        keys: plan.activities.len(),
        two: u64::from(plan.dependencies.len() == 2),
        held: u64::from(plan.holds),
        again: left.lock().unwrap().len() - plan.activities.len(),
    };
    writer.end().await?;
    Ok(found)
}

/// What schedules did, for the documentation.
#[derive(Default)]
struct Found {
    keys: usize,
    /// Schedules with two dependencies.
    two: u64,
    /// In hold mode.
    held: u64,
    /// Values that left again.
    again: usize,
}

/// Nobody is down, and nothing is on its way back.
fn are_calm(members: &[Member]) -> bool {
    let running = members.iter().filter_map(|member| member.running.as_ref());
    running
        .map(|started| started.checkpoint.status())
        .all(|status| status.is_ok_and(|status| status.doing == slipstream::checkpoint::Doing::Running))
}

/// So many schedules, each in a world of its own; none where there is no world.
async fn all(name: &'static str, short: u64, full: u64, world: impl Fn() -> Option<World>) -> Result<()> {
    let schedule = Schedule::new(name);
    let runs = match Length::read() {
        Length::Kills(runs) => runs.min(full),
        length => length.choose(short, full),
    };
    let mut all = Found::default();
    for seed in (0..runs).map(|run| schedule.seed.wrapping_add(run)) {
        let Some(world) = world() else { return Ok(()) };
        schedule.step(format!("seed {seed}"));
        let Found { keys, two, held, again } = run(&world, seed).await?;
        all = Found { keys: all.keys + keys, two: all.two + two, held: all.held + held, again: all.again + again };
    }
    schedule
        .figure("schedules, of them with hold(), with two dependencies", format!("{runs}, {}, {}", all.held, all.two));
    schedule.figure("keys, last values unlike the batch join", format!("{}, 0", all.keys));
    schedule.figure("values that left again", all.again);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_memory_the_last_value_is_that_of_the_batch_join() -> Result<()> {
    all("random schedules, memory", 200, 1_000, || Some(World::memory())).await
}

#[cfg(feature = "booblik")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_log_in_the_process_the_last_value_is_that_of_the_batch_join() -> Result<()> {
    all("random schedules, embedded", 5, 20, || Some(World::embedded())).await
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_kafka_the_last_value_is_that_of_the_batch_join() -> Result<()> {
    all("random schedules, Kafka", 3, 20, World::kafka).await
}
