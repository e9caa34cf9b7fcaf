//! What the store remembers beside the rows, in MessagePack with named fields, so that fields can be added.
//!
//! | key | value |
//! |---|---|
//! | `g` group | which handlers and tables belong together, and to which topic |
//! | `p` group `00` partition | the position that the group's rows of that partition are as of |
//!
//! A group is called after the first of its tables, in alphabetical order.

use rocksdb::WriteBatch;
use serde::{Deserialize, Serialize};

use super::open::{META, TableStore, partition_prefix};
use crate::codec::{Codec as _, MessagePack};
use crate::error::{Error, Kind, Result};

const GROUP: u8 = b'g';
const POSITION: u8 = b'p';

/// A group as it was when its rows were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    pub(super) topic: String,
    /// Partitions of the topic; 0: not known yet.
    pub(super) partitions: u32,
    /// In alphabetical order.
    pub(super) handlers: Vec<String>,
    pub(super) tables: Vec<String>,
}

/// Up to where the rows of a partition have its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PositionRecord {
    /// The offset to read next.
    pub(super) next: i64,
    /// The record before it, by which a log that was replaced is noticed.
    pub(super) last: Option<LastRecord>,
}

/// A record that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastRecord {
    pub(super) offset: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub(super) timestamp: Option<i64>,
    /// CRC-32C of key and value.
    pub(super) crc: u32,
}

impl GroupRecord {
    pub(super) fn name(&self) -> &str {
        self.tables.first().map_or("", String::as_str)
    }

    /// All groups of the store.
    pub(super) fn all(store: &TableStore) -> Result<Vec<Self>> {
        let found = store.metas(&[GROUP])?;
        found.into_iter().map(|(key, bytes)| decode(store, &key, &bytes)).collect()
    }

    pub(super) fn put(&self, store: &TableStore, batch: &mut WriteBatch) -> Result<()> {
        batch.put_cf(&store.handle(META)?, group_key(self.name()), MessagePack.encode(self)?);
        Ok(())
    }

    /// Takes the place of `old` groups, of which no rows and no positions are left.
    pub(super) fn replace(&self, store: &TableStore, old: &[Self]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for record in old {
            record.delete(store, &mut batch)?;
        }
        let tables = old.iter().chain([self]).flat_map(|record| &record.tables);
        tables.for_each(|table| store.delete_rows(&mut batch, table, &[], None));
        self.put(store, &mut batch)?;
        store.write(batch)
    }

    /// Forgets the group and all its positions.
    fn delete(&self, store: &TableStore, batch: &mut WriteBatch) -> Result<()> {
        let meta = store.handle(META)?;
        batch.delete_cf(&meta, group_key(self.name()));
        for (key, _) in store.metas(&positions_prefix(self.name()))? {
            batch.delete_cf(&meta, key);
        }
        Ok(())
    }
}

impl PositionRecord {
    pub(super) fn read(store: &TableStore, group: &str, partition: i32) -> Result<Option<Self>> {
        let key = position_key(group, partition);
        store.meta(&key)?.map(|bytes| decode(store, &key, &bytes)).transpose()
    }

    pub(super) fn put(&self, store: &TableStore, batch: &mut WriteBatch, group: &str, partition: i32) -> Result<()> {
        batch.put_cf(&store.handle(META)?, position_key(group, partition), MessagePack.encode(self)?);
        Ok(())
    }

    pub(super) fn delete(store: &TableStore, batch: &mut WriteBatch, group: &str, partition: i32) -> Result<()> {
        batch.delete_cf(&store.handle(META)?, position_key(group, partition));
        Ok(())
    }
}

fn decode<T>(store: &TableStore, key: &[u8], bytes: &bytes::Bytes) -> Result<T>
where
    MessagePack: crate::codec::Codec<T>,
{
    let damaged = |error: Error| {
        Error::new(Kind::Corrupt, format!("what is kept under {:?} is damaged", String::from_utf8_lossy(key)))
            .at(store.dir().display().to_string())
            .because(error)
    };
    MessagePack.decode(bytes).map_err(damaged)
}

fn group_key(group: &str) -> Vec<u8> {
    [&[GROUP], group.as_bytes()].concat()
}

fn positions_prefix(group: &str) -> Vec<u8> {
    [&[POSITION], group.as_bytes(), &[0]].concat()
}

fn position_key(group: &str, partition: i32) -> Vec<u8> {
    [&positions_prefix(group)[..], &partition_prefix(partition)].concat()
}
