//! SIGKILL of an app with two tables and a sink while its topic is written: after every kill the stored rows are the
//! fold of the log up to the stored position, nothing is committed that is not stored, and at the end everything is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::child::{Child, PARTITIONS, Plan};
use crate::embedded::Home;
use crate::ledger::{Echo, Verdict};
use crate::schedule::{Length, PATIENCE, Schedule, pass, until};

/// As the app has them.
const KEYS: u64 = 97;
const KILLS_WHEN_SHORT: u64 = 6;
const KILLS_WHEN_FULL: u64 = 100;
/// A wrong build may get away with some kills, but not with so many.
const KILLS_OF_WRONG_BUILDS: u64 = 40;

/// Counts and sums by key.
pub type Folded = (BTreeMap<String, u64>, BTreeMap<String, u64>);

/// The ids of each partition, in the order of their offsets.
pub type Log = BTreeMap<i32, Vec<u64>>;

/// What the store has of one partition.
#[derive(Debug, Default)]
struct Stored {
    position: usize,
    rows: Folded,
}

pub fn kills() -> u64 {
    match Length::read() {
        Length::Short => KILLS_WHEN_SHORT,
        Length::Full => KILLS_WHEN_FULL,
        Length::Kills(kills) => kills,
    }
}

/// What the app makes of `ids`.
pub fn fold<'a>(ids: impl IntoIterator<Item = &'a u64>) -> Folded {
    let mut folded = Folded::default();
    for id in ids {
        let key = format!("key-{}", id % KEYS);
        *folded.0.entry(key.clone()).or_default() += 1;
        *folded.1.entry(key).or_default() += id;
    }
    folded
}

/// With small generations, so that there are many moments to be killed at.
fn counting(plan: &Plan) -> Plan {
    plan.clone().with("CHAOS_TABLES", "yes").conf("table.generation.units", 40).conf("table.generation.time", "10ms")
}

/// Reads the store of an app that is dead, past the library: what lies under `state`, by partition.
fn read_store(state: &Path) -> BTreeMap<i32, Stored> {
    let mut stored = BTreeMap::new();
    let Some(db) = find_store(state) else { return stored };
    let options = rocksdb::Options::default();
    let families = ["default", "positions", "t.counts", "t.sums"];
    let db = rocksdb::DB::open_cf_for_read_only(&options, db, families, false).expect("it can be read");
    let all = |family: &str| {
        let family = db.cf_handle(family).expect("it is there");
        let rows = db.iterator_cf(&family, rocksdb::IteratorMode::Start);
        rows.map(|row| row.expect("it can be read")).collect::<Vec<_>>()
    };
    for (key, value) in all("positions") {
        let Some(partition) = key.strip_prefix(b"pcounts\0") else { continue };
        let partition = i32::from_be_bytes(partition.try_into().expect("four bytes"));
        stored.insert(partition, Stored { position: position(&value), ..Stored::default() });
    }
    let row = |(key, value): (Box<[u8]>, Box<[u8]>)| {
        let (partition, key) = key.split_first_chunk().expect("a partition in front");
        let value: u64 = rmp_serde::from_slice(&value).expect("a number");
        (i32::from_be_bytes(*partition), String::from_utf8_lossy(key).into_owned(), value)
    };
    for (partition, key, count) in all("t.counts").into_iter().map(row) {
        stored.entry(partition).or_default().rows.0.insert(key, count);
    }
    for (partition, key, sum) in all("t.sums").into_iter().map(row) {
        stored.entry(partition).or_default().rows.1.insert(key, sum);
    }
    stored
}

fn position(bytes: &[u8]) -> usize {
    #[derive(Deserialize)]
    struct Position {
        next: usize,
    }
    rmp_serde::from_slice::<Position>(bytes).expect("a position").next
}

/// `tables/<broker>/db` below the state of the only app.
fn find_store(state: &Path) -> Option<PathBuf> {
    let tables = std::fs::read_dir(state).ok()?.filter_map(Result::ok).map(|app| app.path().join("tables"));
    let stores = tables.filter_map(|tables| std::fs::read_dir(tables).ok()).flatten().filter_map(Result::ok);
    let mut stores = stores.map(|store| store.path().join("db")).filter(|db| db.join("CURRENT").exists());
    stores.next()
}

