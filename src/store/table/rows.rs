//! [`Rows`]: a table as a handler has it for one call.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rocksdb::WriteBatch;

use super::hot::Hot;
use super::lane::LaneRows;
use super::open::{Family, partition_prefix};
use crate::codec::Codec;
use crate::error::{Error, Kind, Result};
use crate::flow::UnitCx;
use crate::flow::fold::{Lent, TableRef};
use crate::keys::{self, AsKey, Key};

/// Bytes of rows that stand alone.
const ALONE_BYTES: usize = usize::MAX;

/// The rows of a table in one lane. Only the lane's task uses it, so that nobody waits for the lock.
pub(super) struct LaneTable<K, V: 'static> {
    hot: Mutex<Hot<V>>,
    pub(super) codec: &'static dyn Codec<V>,
    pub(super) prefix: [u8; 4],
    types: PhantomData<fn(K) -> K>,
}

impl<K: Key, V: Clone + Send + 'static> LaneTable<K, V> {
    pub(super) fn new(
        rows: Option<Family>,
        codec: &'static dyn Codec<V>,
        partition: i32,
        max_bytes: usize,
    ) -> Arc<Self> {
        let hot = Mutex::new(Hot::new(rows, codec, max_bytes));
        Arc::new(Self { hot, codec, prefix: partition_prefix(partition), types: PhantomData })
    }
}

impl<K, V: 'static> LaneTable<K, V> {
    #[inline]
    pub(super) fn hot(&self) -> MutexGuard<'_, Hot<V>> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key, V: Clone + Send + 'static> LaneRows for LaneTable<K, V> {
    fn end_unit(&self) -> Result<usize> {
        self.hot().end_unit()
    }

    fn seal(&self, batch: &mut WriteBatch) -> Result<()> {
        self.hot().seal(batch)
    }

    fn stored(&self) {
        self.hot().stored();
    }

    fn size(&self) -> (usize, usize) {
        self.hot().size()
    }
}

/// The rows of a [`Table`](super::Table), for one call of a handler that declares it.
///
/// A handler sees the rows of the message's partition, with what earlier messages wrote and with its own writes. Those
/// count when the message is done with all its handlers; a handler that fails, panics or runs into its timeout leaves
/// nothing behind.
///
/// Reading a row that was used lately costs a look into a map in memory, any other a disk call. Values are cloned out.
///
/// A function that takes `&mut Rows` is called in a test with rows that stand alone:
///
/// ```
/// use slipstream::prelude::*;
///
/// fn count(word: String, counts: &mut Rows<String, u64>) -> Result<()> {
///     counts.update(word, |n| n.unwrap_or(0) + 1)
/// }
///
/// let mut counts = Rows::alone();
/// count("swift".to_owned(), &mut counts)?;
/// count("swift".to_owned(), &mut counts)?;
/// assert_eq!(counts.get("swift")?, Some(2));
/// # Ok::<(), slipstream::Error>(())
/// ```
pub struct Rows<K, V: 'static> {
    pub(super) lane: Arc<LaneTable<K, V>>,
}

impl<K: Key, V> Rows<K, V>
where
    V: Clone + Send + serde::Serialize + serde::de::DeserializeOwned + 'static,
{
    /// Rows that belong to no table and are forgotten when they are dropped.
    pub fn alone() -> Self {
        Self { lane: LaneTable::new(None, &crate::codec::MessagePack, 0, ALONE_BYTES) }
    }
}

impl<K: Key, V: Clone + Send + 'static> Rows<K, V> {
    #[inline]
    fn with_key<R>(&self, key: &impl AsKey<K>, then: impl FnOnce(&[u8]) -> R) -> R {
        keys::with_bytes_behind(&self.lane.prefix, key, then)
    }

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`Kind::Decode`] when the codec does not understand the stored value, [`Kind::Corrupt`] naming the damaged file,
    /// [`Kind::Store`].
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        self.with_key(&key, |key| Ok(self.lane.hot().get(key)?.cloned()))
    }

    /// Whether `key` has a row.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: impl AsKey<K>) -> Result<bool> {
        self.with_key(&key, |key| Ok(self.lane.hot().get(key)?.is_some()))
    }

    /// Writes a row.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] beyond 2³² rows in memory. A value that the codec cannot write ends the run when the row is
    /// stored.
    pub fn put(&mut self, key: impl AsKey<K>, value: V) -> Result<()> {
        self.with_key(&key, |key| self.lane.hot().set(key, Some(value)))
    }

    /// Deletes a row; a missing one is fine.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&mut self, key: impl AsKey<K>) -> Result<()> {
        self.with_key(&key, |key| self.lane.hot().set(key, None))
    }

    /// Replaces a row by what `change` makes of it.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`put`](Self::put).
    #[inline]
    pub fn update(&mut self, key: impl AsKey<K>, change: impl FnOnce(Option<V>) -> V) -> Result<()> {
        self.with_key(&key, |key| {
            let mut hot = self.lane.hot();
            let at = hot.locate(key)?;
            let old = hot.value(at).cloned();
            // Without the lock: what the user's code does in here is not ours to know.
            drop(hot);
            let new = change(old);
            self.lane.hot().set_at(at, Some(new))
        })
    }

    /// A row to be looked at first, and then changed or not.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// # use slipstream::Rows;
    /// let mut last: Rows<String, u32> = Rows::alone();
    /// last.entry("JFK")?.and_modify(|n| *n += 1).or_insert(1)?;
    /// last.entry("JFK")?.and_modify(|n| *n += 1).or_insert(1)?;
    /// assert_eq!(last.get("JFK")?, Some(2));
    /// if last.entry("JFK")?.value().is_some_and(|n| *n > 1) {
    ///     last.entry("JFK")?.delete()?;
    /// }
    /// assert!(!last.contains("JFK")?);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn entry(&mut self, key: impl AsKey<K>) -> Result<Entry<'_, K, V>> {
        let (at, value) = self.with_key(&key, |key| {
            let mut hot = self.lane.hot();
            let at = hot.locate(key)?;
            Ok::<_, Error>((at, hot.value(at).cloned()))
        })?;
        Ok(Entry { rows: self, at, value })
    }
}

