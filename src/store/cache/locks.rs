//! Locks on exact keys: no two keys share one, waiters are served in the order they came, and a waiter that gives up
//! leaves nothing behind.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Turns of short writes that compare first. Two keys may share one: no user code runs inside.
const TURNS: usize = 64;

type Table = HashMap<Vec<u8>, Arc<AsyncMutex<()>>>;

#[derive(Debug)]
pub(crate) struct KeyLocks {
    held: Mutex<Table>,
    turns: [Mutex<()>; TURNS],
    hasher: RandomState,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self { held: Mutex::default(), turns: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

/// A lock that is held, or waited for; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Claim {
    locks: Arc<KeyLocks>,
    name: Vec<u8>,
    lock: Option<Arc<AsyncMutex<()>>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits for the lock of `key`. Dropped while waiting, it has taken nothing.
    pub(crate) async fn claim(self: &Arc<Self>, family: Option<&str>, key: &[u8]) -> Claim {
        let name = name(family, key);
        let lock = Arc::clone(self.table().entry(name.clone()).or_default());
        let mut claim = Claim { locks: Arc::clone(self), name, lock: Some(Arc::clone(&lock)), guard: None };
        claim.guard = Some(lock.lock_owned().await);
        // An `update` that looked just before us finishes its write here; later ones see the lock.
        drop(self.turn(key));
        claim
    }

    /// Whether a transaction holds `key`.
    pub(crate) fn is_held(&self, family: Option<&str>, key: &[u8]) -> bool {
        let table = self.table();
        !table.is_empty() && table.get(&name(family, key)).is_some_and(|lock| lock.try_lock().is_err())
    }

    /// Waits for the short turn of those that compare and write.
    pub(crate) fn turn(&self, key: &[u8]) -> Option<MutexGuard<'_, ()>> {
        let hash = usize::try_from(self.hasher.hash_one(key) % TURNS as u64).unwrap_or_default();
        self.turns.get(hash).map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.guard = None;
        self.lock = None;
        let mut table = self.locks.table();
        if table.get(&self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            table.remove(&self.name);
        }
    }
}

// A family's name holds no zero, so that no two pairs share a name.
fn name(family: Option<&str>, key: &[u8]) -> Vec<u8> {
    let family = family.unwrap_or_default().as_bytes();
    [family, &[0], key].concat()
}