/// What is wrong with a store: rows that are not the fold up to its position, or commits behind it.
fn faults(stored: &BTreeMap<i32, Stored>, log: &Log, committed: impl Fn(i32) -> Option<i64>) -> Vec<String> {
    let mut faults = Vec::new();
    for partition in 0..i32::from(PARTITIONS) {
        let nothing = Stored::default();
        let own = stored.get(&partition).unwrap_or(&nothing);
        let ids = log.get(&partition).map_or(&[][..], Vec::as_slice);
        let Some(read) = ids.get(..own.position) else {
            faults.push(format!("partition {partition} is stored at {} of {}", own.position, ids.len()));
            continue;
        };
        let right = fold(read);
        if own.rows != right {
            let different = (0..KEYS).map(|rest| format!("key-{rest}"));
            let different = different.filter(|key| own.rows.0.get(key) != right.0.get(key)).count();
            faults.push(format!("partition {partition} at {}: {different} counts differ", own.position));
        }
        if let Some(committed) =
            committed(partition).filter(|next| usize::try_from(*next).is_ok_and(|n| n > own.position))
        {
            faults.push(format!("partition {partition} is committed at {committed} and stored at {}", own.position));
        }
    }
    faults
}

/// Whether everything is stored.
fn is_whole(stored: &BTreeMap<i32, Stored>, log: &Log) -> bool {
    log.iter().all(|(partition, ids)| stored.get(partition).map_or(0, |own| own.position) == ids.len())
}

/// Lets a life work for a while from its first record on, and kills it.
fn work_and_kill(schedule: &Schedule, child: Child) {
    child.await_event("first");
    let time = Duration::from_millis(schedule.between(20, 400));
    pass(time);
    schedule.step(format!("life {} killed after {time:?} of work", child.life));
    child.kill();
}

/// What the tables say, once nothing is written any more: positions by partition, counts and sums.
pub fn look(child: &mut Child) -> Option<(BTreeMap<i32, i64>, Folded)> {
    let reply = child.ask("tables");
    let (positions, counts, sums): (BTreeMap<i32, i64>, _, _) = serde_json::from_str(&reply).ok()?;
    Some((positions, (counts, sums)))
}

/// Waits until the tables have the whole of `log`, and compares them.
fn until_counted(child: &mut Child, log: &Log) {
    let ends: BTreeMap<i32, i64> =
        log.iter().map(|(partition, ids)| (*partition, i64::try_from(ids.len()).expect("few"))).collect();
    let mut found = None;
    until(PATIENCE, "everything is counted", || {
        found = look(child).filter(|(positions, _)| *positions == ends);
        found.is_some()
    });
    assert_eq!(found.expect("it was found").1, fold(log.values().flatten()));
}

/// The log of an app that feeds itself, as far as it was read.
#[derive(Default)]
struct OwnLog {
    ids: Log,
    next: BTreeMap<i32, i64>,
}

impl OwnLog {
    fn read_on(&mut self, home: &Home) {
        for (partition, value) in home.values("in", &mut self.next) {
            self.ids.entry(partition).or_default().push(value.parse().expect("an id"));
        }
    }
}

/// One kill after the other of an app that feeds itself; ends early with the first faults, and after how many kills.
fn kill_again_and_again(
    schedule: &Schedule,
    home: &Home,
    plan: &Plan,
    log: &mut OwnLog,
    kills: u64,
) -> Option<(u32, Vec<String>)> {
    for life in 0..u32::try_from(kills).expect("few kills") {
        work_and_kill(schedule, plan.start(life));
        log.read_on(home);
        let positions = home.positions("in");
        let found = faults(&read_store(&home.state()), &log.ids, |partition| positions.get(&partition).copied());
        if !found.is_empty() {
            return Some((life + 1, found));
        }
    }
    None
}

