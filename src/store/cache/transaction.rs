//! Reading and writing some keys with nobody in between.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use rocksdb::WriteBatch;

use super::Cache;
use super::locks::Claim;
use super::open::Open;
use crate::error::{Error, Kind, Result};
use crate::keys::{self, AsKey, Key};

const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait for a transaction's keys; `.await` gives the [`Transaction`].
///
/// # Cancel safety
/// Dropped while waiting, it gives back what it had locked.
#[must_use = "a transaction begins when it is awaited"]
pub struct TransactionBuilder<K, V: 'static> {
    cache: Cache<K, V>,
    keys: Vec<Vec<u8>>,
    timeout: Duration,
}

impl<K: Key, V: 'static> Cache<K, V> {
    /// Locks exactly this key against other transactions and [`update`](Self::update)s, on all threads, in the order
    /// of arrival. A plain `get` or `put` does not look at locks.
    ///
    /// Awaiting it can fail with [`Kind::Timeout`] (worth another try) when the lock is not given within its
    /// [`timeout`](TransactionBuilder::timeout), which is also what happens to a transaction that asks for a key it
    /// holds already; with [`Kind::Closed`]; on first use also with the errors of [`open_in`](Self::open_in).
    ///
    /// ```
    /// use slipstream::Cache;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> slipstream::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let stock: Cache<String, u32> = Cache::named("stock");
    /// # stock.open_in(dir.path())?;
    /// stock.put("apples", 3)?;
    /// let mut rows = stock.transaction("apples").await?;
    /// let left = rows.get("apples")?.unwrap_or(0) - 1;
    /// rows.put("apples", left)?;
    /// rows.commit()?; // dropped before this line, nothing is written
    /// assert_eq!(stock.get("apples")?, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&self, key: impl AsKey<K>) -> TransactionBuilder<K, V> {
        self.transaction_over([key])
    }

    /// Locks several keys, always in their sorted order, so that two such transactions never wait for each other.
    /// Otherwise as [`transaction`](Self::transaction).
    ///
    /// ```
    /// # slipstream::testing::block_on(async {
    /// # use slipstream::Cache;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<String, i64> = Cache::named("accounts");
    /// # cache.open_in(dir.path())?;
    /// let mut rows = cache.transaction_over(["ada", "bob"]).await?;
    /// rows.put("ada", -3)?;
    /// rows.put("bob", 3)?;
    /// assert_eq!(cache.get("ada")?, None); // nobody else sees it yet
    /// rows.commit()?;
    /// assert_eq!(cache.get("bob")?, Some(3));
    /// # Ok::<(), slipstream::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn transaction_over<Q: AsKey<K>>(&self, keys: impl IntoIterator<Item = Q>) -> TransactionBuilder<K, V> {
        let mut keys: Vec<_> = keys.into_iter().map(keys::encode).collect();
        keys.sort_unstable();
        keys.dedup();
        TransactionBuilder { cache: self.clone(), keys, timeout: LOCK_TIMEOUT }
    }
}

impl<K: Key, V: 'static> TransactionBuilder<K, V> {
    /// How long to wait for all locks together; 10 s unless said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn begin(self) -> Result<Transaction<K, V>> {
        let open = self.cache.opened()?;
        let claims = tokio::time::timeout(self.timeout, claim_all(&open, &self.cache, &self.keys)).await;
        let claims = claims.map_err(|_| {
            let message = format!("no lock on the transaction's keys within {:?}", self.timeout);
            Error::new(Kind::Timeout, message).at(self.cache.label()).retryable()
        })?;
        let rows = self.keys.into_iter().map(|key| (key, None)).collect();
        Ok(Transaction { cache: self.cache, rows, open, _claims: claims })
    }
}

async fn claim_all<K, V: 'static>(open: &Open, cache: &Cache<K, V>, sorted: &[Vec<u8>]) -> Vec<Claim> {
    let mut claims = Vec::with_capacity(sorted.len());
    for key in sorted {
        claims.push(open.locks.claim(cache.family_name(), key).await);
    }
    claims
}

impl<K: Key, V: 'static> IntoFuture for TransactionBuilder<K, V> {
    type Output = Result<Transaction<K, V>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

/// Some keys, locked until this is committed or dropped. Reads see its own writes; nobody else does before
/// [`commit`](Self::commit), which makes them all at once. Dropping it writes nothing.
#[must_use = "a transaction that is not committed writes nothing"]
pub struct Transaction<K, V: 'static> {
    cache: Cache<K, V>,
    /// The locked keys, each with what is to be written: a value, or its deletion.
    rows: BTreeMap<Vec<u8>, Option<Change>>,
    open: Arc<Open>,
    _claims: Vec<Claim>,
}

enum Change {
    Put(Bytes),
    Delete,
}

impl<K: Key, V: 'static> Transaction<K, V> {
    /// The value of `key`, own writes included. A key that is not locked is read like any other: it may change at any
    /// time. A disk call.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        keys::with_bytes(&key, |key| self.get_bytes(key))?.map(|row| self.cache.decode(row)).transpose()
    }

    /// Whether `key` has a row, own writes included. A disk call.
    ///
    /// # Errors
    /// As [`Cache::contains`].
    pub fn contains(&self, key: impl AsKey<K>) -> Result<bool> {
        keys::with_bytes(&key, |key| self.get_bytes(key)).map(|row| row.is_some())
    }

    /// Writes a row when committed.
    ///
    /// # Errors
    /// [`Kind::Encode`], and [`Kind::Unsupported`] for a key that is not locked.
    pub fn put(&mut self, key: impl AsKey<K>, value: impl Borrow<V>) -> Result<()> {
        let value = self.cache.encode(value.borrow())?;
        self.change(&key, Change::Put(value))
    }

    /// Deletes a row when committed.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for a key that is not locked.
    pub fn delete(&mut self, key: impl AsKey<K>) -> Result<()> {
        self.change(&key, Change::Delete)
    }

    /// Makes all writes in one batch, then gives the locks back. A disk call.
    ///
    /// # Errors
    /// As [`Cache::put`]; then nothing was written.
    pub fn commit(self) -> Result<()> {
        let place = self.open.place(self.cache.family_name())?;
        let mut batch = WriteBatch::default();
        for (key, change) in &self.rows {
            match change {
                Some(Change::Put(value)) => place.put_later(&mut batch, key, value),
                Some(Change::Delete) => place.delete_later(&mut batch, key),
                None => {}
            }
        }
        self.open.write(batch)
    }

    fn get_bytes(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self.rows.get(key) {
            Some(Some(Change::Put(value))) => Ok(Some(value.clone())),
            Some(Some(Change::Delete)) => Ok(None),
            _ => self.open.place(self.cache.family_name())?.get(key),
        }
    }

    fn change(&mut self, key: &impl AsKey<K>, change: Change) -> Result<()> {
        let rows = &mut self.rows;
        let known = keys::with_bytes(key, |key| rows.get_mut(key).map(|row| *row = Some(change)));
        known.ok_or_else(|| {
            let message = "the transaction did not lock this key: name all keys when it begins";
            Error::new(Kind::Unsupported, message).at(self.cache.label())
        })
    }
}

impl<K, V: 'static> std::fmt::Debug for Transaction<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("cache", &self.cache)
            .field("keys", &self.rows.len())
            .finish_non_exhaustive()
    }
}

impl<K, V: 'static> std::fmt::Debug for TransactionBuilder<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionBuilder")
            .field("cache", &self.cache)
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}
