//! Rows as bytes: one family of an open store, the cache itself being the default one.

use std::sync::Arc;

use bytes::Bytes;
use rocksdb::{BoundColumnFamily, DB, DBRawIteratorWithThreadMode, ReadOptions, WriteBatch};

use super::clock::{living_len, stamped};
use super::manifest::DEFAULT_FAMILY;
use super::open::Open;
use super::retention::Retention;
use super::stats::Evictions;
use crate::codec;
use crate::error::{Error, Kind, Result};

pub(crate) struct Place<'a> {
    pub(crate) open: &'a Open,
    /// `None` is the default family, which RocksDB reaches without a handle.
    pub(crate) family: Option<Arc<BoundColumnFamily<'a>>>,
    pub(crate) retention: Retention,
}

/// Whether a sink's write was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// It is in the store.
    Written,
    /// The store would have made the thread wait; nothing was written.
    Stalled,
}

impl<'a> Place<'a> {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.look(key, codec::copied)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.look(key, |_| ())?.is_some())
    }

    /// What `then` makes of the value of a row where RocksDB has it.
    fn look<R>(&self, key: &[u8], then: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let reads = &self.open.reads;
        let row = match &self.family {
            None => self.open.db.get_pinned_opt(key, reads),
            Some(family) => self.open.db.get_pinned_cf_opt(family, key, reads),
        };
        let row = row.map_err(|error| self.open.failed(error))?;
        Ok(self.living(row.as_deref()).map(then))
    }

    pub(crate) fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        let family = self.handle()?;
        let rows = self.open.db.batched_multi_get_cf_opt(&family, keys, false, &self.open.reads);
        rows.into_iter()
            .map(|row| {
                let row = row.map_err(|error| self.open.failed(error))?;
                Ok(self.living(row.as_deref()).map(codec::copied))
            })
            .collect()
    }

    /// The value of a row, or nothing when its time is over; before a reader is told that there is none, evictions
    /// are noticed.
    pub(crate) fn living<'r>(&self, row: Option<&'r [u8]>) -> Option<&'r [u8]> {
        match (self.retention, row) {
            (Retention::Fifo { .. }, None) => {
                self.open.watch_evictions();
                None
            }
            (Retention::Ttl(time), Some(row)) => {
                let len = living_len(row, time, self.open.clock().now_millis())?;
                row.get(..len)
            }
            (_, row) => row,
        }
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, &self.open.writes)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, &self.open.writes)
    }

    /// Writes unless that would make the thread wait; `None` deletes.
    pub(crate) fn write_now(&self, key: &[u8], value: Option<&[u8]>) -> Result<WriteOutcome> {
        let written = match value {
            Some(value) => self.put_raw(key, value, &self.open.sink_writes),
            None => self.delete_raw(key, &self.open.sink_writes),
        };
        match written {
            Ok(()) => {
                self.open.wrote();
                Ok(WriteOutcome::Written)
            }
            Err(error) if error.kind() == rocksdb::ErrorKind::Incomplete => Ok(WriteOutcome::Stalled),
            Err(error) => Err(self.open.failed(error)),
        }
    }

    fn put_with(&self, key: &[u8], value: &[u8], writes: &rocksdb::WriteOptions) -> Result<()> {
        self.put_raw(key, value, writes).map_err(|error| self.open.failed(error))?;
        self.open.wrote();
        Evictions::count_write(|| self.open.watch_evictions());
        Ok(())
    }

    fn put_raw(&self, key: &[u8], value: &[u8], writes: &rocksdb::WriteOptions) -> Result<(), rocksdb::Error> {
        let with_time;
        let value = if matches!(self.retention, Retention::Ttl(_)) {
            with_time = stamped(value, self.open.clock().now_millis());
            &with_time
        } else {
            value
        };
        match &self.family {
            None => self.open.db.put_opt(key, value, writes),
            Some(family) => self.open.db.put_cf_opt(family, key, value, writes),
        }
    }

    fn delete_with(&self, key: &[u8], writes: &rocksdb::WriteOptions) -> Result<()> {
        self.delete_raw(key, writes).map_err(|error| self.open.failed(error))?;
        self.open.wrote();
        Ok(())
    }

    fn delete_raw(&self, key: &[u8], writes: &rocksdb::WriteOptions) -> Result<(), rocksdb::Error> {
        match &self.family {
            None => self.open.db.delete_opt(key, writes),
            Some(family) => self.open.db.delete_cf_opt(family, key, writes),
        }
    }

    /// Adds to a batch what [`put`](Self::put) would write.
    pub(crate) fn put_later(&self, batch: &mut WriteBatch, key: &[u8], value: &[u8]) {
        let with_time;
        let value = if matches!(self.retention, Retention::Ttl(_)) {
            with_time = stamped(value, self.open.clock().now_millis());
            &with_time
        } else {
            value
        };
        match &self.family {
            None => batch.put(key, value),
            Some(family) => batch.put_cf(family, key, value),
        }
    }

    pub(crate) fn delete_later(&self, batch: &mut WriteBatch, key: &[u8]) {
        match &self.family {
            None => batch.delete(key),
            Some(family) => batch.delete_cf(family, key),
        }
    }

    pub(crate) fn delete_range_later(&self, batch: &mut WriteBatch, from: &[u8], to: &[u8]) {
        match &self.family {
            None => batch.delete_range(from, to),
            Some(family) => batch.delete_range_cf(family, from, to),
        }
    }

    pub(crate) fn iterate(&self, reads: ReadOptions) -> DBRawIteratorWithThreadMode<'a, DB> {
        match &self.family {
            None => self.open.db.raw_iterator_opt(reads),
            Some(family) => self.open.db.raw_iterator_cf_opt(family, reads),
        }
    }

    pub(crate) fn set_options(&self, options: &[(&str, &str)]) -> Result<()> {
        self.open.db.set_options_cf(&self.handle()?, options).map_err(|error| self.open.failed(error))
    }

    /// The family's handle, also of the default one.
    pub(crate) fn handle(&self) -> Result<Arc<BoundColumnFamily<'a>>> {
        self.family
            .clone()
            .or_else(|| self.open.db.cf_handle(DEFAULT_FAMILY))
            .ok_or_else(|| Error::new(Kind::Store, "the store has no default family"))
    }
}

impl Open {
    /// Writes a batch: all of it or nothing.
    pub(crate) fn write(&self, batch: WriteBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.db.write_opt(batch, &self.writes).map_err(|error| self.failed(error))?;
        self.wrote();
        Evictions::count_write(|| self.watch_evictions());
        Ok(())
    }
}