#[test]
fn after_every_kill_of_an_embedded_log_rows_are_the_fold_up_to_their_position() {
    let schedule = Schedule::new("tables, embedded");
    let (home, mut log, kills) = (Home::new(), OwnLog::default(), kills());
    let plan = counting(&home.plan());
    let found = kill_again_and_again(&schedule, &home, &plan.clone().with("CHAOS_FEEDS", 10), &mut log, kills);
    assert_eq!(found, None);
    let mut last = plan.start(u32::MAX);
    until_counted(&mut last, &log.ids);
    last.leave();
    let stored = read_store(&home.state());
    assert!(is_whole(&stored, &log.ids), "{stored:?}");
    assert_eq!(faults(&stored, &log.ids, |_| None), [""; 0]);
    let ids: Vec<u64> = log.ids.values().flatten().copied().collect();
    let echoes = home.echoes();
    let out: std::collections::HashSet<u64> = echoes.iter().map(|echo| echo.id).collect();
    let missing: Vec<_> = ids.iter().filter(|id| !out.contains(id)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    figures(&schedule, ids.len(), kills, &echoes);
}

fn figures(schedule: &Schedule, ids: usize, kills: u64, echoes: &[Echo]) {
    let repeats = Verdict::of(echoes, 0..0).repeated();
    schedule.figure("ids, kills, keys that differ from the fold", format!("{ids}, {kills}, 0"));
    schedule.figure("outputs that came again", repeats);
}

/// How many kills it takes until the harness notices what a build does wrong.
fn is_caught(name: &'static str, mistake: &str) {
    let schedule = Schedule::new(name);
    let (home, mut log) = (Home::new(), OwnLog::default());
    let plan = counting(&home.plan()).with("CHAOS_MISTAKE", mistake).with("CHAOS_FEEDS", 200);
    let found = kill_again_and_again(&schedule, &home, &plan, &mut log, KILLS_OF_WRONG_BUILDS);
    let (kills, found) = found.expect("the harness must notice what this build does");
    schedule.step(found.join("; "));
    schedule.figure("noticed after so many kills", kills);
}

#[test]
fn a_build_that_stores_rows_before_their_position_is_caught() {
    is_caught("tables, rows before their position", "rows-before-position");
}

#[test]
fn a_build_that_stores_the_newest_rows_with_an_older_position_is_caught() {
    is_caught("tables, newest rows with an older position", "newest-rows");
}

#[cfg(feature = "kafka")]
pub mod on_kafka {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::broker::servers;
    use crate::child::Scene;

    const STEP: u64 = 20;
    const STEP_EVERY: Duration = Duration::from_millis(5);

    /// Writes ids until it is told to stop.
    #[derive(Default)]
    pub struct Load {
        next: AtomicU64,
        stop: AtomicBool,
    }

    /// Ends the load also when a check fails, so that the failure is seen.
    struct StopOnDrop<'a>(&'a Load);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }

    impl Load {
        fn run(&self, scene: &Scene) {
            while !self.stop.load(Ordering::Relaxed) {
                let from = self.next.load(Ordering::Relaxed);
                scene.feeder.send(from..from + STEP);
                self.next.store(from + STEP, Ordering::Relaxed);
                pass(STEP_EVERY);
            }
        }

        /// Calls `work` while ids are written; how many were.
        pub fn during(scene: &Scene, work: impl FnOnce()) -> u64 {
            let load = Self::default();
            std::thread::scope(|threads| {
                let ends = StopOnDrop(&load);
                threads.spawn(|| load.run(scene));
                work();
                drop(ends);
            });
            scene.feeder.feed(0..0);
            load.next.load(Ordering::Relaxed)
        }
    }

    /// What the feeder makes of the first `ids` ids; partitions may be at any stage of it.
    pub fn log(ids: u64) -> Log {
        let mut log = Log::new();
        for id in 0..ids {
            log.entry(i32::try_from(id % u64::from(PARTITIONS)).expect("few")).or_default().push(id);
        }
        log
    }

    #[test]
    fn after_every_kill_rows_are_the_fold_up_to_their_position() {
        /// More than can be written in the full form.
        const MANY: u64 = 4_000_000;
        let Some(servers) = servers() else { return };
        let schedule = Schedule::new("tables");
        let (scene, kills, all) = (Scene::new(&servers), kills(), log(MANY));
        let plan = counting(&scene.plan("a")).conf("group.instance.id", "a").conf("session.timeout.ms", 6000);
        let state = scene.place.state("a");
        let committed = |partition| scene.commits.of_partition(usize::try_from(partition).expect("not negative"));
        let ids = Load::during(&scene, || {
            for life in 0..u32::try_from(kills).expect("few kills") {
                work_and_kill(&schedule, plan.start(life));
                let found = faults(&read_store(&state), &all, committed);
                assert!(found.is_empty(), "{found:?}");
            }
        });
        let log = log(ids);
        let mut last = plan.start(u32::MAX);
        until_counted(&mut last, &log);
        let total = i64::try_from(ids).expect("few");
        until(PATIENCE, "all is committed", || scene.commits.total() == total);
        last.leave();
        let stored = read_store(&state);
        assert!(is_whole(&stored, &log), "{stored:?}");
        assert_eq!(faults(&stored, &log, committed), [""; 0]);
        assert!(scene.commits.falls().is_empty(), "committed offsets fell: {:?}", scene.commits.falls());
        until(PATIENCE, "all ids are out", || scene.echoes.ids() as u64 == ids);
        figures(&schedule, usize::try_from(ids).expect("few"), kills, &scene.echoes.all());
    }

    /// What the members have together, each of its own partitions; `None` while a partition is with nobody or two, or
    /// is being rebuilt.
    fn together(members: &mut [Child]) -> Option<(BTreeMap<i32, i64>, Folded)> {
        let (mut positions, mut rows) = (BTreeMap::new(), Folded::default());
        for member in members {
            let (own, (counts, sums)) = look(member)?;
            for (partition, position) in own {
                if positions.insert(partition, position).is_some() {
                    return None;
                }
            }
            counts.into_iter().for_each(|(key, n)| *rows.0.entry(key).or_default() += n);
            sums.into_iter().for_each(|(key, n)| *rows.1.entry(key).or_default() += n);
        }
        (positions.len() == usize::from(PARTITIONS)).then_some((positions, rows))
    }

    fn have_shares(members: &mut [Child]) -> bool {
        let lanes: Vec<_> = members.iter_mut().map(Child::lanes).collect();
        lanes.iter().sum::<usize>() == usize::from(PARTITIONS) && !lanes.contains(&0)
    }

    #[test]
    fn members_that_are_killed_and_frozen_count_each_record_once_together() {
        let Some(servers) = servers() else { return };
        let schedule = Schedule::new("tables, members");
        let scene = Scene::new(&servers);
        let rounds = Length::read().choose(1, 5);
        let member = |name: &str| {
            let plan = counting(&scene.plan(name));
            plan.conf("session.timeout.ms", 6000).conf("heartbeat.interval.ms", 500)
        };
        let mut life = 0;
        let mut start = |name: &str| {
            life += 1;
            member(name).start(life)
        };
        let mut members = Vec::new();
        let ids = Load::during(&scene, || {
            members = vec![start("a"), start("b"), start("c")];
            until(PATIENCE, "each has a share", || have_shares(&mut members));
            for round in 0..rounds {
                pass(Duration::from_millis(schedule.between(0, 1000)));
                let frozen = members.remove(usize::try_from(schedule.between(0, 2)).expect("small"));
                frozen.signal(libc::SIGSTOP);
                schedule.step(format!("round {round}: life {} frozen", frozen.life));
                until(PATIENCE, "the others have its share", || have_shares(&mut members));
                let total = scene.commits.total();
                until(PATIENCE, "the new owners commit", || scene.commits.total() > total + 500);
                frozen.signal(libc::SIGCONT);
                schedule.step(format!("round {round}: life {} goes on", frozen.life));
                members.push(frozen);
                until(PATIENCE, "each has a share again", || have_shares(&mut members));
                pass(Duration::from_millis(schedule.between(0, 1000)));
                let killed = members.remove(usize::try_from(schedule.between(0, 2)).expect("small"));
                schedule.step(format!("round {round}: life {} killed", killed.life));
                killed.kill();
                until(PATIENCE, "the others have its share", || have_shares(&mut members));
                members.push(start(&format!("d{round}")));
                until(PATIENCE, "each has a share in the end", || have_shares(&mut members));
            }
        });
        let log = log(ids);
        let ends: BTreeMap<i32, i64> =
            log.iter().map(|(partition, ids)| (*partition, i64::try_from(ids.len()).expect("few"))).collect();
        let mut found = None;
        until(PATIENCE, "everything is counted once", || {
            found = together(&mut members).filter(|(positions, _)| *positions == ends);
            found.is_some()
        });
        assert_eq!(found.expect("it was found").1, fold(log.values().flatten()));
        until(PATIENCE, "all is committed", || scene.commits.total() == i64::try_from(ids).expect("few"));
        until(PATIENCE, "all ids are out", || scene.echoes.ids() as u64 == ids);
        let before = scene.echoes.all().len();

        // One member in a place without any rows: it makes them all, of records that are all committed.
        members.iter_mut().for_each(Child::leave);
        let mut alone = start("nowhere");
        until_counted(&mut alone, &log);
        alone.leave();
        pass(Duration::from_secs(1));
        assert_eq!(scene.echoes.all().len(), before, "what is replayed says nothing");
        assert!(scene.commits.falls().is_empty(), "committed offsets fell: {:?}", scene.commits.falls());
        schedule.figure("ids, rounds of freeze, return and kill", format!("{ids}, {rounds}"));
        schedule.figure("keys that differ from the fold, outputs of the replay", "0, 0");
    }
}
