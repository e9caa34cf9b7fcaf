//! What a sink needs: a write that never blocks its thread, and one sync for many writes.

use bytes::Bytes;

use super::Cache;
use super::blocking::blocking;
use super::place::WriteOutcome;
use crate::error::Result;
use crate::keys::{self, Key};

impl<K: Key, V: 'static> Cache<K, V> {
    /// Writes at once, or says that the store is behind and the thread would have to wait: then
    /// [`write_stalled`](Self::write_stalled) waits elsewhere. `None` deletes.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    pub(crate) fn write_now(&self, key: &K, value: Option<&V>) -> Result<WriteOutcome> {
        let value = value.map(|value| self.encode(value)).transpose()?;
        keys::with_bytes(&key, |key| self.with_place(|place| place.write_now(key, value.as_deref())))
    }

    /// The same write on a blocking thread, for as long as it takes. Dropped half-way, it may still be made.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    pub(crate) async fn write_stalled(&self, key: &K, value: Option<&V>) -> Result<()> {
        let value = value.map(|value| self.encode(value)).transpose()?;
        self.write_bytes(keys::encode(key), value)?.await
    }

    /// The same of bytes that are encoded already.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    pub(crate) fn write_bytes(
        &self,
        key: Vec<u8>,
        value: Option<Bytes>,
    ) -> Result<impl Future<Output = Result<()>> + Send + 'static + use<K, V>> {
        let (open, family) = (self.opened()?, self.family.clone());
        Ok(blocking(move || {
            let place = open.place(family.as_deref())?;
            match &value {
                Some(value) => place.put(&key, value),
                None => place.delete(&key),
            }
        }))
    }
}
