//! Counting records per key, exactly: the load, what it must come to, and the floors.
//!
//! A topic is filled once per run and counted by every side. `kafka-count` counts it into an empty store.
//! `kafka-count-cold` goes on from a store that holds every key: the topic begins with one record of each, which every
//! side has counted before the clock runs, and the draws follow.

mod floor;
mod hot;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::kafka;
use crate::report::{alone, scaled};

/// Keys of `kafka-count`. The records go round all of them, so each is counted as often as the others.
const KEYS: u64 = 10_000;
/// Keys of `kafka-count-cold`, and records drawn from them.
const COLD_KEYS: u64 = 5_000_000;
const DRAWS: u64 = 1_000_000;
/// Coprime with [`KEYS`], so that neighbours in the topic are none in the store.
const STRIDE: u64 = 7919;
const SEED: u64 = 0x5eed;

/// One record: about 100 bytes of JSON, decoded whole and without a copy.
#[derive(Serialize, Deserialize)]
struct Payment<'a> {
    id: u64,
    user: &'a str,
    amount: u64,
    note: &'a str,
}

/// A filled topic and what its counts must be.
pub struct Load {
    pub topic: String,
    /// Records that are counted while the clock runs.
    pub count: u64,
    /// Records before those, counted already in the store that a pass begins with.
    pub before: u64,
    /// How often each key occurs in the whole topic, by its number.
    expected: Vec<u64>,
    /// The store with what was counted before, for the floor to begin with a copy of it.
    prepared: Option<(TempDir, PathBuf)>,
}

impl Load {
    /// Holds the rows of a store, in any order, against the topic: every key, once, with its exact count.
    pub fn check(&self, rows: impl IntoIterator<Item = (String, u64)>) {
        let mut missing = self.expected.clone();
        for (user, counted) in rows {
            let number: usize = user.strip_prefix("u-").and_then(|number| number.parse().ok()).expect("a key");
            assert_eq!(counted, missing[number], "{user}; 0 expected: no such key, or a second row of it");
            missing[number] = 0;
        }
        assert!(missing.iter().all(|left| *left == 0), "keys without a row");
    }

    /// Holds what a group has committed against the topic.
    pub fn check_committed(&self, group: &str) {
        assert_eq!(kafka::committed(group, &self.topic), i64::try_from(self.before + self.count).unwrap());
    }
}

fn record(id: u64, number: u64) -> (String, Vec<u8>) {
    let user = format!("u-{number}");
    let note = "x".repeat(40);
    let value = serde_json::to_vec(&Payment { id, user: &user, amount: id % 1000, note: &note }).unwrap();
    (user, value)
}

fn tally(keys: u64, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut tally = vec![0; usize::try_from(keys).unwrap()];
    numbers.for_each(|number| tally[usize::try_from(number).unwrap()] += 1);
    tally
}

/// The load of `kafka-count`. `BENCH_COUNT_TOPIC` names its topic, which then other programs can read.
pub fn load() -> &'static Load {
    static LOAD: OnceLock<Load> = OnceLock::new();
    LOAD.get_or_init(|| {
        let topic = std::env::var("BENCH_COUNT_TOPIC").unwrap_or_else(|_| kafka::unique("bench-count"));
        let count = scaled(100) * KEYS;
        let number = |id| id * STRIDE % KEYS;
        kafka::fill(&topic, count, |id| record(id, number(id)));
        Load { topic, count, before: 0, expected: tally(KEYS, (0..count).map(number)), prepared: None }
    })
}

/// The load of `kafka-count-cold`. `prepare` is called with the topic and the number of its records as long as it holds
/// one record of each key and nothing else: there ours counts them into the store that its passes begin with a copy of.
pub fn cold_load(prepare: impl FnOnce(&str, u64)) -> Load {
    let (topic, keys, count) = (kafka::unique("bench-cold"), scaled(COLD_KEYS), scaled(DRAWS));
    kafka::fill(&topic, keys, |id| record(id, id));
    prepare(&topic, keys);
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    floor::prepare(&topic, keys, &store);

    let mut random = fastrand::Rng::with_seed(SEED);
    let draws: Vec<u64> = (0..count).map(|_| random.u64(0..keys)).collect();
    kafka::append(&topic, count, |at| record(keys + at, draws[usize::try_from(at).unwrap()]));
    let expected = tally(keys, (0..keys).chain(draws.iter().copied()));
    Load { topic, count, before: keys, expected, prepared: Some((dir, store)) }
}

/// One pass of the floor over a load, from the first record to the last count stored and the last offset committed.
/// The counts are checked afterwards, as the store has them when it is opened again.
pub fn count_floor(load: &Load) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    if let Some((_, prepared)) = &load.prepared {
        copy_store(prepared, &store);
    }
    let group = kafka::unique("count-floor");
    let time = floor::count(&load.topic, &group, load.count, &store);
    load.check(floor::rows(&store));
    load.check_committed(&group);
    time
}

/// Copies a store that is not open. Its folder has no folders in it.
pub fn copy_store(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// The rate of the floor of `kafka-count`, for who wants nothing else.
pub fn floor_alone() -> f64 {
    alone(load().count, || count_floor(load()))
}

/// The rate of the floor of `kafka-count-cold`.
pub fn cold_floor_alone() -> f64 {
    let load = cold_load(|_, _| {});
    alone(load.count, || count_floor(&load))
}
