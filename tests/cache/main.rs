//! Caches as a user sees them, on a real RocksDB.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod damage;
mod lifecycle;
mod locks;
mod memory;
mod order;
mod parity;
mod retention;
mod scans;
#[path = "../support/small.rs"]
#[expect(dead_code, reason = "what only other tests need")]
mod small;

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipstream::{Cache, Retention};
use tempfile::TempDir;

/// A cache in a directory of its own.
fn cache<K, V: Serialize + DeserializeOwned + 'static>() -> (Cache<K, V>, TempDir) {
    open(Cache::named("tested"))
}

/// One that never drops a row.
fn keeping<K, V: Serialize + DeserializeOwned + 'static>() -> (Cache<K, V>, TempDir) {
    open(Cache::named("tested").retention(Retention::Keep))
}

fn open<K, V: 'static>(cache: Cache<K, V>) -> (Cache<K, V>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    cache.open_in(dir.path()).unwrap();
    (cache, dir)
}

fn all<T>(rows: impl IntoIterator<Item = slipstream::Result<T>>) -> Vec<T> {
    rows.into_iter().collect::<Result<_, _>>().unwrap()
}

/// Bytes that do not compress, the same for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(len)
    .collect()
}
