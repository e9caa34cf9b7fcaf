//! What a table takes, and how far it is.

use std::sync::PoisonError;

use super::Table;
use crate::error::Result;
use crate::keys::Key;

/// Numbers of a table in the running app.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TableStats {
    /// The partitions that are here, and the positions that their stored rows are as of.
    pub partitions: Vec<(i32, i64)>,
    /// Rows in memory, over these partitions.
    pub hot_rows: usize,
    /// Bytes that these take, about.
    pub hot_bytes: usize,
    /// Rows in the store, about; RocksDB's estimate.
    pub stored_rows: u64,
    /// Bytes of the table's files on disk.
    pub disk_bytes: u64,
}

impl TableStats {
    /// The sum of the positions: records that the stored rows count, where offsets have no gaps and begin at 0.
    pub fn stored(&self) -> i64 {
        self.partitions.iter().map(|(_, position)| position).sum()
    }
}

impl<K: Key, V: 'static> Table<K, V> {
    /// Numbers of the table.
    ///
    /// # Errors
    /// [`Kind::Closed`](crate::Kind::Closed) and [`Kind::Rebuilding`](crate::Kind::Rebuilding), as
    /// [`get`](Self::get).
    pub fn stats(&self) -> Result<TableStats> {
        let open = self.opened()?;
        let partitions = self.current(&open)?;
        let sizes: Vec<_> = {
            let mut lanes = open.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.retain(|_, lane| lane.strong_count() > 0);
            lanes.values().filter_map(std::sync::Weak::upgrade).collect()
        };
        let (hot_bytes, hot_rows) = sizes.iter().map(|lane| lane.size()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        Ok(TableStats {
            partitions,
            hot_rows,
            hot_bytes,
            stored_rows: open.rows.number("rocksdb.estimate-num-keys")?,
            disk_bytes: open.rows.number("rocksdb.live-sst-files-size")?,
        })
    }
}