impl<K, V: 'static> std::fmt::Debug for Rows<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

/// One row of a handler's [`Rows`], made by [`Rows::entry`]. Nothing is written before a call that says so.
#[must_use = "an entry changes nothing by itself"]
pub struct Entry<'a, K, V: 'static> {
    rows: &'a mut Rows<K, V>,
    at: u32,
    value: Option<V>,
}

impl<K: Key, V: Clone + Send + 'static> Entry<'_, K, V> {
    /// The value, if there is a row.
    pub fn value(&self) -> Option<&V> {
        self.value.as_ref()
    }

    /// Changes the value if there is one; written by [`or_insert`](Self::or_insert) or [`put_changed`](Self::put_changed).
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Some(value) = &mut self.value {
            change(value);
        }
        self
    }

    /// Writes the value as it is now, or `value` if there is none.
    ///
    /// # Errors
    /// As [`Rows::put`].
    pub fn or_insert(self, value: V) -> Result<()> {
        self.or_insert_with(|| value)
    }

    /// Writes the value as it is now, or what `make` gives if there is none.
    ///
    /// # Errors
    /// As [`Rows::put`].
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<()> {
        let value = self.value.unwrap_or_else(make);
        self.rows.lane.hot().set_at(self.at, Some(value))
    }

    /// Writes the value as it is now if there is one.
    ///
    /// # Errors
    /// As [`Rows::put`].
    pub fn put_changed(self) -> Result<()> {
        match self.value {
            Some(value) => self.rows.lane.hot().set_at(self.at, Some(value)),
            None => Ok(()),
        }
    }

    /// Writes `value` whatever was there.
    ///
    /// # Errors
    /// As [`Rows::put`].
    pub fn insert(self, value: V) -> Result<()> {
        self.rows.lane.hot().set_at(self.at, Some(value))
    }

    /// Deletes the row and gives what it was.
    ///
    /// # Errors
    /// As [`Rows::delete`].
    pub fn delete(self) -> Result<Option<V>> {
        self.rows.lane.hot().set_at(self.at, None)?;
        Ok(self.value)
    }
}

impl<K, V: 'static> std::fmt::Debug for Entry<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

/// Which table's rows an argument takes.
#[derive(Debug)]
#[doc(hidden)]
pub struct RowsOf<K, V> {
    id: usize,
    types: PhantomData<fn(K, V)>,
}

impl<K: Key, V: Clone + Send + 'static> Lent for Rows<K, V> {
    type Prepared = RowsOf<K, V>;

    fn prepare(table: &TableRef, handler: &str) -> Result<Self::Prepared> {
        let any = super::AnyTable::of(table)?;
        if any.types() == std::any::TypeId::of::<(K, V)>() {
            return Ok(RowsOf { id: table.id, types: PhantomData });
        }
        let wanted = std::any::type_name::<Self>();
        let message = format!(
            "takes `{wanted}`, but table {} has other types: the n-th `&mut Rows` of a handler is lent by its n-th table",
            table.name
        );
        Err(Error::new(Kind::Build, message).at(format!("handler {handler}")))
    }

    #[inline]
    fn lend(prepared: &Self::Prepared, unit: &UnitCx) -> Result<Self> {
        let rows = unit.table(prepared.id).cloned().and_then(|rows| rows.downcast::<LaneTable<K, V>>().ok());
        let missing = || Error::new(Kind::Build, "the lane has no such table").at(unit.place());
        Ok(Self { lane: rows.ok_or_else(missing)? })
    }
}
