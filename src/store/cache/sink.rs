//! What a sink needs: a write that never blocks its thread, and one sync for many writes.

use bytes::Bytes;

use super::Cache;
use super::blocking::blocking;
use super::place::WriteOutcome;
use crate::error::Result;
use crate::keys::{self, Key};

#[cfg_attr(not(test), expect(dead_code, reason = "called by the sink"))]
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
        let (key, value): (_, Option<Bytes>) = (keys::encode(key), value.map(|value| self.encode(value)).transpose()?);
        let (open, family) = (self.opened()?, self.family.clone());
        blocking(move || {
            let place = open.place(family.as_deref())?;
            match &value {
                Some(value) => place.put(&key, value),
                None => place.delete(&key),
            }
        })
        .await
    }

    /// Before positions are committed: what was written since the last time survives a power loss. Nothing is opened
    /// for it, and without a write nothing is done.
    ///
    /// # Errors
    /// [`Kind::DiskFull`](crate::Kind::DiskFull), [`Kind::Store`](crate::Kind::Store); the next call tries again.
    pub(crate) async fn sync(&self) -> Result<()> {
        if !self.is_open() {
            return Ok(());
        }
        let open = self.opened()?;
        blocking(move || open.sync()).await
    }
}
