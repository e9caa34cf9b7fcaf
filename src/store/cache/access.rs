//! Reading and writing single rows.

use bytes::Bytes;

use super::Cache;
use super::place::Place;
use crate::error::{Error, Kind, Result};
use crate::keys::{self, AsKey, Key};

/// Attempts of one `update` against writers of the same key before it gives up.
const MAX_UPDATE_ATTEMPTS: usize = 10_000;

impl<K: Key, V: 'static> Cache<K, V> {
    /// The value of `key`, or `None`. A disk call.
    ///
    /// # Errors
    /// [`Kind::Decode`] when the codec does not understand the value, [`Kind::Corrupt`] naming the damaged file,
    /// [`Kind::Closed`], [`Kind::Store`]; on first use also those of [`open_in`](Self::open_in).
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<String, u32> = Cache::named("got");
    /// # cache.open_in(dir.path())?;
    /// assert_eq!(cache.get("key")?, None);
    /// cache.put("key", 1)?;
    /// assert_eq!(cache.get("key")?, Some(1));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        let row = keys::with_bytes(&key, |key| self.with_place(|place| place.get(key)))?;
        row.map(|row| self.decode(row)).transpose()
    }

    /// The values of several keys, in their order. Quicker than one call each.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, String> = Cache::named("many");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, "one".to_owned())?;
    /// assert_eq!(cache.get_many([1, 2])?, [Some("one".to_owned()), None]);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn get_many<Q: AsKey<K>>(&self, keys: impl IntoIterator<Item = Q>) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.into_iter().map(keys::encode).collect();
        let rows = self.with_place(|place| place.get_many(&keys))?;
        rows.into_iter().map(|row| row.map(|row| self.decode(row)).transpose()).collect()
    }

    /// Whether `key` has a row. A disk call.
    ///
    /// # Errors
    /// As [`get`](Self::get), without [`Kind::Decode`].
    pub fn contains(&self, key: impl AsKey<K>) -> Result<bool> {
        keys::with_bytes(&key, |key| self.with_place(|place| place.contains(key)))
    }

    /// Whether `key` may have a row, without reading from the disk: `false` is certain.
    ///
    /// # Errors
    /// [`Kind::Closed`]; on first use also those of [`open_in`](Self::open_in).
    pub fn key_may_exist(&self, key: impl AsKey<K>) -> Result<bool> {
        keys::with_bytes(&key, |key| {
            self.with_place(|place| {
                let (db, reads) = (&place.open.db, &place.open.reads);
                Ok(match &place.family {
                    None => db.key_may_exist_opt(key, reads),
                    Some(family) => db.key_may_exist_cf_opt(family, key, reads),
                })
            })
        })
    }

    /// Writes a row. A disk call; survives a crash of the process once it returns.
    ///
    /// # Errors
    /// [`Kind::Encode`], [`Kind::DiskFull`] (worth another try when there is space), [`Kind::Unsupported`] for one
    /// that is read-only, [`Kind::Closed`], [`Kind::Store`]; on first use also those of [`open_in`](Self::open_in).
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<(String, i64), f64> = Cache::named("written");
    /// # cache.open_in(dir.path())?;
    /// cache.put(("JFK", 7), 1.5)?;
    /// cache.put(("JFK".to_owned(), 7), 2.5)?; // the same row
    /// assert_eq!(cache.get(("JFK", 7))?, Some(2.5));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn put(&self, key: impl AsKey<K>, value: impl std::borrow::Borrow<V>) -> Result<()> {
        let value = self.encode(value.borrow())?;
        keys::with_bytes(&key, |key| self.with_place(|place| place.put(key, &value)))
    }

    /// Deletes a row; a missing one is fine. A disk call.
    ///
    /// # Errors
    /// As [`put`](Self::put), without [`Kind::Encode`].
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, String> = Cache::named("deleted");
    /// # cache.open_in(dir.path())?;
    /// cache.put(1, "one".to_owned())?;
    /// cache.delete(1)?;
    /// cache.delete(2)?; // none is fine
    /// assert!(!cache.contains(1)?);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn delete(&self, key: impl AsKey<K>) -> Result<()> {
        keys::with_bytes(&key, |key| self.with_place(|place| place.delete(key)))
    }

    /// Replaces a row by what `change` makes of it (`None`: no row) and returns that.
    ///
    /// No other `update`, and no transaction, comes between reading and writing; a plain `put` can. `change` runs
    /// without a lock: when the row was changed meanwhile it is called again with the new one.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`put`](Self::put); [`Kind::Locked`], worth another try, while a transaction
    /// holds the key.
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<String, u32> = Cache::named("updated");
    /// # cache.open_in(dir.path())?;
    /// let count = |n: Option<u32>| Some(n.unwrap_or(0) + 1);
    /// assert_eq!(cache.update("word", count)?, Some(1));
    /// assert_eq!(cache.update("word", count)?, Some(2));
    /// assert_eq!(cache.update("word", |_| None)?, None); // deletes
    /// assert!(!cache.contains("word")?);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn update(&self, key: impl AsKey<K>, mut change: impl FnMut(Option<V>) -> Option<V>) -> Result<Option<V>> {
        let key = keys::encode(key);
        for _ in 0..MAX_UPDATE_ATTEMPTS {
            let before = self.with_place(|place| place.get(&key))?;
            let old = before.clone().map(|row| self.decode(row)).transpose()?;
            let new = change(old);
            let after = new.as_ref().map(|value| self.encode(value)).transpose()?;
            if self.with_place(|place| swap(place, self.family_name(), &key, before.as_deref(), after.as_deref()))? {
                return Ok(new);
            }
        }
        Err(Error::new(Kind::Locked, "the row changed at every attempt to update it").at(self.label()).retryable())
    }

    /// Deletes all rows from `from` up to, but not including, `to`. One small write, however many rows there are.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<i32, i32> = Cache::named("range");
    /// # cache.open_in(dir.path())?;
    /// for n in -2..3 {
    ///     cache.put(n, n)?;
    /// }
    /// cache.delete_range(-1, 2)?;
    /// assert_eq!(cache.keys().iter().collect::<Result<Vec<_>, _>>()?, [-2, 2]);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn delete_range(&self, from: impl AsKey<K>, to: impl AsKey<K>) -> Result<()> {
        let mut batch = self.batch()?;
        batch.delete_range(from, to)?;
        batch.commit()
    }

    pub(crate) fn encode(&self, value: &V) -> Result<Bytes> {
        self.codec.encode(value).map_err(|error| self.here(error))
    }

    pub(crate) fn decode(&self, row: impl Into<Bytes>) -> Result<V> {
        self.codec.decode(&row.into()).map_err(|error| self.here(error))
    }

    fn here(&self, error: Error) -> Error {
        if error.place().is_some() { error } else { error.at(self.label()) }
    }
}

impl<K, V: 'static> Cache<K, V> {
    /// Runs a short call on this family of the open store.
    pub(crate) fn with_place<R>(&self, call: impl FnOnce(&Place<'_>) -> Result<R>) -> Result<R> {
        self.with_open(|open| call(&open.place(self.family_name())?))
    }
}

/// Writes `after` if the row still is `before`; `false` when it is not.
fn swap(
    place: &Place<'_>,
    family: Option<&str>,
    key: &[u8],
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<bool> {
    let locks = &place.open.locks;
    let _turn = locks.turn(key);
    if locks.is_held(family, key) {
        return Err(Error::new(Kind::Locked, "a transaction holds the key").retryable());
    }
    if place.get(key)?.as_deref() != before {
        return Ok(false);
    }
    match after {
        Some(value) => place.put(key, value)?,
        None if before.is_some() => place.delete(key)?,
        None => {}
    }
    Ok(true)
}
