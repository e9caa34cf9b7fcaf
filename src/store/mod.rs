//! What is kept on disk: typed keys, and caches on RocksDB.

#[cfg(feature = "rocksdb")]
pub mod cache;
pub mod keys;
#[cfg(feature = "rocksdb")]
pub mod table;
