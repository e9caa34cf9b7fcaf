//! Several writes as one.

use std::borrow::Borrow;
use std::sync::Arc;

use rocksdb::WriteBatch;

use super::Cache;
use super::open::Open;
use crate::error::{Error, Kind, Result};
use crate::keys::{self, AsKey, Key};

/// Writes that are made together by [`commit`](Self::commit), or not at all when dropped. Also across the families of
/// one cache.
///
/// ```
/// use slipstream::{Cache, Retention};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let users: Cache<u32, String> = Cache::named("users");
/// # users.open_in(dir.path())?;
/// let by_name: Cache<String, u32> = users.create_family("by-name", Retention::Keep)?;
/// let mut batch = users.batch()?;
/// batch.put(7, "ada".to_owned())?;
/// batch.put_in(&by_name, "ada", 7)?;
/// batch.commit()?;
/// assert_eq!(by_name.get("ada")?, Some(7));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[must_use = "a batch that is not committed writes nothing"]
pub struct Batch<K, V: 'static> {
    cache: Cache<K, V>,
    open: Arc<Open>,
    writes: WriteBatch,
}

impl<K: Key, V: 'static> Cache<K, V> {
    /// An empty batch.
    ///
    /// # Errors
    /// [`Kind::Closed`]; on first use also those of [`open_in`](Self::open_in).
    pub fn batch(&self) -> Result<Batch<K, V>> {
        Ok(Batch { cache: self.clone(), open: self.opened()?, writes: WriteBatch::default() })
    }
}

impl<K: Key, V: 'static> Batch<K, V> {
    /// Adds a row.
    ///
    /// # Errors
    /// [`Kind::Encode`], [`Kind::Closed`] when the family was dropped.
    pub fn put(&mut self, key: impl AsKey<K>, value: impl Borrow<V>) -> Result<()> {
        let value = self.cache.encode(value.borrow())?;
        let place = self.open.place(self.cache.family_name())?;
        keys::with_bytes(&key, |key| place.put_later(&mut self.writes, key, &value));
        Ok(())
    }

    /// Adds a row of another family of the same cache.
    ///
    /// # Errors
    /// As [`put`](Self::put), and [`Kind::Config`] when `family` is of another cache.
    pub fn put_in<K2: Key, V2: 'static>(
        &mut self,
        family: &Cache<K2, V2>,
        key: impl AsKey<K2>,
        value: impl Borrow<V2>,
    ) -> Result<()> {
        self.same_store(family)?;
        let value = family.encode(value.borrow())?;
        let place = self.open.place(family.family_name())?;
        keys::with_bytes(&key, |key| place.put_later(&mut self.writes, key, &value));
        Ok(())
    }

    /// Adds the deletion of a row.
    ///
    /// # Errors
    /// [`Kind::Closed`] when the family was dropped.
    pub fn delete(&mut self, key: impl AsKey<K>) -> Result<()> {
        let place = self.open.place(self.cache.family_name())?;
        keys::with_bytes(&key, |key| place.delete_later(&mut self.writes, key));
        Ok(())
    }

    /// Adds the deletion of a row of another family of the same cache.
    ///
    /// # Errors
    /// As [`delete`](Self::delete), and [`Kind::Config`] when `family` is of another cache.
    pub fn delete_in<K2: Key, V2: 'static>(&mut self, family: &Cache<K2, V2>, key: impl AsKey<K2>) -> Result<()> {
        self.same_store(family)?;
        let place = self.open.place(family.family_name())?;
        keys::with_bytes(&key, |key| place.delete_later(&mut self.writes, key));
        Ok(())
    }

    /// Adds the deletion of all rows from `from` up to, but not including, `to`.
    ///
    /// # Errors
    /// [`Kind::Closed`] when the family was dropped.
    pub fn delete_range(&mut self, from: impl AsKey<K>, to: impl AsKey<K>) -> Result<()> {
        let place = self.open.place(self.cache.family_name())?;
        let (from, to) = (keys::encode(from), keys::encode(to));
        // RocksDB refuses a range that ends before it begins; one that is empty deletes nothing.
        if from < to {
            place.delete_range_later(&mut self.writes, &from, &to);
        }
        Ok(())
    }

    /// How many writes it holds.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Makes all of its writes, or none when it fails. A disk call.
    ///
    /// # Errors
    /// As [`Cache::put`].
    pub fn commit(self) -> Result<()> {
        self.open.write(self.writes)
    }

    fn same_store<K2, V2: 'static>(&self, family: &Cache<K2, V2>) -> Result<()> {
        if Arc::ptr_eq(&family.opened()?, &self.open) {
            return Ok(());
        }
        let message = format!("{} is not a family of {}", family.label(), self.cache.label());
        Err(Error::new(Kind::Config, message))
    }
}

impl<K, V: 'static> std::fmt::Debug for Batch<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("cache", &self.cache).field("writes", &self.writes.len()).finish_non_exhaustive()
    }
}
