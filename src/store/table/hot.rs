//! The rows of one table in one lane: decoded while they are hot, with what was written and is not stored yet.
//!
//! A unit's writes lie in a log until it ends; then they become the rows. A row that changed in a generation which is not
//! stored yet stays here, any other may be evicted and is read again when it is asked for.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Bound;

use bytes::Bytes;
use hashbrown::HashTable;
use rocksdb::WriteBatch;

use super::open::Family;
use super::page::lies_between;
use crate::codec::Codec;
use crate::error::{Error, Kind, Result};

/// Bytes that a row takes beside its key and what its value has elsewhere, about.
const FIXED_BYTES: usize = 32;
/// Rows that are looked at for each one that comes when there are too many bytes.
const EVICTION_STEPS: usize = 64;
/// No entry of the log.
const NONE: u32 = u32::MAX;

/// One row.
struct Row<V> {
    /// With the partition in front; empty: the place is free.
    key: Box<[u8]>,
    /// As of the last unit; without meaning while it is not known.
    value: Option<V>,
    /// The generation that it changed in last; 0: none.
    changed_in: u32,
    /// Its entry in the unit's log.
    log: u32,
    /// What its value takes when encoded; 0 while that is not known.
    value_bytes: u32,
    /// False for one that was written and never read.
    is_known: bool,
    /// Asked for since the last look for rows to evict.
    is_used: bool,
}

/// Where rows are that are not here: the store, or nowhere for rows that stand alone.
pub(super) type Behind = Option<Family>;

pub(super) struct Hot<V: 'static> {
    rows: Vec<Row<V>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: RandomState,
    /// What the present unit wrote.
    log: Vec<(u32, Option<V>)>,
    /// Rows that changed in the open generation.
    changed: Vec<u32>,
    /// Number of the open generation; those up to `stored` are stored.
    open: u32,
    stored: u32,
    bytes: usize,
    max_bytes: usize,
    changed_bytes: usize,
    hand: usize,
    /// Keys of rows that may differ from the store, in order; kept since the first scan.
    sorted: Option<BTreeMap<Box<[u8]>, u32>>,
    behind: Behind,
    codec: &'static dyn Codec<V>,
}

