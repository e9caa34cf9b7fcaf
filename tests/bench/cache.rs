//! A small struct in a cache, against raw RocksDB with the same options and bytes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipstream::codec::{Codec, MessagePack};
use slipstream::{Cache, Retention, keys};

use crate::report::{Row, compare, scaled, timed};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Small {
    id: u64,
    name: String,
    score: f64,
    ok: bool,
}

fn small(id: u64) -> Small {
    #[expect(clippy::cast_precision_loss, reason = "a value")]
    let score = id as f64 / 3.0;
    Small { id, name: format!("user-{id}"), score, ok: true }
}

struct Pair {
    ours: Cache<u64, Small>,
    floor: Cache<u64, Small>,
    values: Vec<Small>,
    encoded: Vec<(Vec<u8>, bytes::Bytes)>,
    _dir: tempfile::TempDir,
}

fn pair(count: u64) -> Pair {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let cache: Cache<u64, Small> = Cache::named(name).retention(Retention::Keep);
        cache.open_in(dir.path()).unwrap();
        cache
    };
    let values: Vec<Small> = (0..count).map(small).collect();
    let encoded =
        values.iter().map(|value| (keys::encode::<u64>(value.id), MessagePack.encode(value).unwrap())).collect();
    Pair { ours: open("ours"), floor: open("floor"), values, encoded, _dir: dir }
}

/// The time of `threads` threads that each do a share.
fn shared(threads: usize, count: usize, work: impl Fn(usize) + Sync) -> Duration {
    timed(|| {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || (thread..count).step_by(threads).for_each(work));
            }
        });
    })
}

pub fn put(threads: usize) -> Row {
    let count = scaled(300_000);
    let Pair { ours, floor, values, encoded, _dir } = pair(count);
    let raw = floor.raw().unwrap();
    let name = if threads == 1 { "cache-put".to_owned() } else { format!("cache-put-{threads}") };
    compare(
        &name,
        0.8,
        count,
        || shared(threads, values.len(), |at| ours.put(values[at].id, &values[at]).unwrap()),
        || shared(threads, encoded.len(), |at| raw.put(&encoded[at].0, &encoded[at].1).unwrap()),
    )
}

pub fn get(threads: usize) -> Row {
    let count = scaled(300_000);
    let Pair { ours, floor, values, encoded, _dir } = pair(count);
    let raw = floor.raw().unwrap();
    for (value, (key, bytes)) in values.iter().zip(&encoded) {
        ours.put(value.id, value).unwrap();
        raw.put(key, bytes).unwrap();
    }
    let name = if threads == 1 { "cache-get".to_owned() } else { format!("cache-get-{threads}") };
    compare(
        &name,
        0.8,
        count,
        || shared(threads, values.len(), |at| drop(std::hint::black_box(ours.get(values[at].id).unwrap().unwrap()))),
        || shared(threads, encoded.len(), |at| drop(std::hint::black_box(raw.get(&encoded[at].0).unwrap().unwrap()))),
    )
}
