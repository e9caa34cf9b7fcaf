//! Rows in memory: a hash map bounded by bytes, and which of its rows changed since the last batch.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::mem::take;
use std::rc::Rc;

/// What a row takes beside its key: the counted allocation, the key's own, and its share of the table.
const ROW_BYTES: usize = 96;

pub struct Row {
    pub key: Box<[u8]>,
    pub count: Cell<u64>,
    changed: Cell<bool>,
}

/// A row found by its key. The list of changed rows has the same one, so a write looks nothing up.
struct ByKey(Rc<Row>);

impl Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

/// Two generations, each bounded by half. What is used moves into the young one; when that is full, the old one goes.
pub struct Hot {
    young: HashSet<ByKey>,
    old: HashSet<ByKey>,
    young_bytes: usize,
    half_bytes: usize,
    changed: Vec<Rc<Row>>,
}

impl Hot {
    pub fn new(bound_bytes: usize) -> Self {
        let (young, old, changed) = (HashSet::new(), HashSet::new(), Vec::new());
        Self { young, old, young_bytes: 0, half_bytes: bound_bytes / 2, changed }
    }

    /// Counts one of `key`; `read` has the count of a row that is not in memory.
    pub fn count(&mut self, key: &[u8], read: impl FnOnce() -> u64) {
        if let Some(ByKey(row)) = self.young.get(key) {
            increment(row, &mut self.changed);
            return;
        }
        let row = self.old.take(key).map_or_else(
            || Rc::new(Row { key: key.into(), count: Cell::new(read()), changed: Cell::new(false) }),
            |ByKey(row)| row,
        );
        increment(&row, &mut self.changed);
        self.young_bytes += ROW_BYTES + key.len();
        self.young.insert(ByKey(row));
    }

    /// What changed since the last batch, in the order of keys: RocksDB takes neighbours faster.
    pub fn changed(&mut self) -> &[Rc<Row>] {
        self.changed.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        &self.changed
    }

    /// Says that the changed rows are stored. Only now may one leave.
    pub fn stored(&mut self) {
        self.changed.drain(..).for_each(|row| row.changed.set(false));
        if self.young_bytes > self.half_bytes {
            self.old = take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

fn increment(row: &Rc<Row>, changed: &mut Vec<Rc<Row>>) {
    row.count.set(row.count.get() + 1);
    if !row.changed.replace(true) {
        changed.push(Rc::clone(row));
    }
}