impl<V: Clone + Send + 'static> Hot<V> {
    pub(super) fn new(behind: Behind, codec: &'static dyn Codec<V>, max_bytes: usize) -> Self {
        Self {
            rows: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            log: Vec::new(),
            changed: Vec::new(),
            open: 1,
            stored: 0,
            bytes: 0,
            max_bytes,
            changed_bytes: 0,
            hand: 0,
            sorted: None,
            behind,
            codec,
        }
    }

    // ---- one row ----------------------------------------------------------------------------------------------------

    /// The place of the row under `key`, whether or not there is one; it is good until the next call.
    pub(super) fn locate(&mut self, key: &[u8]) -> Result<u32> {
        let Some(at) = self.find(key) else { return self.load(key) };
        self.learn(at)?;
        Ok(at)
    }

    /// The value under `key` as the present unit sees it.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&V>> {
        let at = self.locate(key)?;
        Ok(self.value(at))
    }

    /// Writes a row, or deletes it, as far as the present unit is concerned.
    pub(super) fn set(&mut self, key: &[u8], value: Option<V>) -> Result<()> {
        let at = match self.find(key) {
            Some(at) => at,
            None => self.insert(key, None, false, 0)?,
        };
        self.set_at(at, value)
    }

    /// The same for a row that was located.
    pub(super) fn set_at(&mut self, at: u32, value: Option<V>) -> Result<()> {
        let entries = u32::try_from(self.log.len()).unwrap_or(NONE);
        let Some(row) = self.rows.get_mut(at as usize) else { return Ok(()) };
        row.is_used = true;
        match self.log.get_mut(row.log as usize) {
            Some((_, old)) => *old = value,
            None if entries == NONE => return Err(too_many()),
            None => {
                row.log = entries;
                self.log.push((at, value));
            }
        }
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let same = |at: &u32| self.rows.get(*at as usize).is_some_and(|row| *row.key == *key);
        self.index.find(self.hasher.hash_one(key), same).copied()
    }

    pub(super) fn value(&self, at: u32) -> Option<&V> {
        let row = self.rows.get(at as usize)?;
        match self.log.get(row.log as usize) {
            Some((_, value)) => value.as_ref(),
            None => row.value.as_ref(),
        }
    }

    /// Reads a row that was only written so far, unless the present unit has just done that.
    fn learn(&mut self, at: u32) -> Result<()> {
        let Some(row) = self.rows.get_mut(at as usize) else { return Ok(()) };
        row.is_used = true;
        if row.is_known || row.log != NONE {
            return Ok(());
        }
        let (value, bytes) = read(&self.behind, self.codec, &row.key)?;
        (row.value, row.value_bytes, row.is_known) = (value, bytes, true);
        Ok(())
    }

    fn load(&mut self, key: &[u8]) -> Result<u32> {
        let (value, bytes) = read(&self.behind, self.codec, key)?;
        self.insert(key, value, true, bytes)
    }

    fn insert(&mut self, key: &[u8], value: Option<V>, is_known: bool, value_bytes: u32) -> Result<u32> {
        if self.bytes > self.max_bytes {
            self.evict();
        }
        let row = Row { key: key.into(), value, changed_in: 0, log: NONE, value_bytes, is_known, is_used: true };
        self.bytes += size_bytes(&row);
        let at = match self.free.pop() {
            Some(at) => at,
            None => u32::try_from(self.rows.len()).ok().filter(|at| *at != NONE).ok_or_else(too_many)?,
        };
        match self.rows.get_mut(at as usize) {
            Some(place) => *place = row,
            None => self.rows.push(row),
        }
        let (rows, hasher) = (&self.rows, &self.hasher);
        let hash = |at: &u32| hasher.hash_one(rows.get(*at as usize).map_or(&[][..], |row| &*row.key));
        self.index.insert_unique(hasher.hash_one(key), at, hash);
        Ok(at)
    }

    /// Lets go of rows that were not asked for lately and that the store has.
    fn evict(&mut self) {
        for _ in 0..EVICTION_STEPS {
            if self.bytes <= self.max_bytes {
                return;
            }
            self.hand = if self.hand + 1 < self.rows.len() { self.hand + 1 } else { 0 };
            let Some(row) = self.rows.get_mut(self.hand) else { return };
            if row.key.is_empty() || row.log != NONE || row.changed_in > self.stored {
                continue;
            }
            if std::mem::take(&mut row.is_used) {
                continue;
            }
            self.bytes -= size_bytes(row);
            let key = std::mem::take(&mut row.key);
            row.value = None;
            let at = self.hand;
            let hash = self.hasher.hash_one(&*key);
            if let Ok(entry) = self.index.find_entry(hash, |own| *own as usize == at) {
                entry.remove();
            }
            self.free.extend(u32::try_from(at));
        }
    }

    // ---- units and generations --------------------------------------------------------------------------------------

    /// What the unit wrote becomes the rows; how many bytes more the open generation has.
    pub(super) fn end_unit(&mut self) -> Result<usize> {
        let before = self.changed_bytes;
        for (at, value) in self.log.drain(..) {
            let Some(row) = self.rows.get_mut(at as usize) else { continue };
            (row.value, row.log, row.is_known) = (value, NONE, true);
            if row.changed_in == self.open {
                continue;
            }
            row.changed_in = self.open;
            self.changed.push(at);
            if let (0, true, Some(value)) = (row.value_bytes, std::mem::needs_drop::<V>(), &row.value) {
                row.value_bytes = length(&encode(self.codec, value, &row.key)?);
                self.bytes += row.value_bytes as usize;
            }
            self.changed_bytes += size_bytes(row);
            if let Some(sorted) = &mut self.sorted {
                sorted.insert(row.key.clone(), at);
            }
        }
        Ok(self.changed_bytes - before)
    }

    /// Ends the open generation: adds what changed in it to `batch`, as it is now.
    pub(super) fn seal(&mut self, batch: &mut WriteBatch) -> Result<()> {
        let family = self.behind.as_ref().map(Family::handle).transpose()?;
        // RocksDB takes neighbours faster.
        let rows = &self.rows;
        self.changed.sort_unstable_by_key(|at| rows.get(*at as usize).map_or(&[][..], |row| &*row.key));
        for at in self.changed.drain(..) {
            let Some(row) = self.rows.get_mut(at as usize) else { continue };
            let before = size_bytes(row);
            match (&row.value, &family) {
                (Some(value), Some(family)) => {
                    let value = encode(self.codec, value, &row.key)?;
                    row.value_bytes = length(&value);
                    batch.put_cf(family, &row.key, &value);
                }
                (None, Some(family)) => batch.delete_cf(family, &row.key),
                (_, None) => {}
            }
            self.bytes = (self.bytes + size_bytes(row)).saturating_sub(before);
        }
        self.changed_bytes = 0;
        self.open += 1;
        Ok(())
    }

    /// The oldest generation that was not stored is.
    pub(super) fn stored(&mut self) {
        self.stored += 1;
        if let Some(sorted) = &mut self.sorted {
            let (rows, stored) = (&self.rows, self.stored);
            sorted.retain(|_, at| rows.get(*at as usize).is_some_and(|row| row.changed_in > stored));
        }
    }

    /// Bytes that the rows take here, about, and how many rows there are.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.bytes, self.rows.len() - self.free.len())
    }

    // ---- scans ------------------------------------------------------------------------------------------------------

    /// What differs from the store between the bounds, in order, as the present unit sees it: at most `max` rows from
    /// the side where the scan begins.
    pub(super) fn unstored(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        descending: bool,
        max: usize,
    ) -> Unstored<V> {
        let sorted = self.sorted.take().unwrap_or_else(|| self.sort());
        let in_range = sorted.range::<[u8], _>((from, to));
        #[expect(clippy::borrowed_box, reason = "that is what the map gives")]
        let of = |(key, at): (&Box<[u8]>, &u32)| (key.clone(), self.value(*at).cloned());
        let mut found: BTreeMap<_, _> =
            if descending { in_range.rev().take(max).map(of).collect() } else { in_range.take(max).map(of).collect() };
        let last = if descending { found.first_key_value() } else { found.last_key_value() };
        let horizon = last.filter(|_| found.len() == max).map(|(key, _)| key.clone());
        for (at, value) in &self.log {
            let Some(row) = self.rows.get(*at as usize) else { continue };
            if lies_between(&row.key, from, to) {
                found.insert(row.key.clone(), value.clone());
            }
        }
        self.sorted = Some(sorted);
        Unstored { rows: found, horizon }
    }

    fn sort(&self) -> BTreeMap<Box<[u8]>, u32> {
        let rows = self.rows.iter().zip(0_u32..);
        let unstored = rows.filter(|(row, _)| !row.key.is_empty() && row.changed_in > self.stored);
        unstored.map(|(row, at)| (row.key.clone(), at)).collect()
    }

    pub(super) fn behind(&self) -> &Behind {
        &self.behind
    }
}

