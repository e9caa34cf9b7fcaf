//! Rings that no lane uses, by length, and the table of all. A ring that still has guards waits until they ended.

use super::ring::{NONE, Ring};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Rings beyond this many still work, but their guards cannot travel as numbers.
const TABLE_LEN: usize = 16_384;

static TABLE: [OnceLock<&'static Ring>; TABLE_LEN] = [const { OnceLock::new() }; TABLE_LEN];
static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), made: 0 });

struct Pool {
    free: Vec<(u32, &'static Ring)>,
    made: u32,
}

pub(super) fn take(len: u32) -> &'static Ring {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let found = pool.free.iter().position(|(own, ring)| *own == len && ring.is_clear());
    if let Some(at) = found {
        let (_, ring) = pool.free.swap_remove(at);
        ring.reset();
        return ring;
    }
    let place = TABLE.get(pool.made as usize);
    let id = if place.is_some() { pool.made } else { NONE };
    pool.made = pool.made.saturating_add(1);
    let ring: &'static Ring = Box::leak(Box::new(Ring::new(len, id)));
    if let Some(place) = place {
        place.get_or_init(|| ring);
    }
    ring
}

pub(super) fn give_back(len: u32, ring: &'static Ring) {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).free.push((len, ring));
}

pub(super) fn by_id(id: u32) -> Option<&'static Ring> {
    TABLE.get(id as usize)?.get().copied()
}
