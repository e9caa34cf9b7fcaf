//! SIGKILL of an app whose topics live in a log of its own: nothing is lost, few records come again, what is stored as
//! a position never falls. No broker is needed; who looks into the log waits until the app is dead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use slipstream::booblik::broker::{Acks, Broker, BrokerOptions};
use slipstream::testing::block_on;

use crate::child::{PARTITIONS, Plan};
use crate::kills::{COMMIT_INTERVAL, MAX_IN_FLIGHT, judge};
use crate::ledger::Echo;
use crate::schedule::{Length, PATIENCE, Schedule, pass, until};

const APP: &str = "ledger";
/// Ids that an app works off between two kills, about; there must be enough for all of them.
const IDS_PER_KILL: u64 = 1_500;
const KILLS_WHEN_FULL: u64 = 50;
const READ_BYTES: usize = 1 << 20;

/// A log and an app's state.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn open(&self) -> Broker {
        block_on(Broker::open(self.0.path().join("log"), BrokerOptions::default())).expect("nobody has it")
    }

    /// Writes ids as another program would: plain, each to the partition that it gives by division.
    pub fn feed(&self, ids: std::ops::Range<u64>) {
        let broker = self.open();
        block_on(broker.ensure_topic("in", usize::from(PARTITIONS))).expect("a topic");
        for partition in 0..PARTITIONS {
            let own = ids.clone().filter(|id| id % u64::from(PARTITIONS) == u64::from(partition));
            let texts: Vec<String> = own.map(|id| id.to_string()).collect();
            let log = broker.partition("in", i32::from(partition)).expect("it was created");
            block_on(log.append(&texts, Acks::Written)).expect("there is room");
        }
        block_on(broker.close()).expect("it was written");
    }

    /// What came out so far.
    pub fn echoes(&self) -> Vec<Echo> {
        let values = self.values("out", &mut BTreeMap::new());
        values.iter().map(|(_, value)| Echo::parse(value).expect("an echo")).collect()
    }

    /// The values of the output, by partition.
    pub fn outputs(&self) -> Vec<Vec<String>> {
        let mut outputs = vec![Vec::new(); usize::from(PARTITIONS)];
        for (partition, value) in self.values("out", &mut BTreeMap::new()) {
            outputs[usize::try_from(partition).expect("from 0")].push(value);
        }
        outputs
    }

    /// The values of a topic with their partitions, from the offsets of `next` on, which becomes the end of the log.
    pub fn values(&self, topic: &str, next: &mut BTreeMap<i32, i64>) -> Vec<(i32, String)> {
        let broker = self.open();
        let mut values = Vec::new();
        for partition in 0..i32::from(PARTITIONS) {
            let Ok(log) = broker.partition(topic, partition) else { continue };
            let next = next.entry(partition).or_default();
            while *next < log.high_watermark() {
                let batch = log.read(*next, READ_BYTES).expect("it can be read");
                for record in batch.records() {
                    record.check().expect("whole");
                    values.push((partition, value(&record.payload)));
                }
                *next = batch.next_offset;
            }
        }
        block_on(broker.close()).expect("it was read");
        values
    }

    /// What the app keeps.
    pub fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    /// The stored positions in a topic, by partition.
    pub fn positions(&self, topic: &str) -> BTreeMap<i32, i64> {
        let folder = self.state().join(APP);
        let Ok(names) = std::fs::read_dir(folder) else { return BTreeMap::new() };
        let mut paths = names.map(|entry| entry.expect("a name").path());
        let is_file = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "positions");
        paths.find(is_file).map(|path| read_positions(&path, topic)).unwrap_or_default()
    }

    pub fn plan(&self) -> Plan {
        Plan::new()
            .with("CHAOS_BROKER", format!("embedded:{}", self.0.path().join("log").display()))
            .with("CHAOS_APP", APP)
            .with("CHAOS_INPUT", "in")
            .with("CHAOS_OUTPUT", "out")
            .with("CHAOS_STATE", self.0.path().join("state").display())
            .with("CHAOS_CONCURRENCY", 3)
            .conf("max.in.flight", MAX_IN_FLIGHT)
            .conf("commit.interval", format!("{}ms", COMMIT_INTERVAL.as_millis()))
            .delay(1, 15)
    }
}

fn read_positions(path: &Path, topic: &str) -> BTreeMap<i32, i64> {
    let text = std::fs::read_to_string(path).expect("it is replaced as a whole");
    let parse = |line: &str| {
        let mut fields = line.split('\t');
        let own = fields.next()?;
        Some((own.to_owned(), (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)))
    };
    let lines = text.lines().skip(1).filter(|line| !line.starts_with("checksum	"));
    let parsed = lines.map(|line| parse(line).expect("topic, partition, position"));
    parsed.filter(|(own, _)| own == topic).map(|(_, position)| position).collect()
}

/// The value in an envelope with a key and a value, as the format is documented: mark, version, flags, timestamp, length
/// of the key, checksum, key, value. Plain records have none.
fn value(envelope: &[u8]) -> String {
    if !envelope.starts_with(b"\xF5be") {
        return String::from_utf8_lossy(envelope).into_owned();
    }
    assert_eq!(envelope.get(..5), Some(&b"\xF5be\x01\x03"[..]), "an envelope with a key and a value");
    let key_bytes = u32::from_be_bytes(envelope[13..17].try_into().expect("four bytes")) as usize;
    String::from_utf8_lossy(&envelope[21 + key_bytes..]).into_owned()
}

#[test]
fn after_every_kill_of_an_embedded_log_nothing_is_missing_and_few_records_come_again() {
    let schedule = Schedule::new("kill ledger, embedded");
    let kills = match Length::read() {
        Length::Full => KILLS_WHEN_FULL,
        other => other.kills(),
    };
    let ids = 6_000.max(kills * IDS_PER_KILL);
    let home = Home::new();
    home.feed(0..ids);
    let plan = home.plan();
    // By life: how many milliseconds it worked.
    let mut worked = BTreeMap::new();
    let mut positions = BTreeMap::new();
    for life in 0..u32::try_from(kills).expect("few kills") {
        let child = plan.start(life);
        child.await_event("first");
        let began = Instant::now();
        let time = Duration::from_millis(schedule.between(500, 1_100));
        pass(time);
        child.kill();
        worked.insert(life, began.elapsed());
        let now = home.positions("in");
        let fell = positions.iter().find(|(partition, before)| now.get(partition) < Some(before));
        assert_eq!(fell, None, "stored positions fell: {positions:?}, {now:?}");
        schedule.step(format!("life {life} killed after {time:?} of work, at {now:?}"));
        positions = now;
    }
    let done: i64 = positions.values().sum();
    assert!(done < i64::try_from(ids).expect("few"), "all was done before the last kill: too few ids");
    let mut last = plan.start(u32::MAX);
    let stored = || home.positions("in").values().sum::<i64>();
    while stored() < i64::try_from(ids).expect("few") {
        let before = stored();
        until(PATIENCE, "positions move", || stored() > before);
    }
    last.leave();

    let echoes = home.echoes();
    judge(&schedule, &echoes, ids, kills, &worked);
}