/// Rows that differ from the store; `None` for one that is deleted.
pub(super) struct Unstored<V> {
    pub(super) rows: BTreeMap<Box<[u8]>, Option<V>>,
    /// Behind this key there may be more.
    pub(super) horizon: Option<Box<[u8]>>,
}

fn size_bytes<V>(row: &Row<V>) -> usize {
    size_of::<Row<V>>() + FIXED_BYTES + row.key.len() + row.value_bytes as usize
}

fn length(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn read<V: 'static>(behind: &Behind, codec: &dyn Codec<V>, key: &[u8]) -> Result<(Option<V>, u32)> {
    let Some(family) = behind else { return Ok((None, 0)) };
    let Some(bytes) = family.get(key)? else { return Ok((None, 0)) };
    let length = length(&bytes);
    let value = codec.decode(&bytes).map_err(|error| family.here(error))?;
    Ok((Some(value), length))
}

fn encode<V: 'static>(codec: &dyn Codec<V>, value: &V, key: &[u8]) -> Result<Bytes> {
    let place = |error: Error| {
        Error::new(Kind::Encode, format!("the row under {:02x?} cannot be written", key.get(4..).unwrap_or_default()))
            .because(error)
    };
    codec.encode(value).map_err(place)
}

fn too_many() -> Error {
    Error::new(Kind::TooLarge, "more rows in memory than can be numbered")
}
