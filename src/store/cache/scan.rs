//! Scans: which rows, from where, in which direction.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::{Stream, stream};
use tokio::sync::mpsc;

use super::blocking::blocking;
use super::iter::{Bounds, Iter, Order, ReadRow, View, read_value};
use super::{Cache, Snapshot};
use crate::codec::Codec;
use crate::error::Result;
use crate::keys::{AsKey, Key, Prefix};

/// Rows that go through a stream's channel together: one wake-up for each lot.
const LOT_ROWS: usize = 64;
/// Lots that wait for a slow reader.
const WAITING_LOTS: usize = 4;

/// A scan to be run: [`iter`](Self::iter) (or a `for` loop) on this thread, [`stream`](Self::stream) on another.
///
/// Keys come in their own order, ascending unless [`rev`](Self::rev). A scan sees the rows as they were when it
/// began; while it lives, the store keeps them. Each step is a disk call.
///
/// ```
/// use slipstream::Cache;
///
/// # let dir = tempfile::tempdir().unwrap();
/// // The last observation at an airport not later than an hour: backwards from the key.
/// let weather: Cache<(String, i64), f64> = Cache::named("weather");
/// weather.open_in(dir.path())?;
/// weather.put(("JFK", 7), 1.5)?;
/// weather.put(("JFK", 9), 2.5)?;
/// weather.put(("LGA", 8), 9.9)?;
/// let last = weather.items().prefix(("JFK",)).from(("JFK", 8)).rev().iter().next().transpose()?;
/// assert_eq!(last, Some((("JFK".to_owned(), 7), 1.5)));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[must_use = "a scan does nothing until it is iterated or streamed"]
pub struct Scan<K, V: 'static, T> {
    view: Result<View>,
    bounds: Bounds,
    codec: &'static dyn Codec<V>,
    read: ReadRow<V, T>,
    key: PhantomData<fn() -> K>,
}

impl<K: Key, V: 'static, T> Scan<K, V, T> {
    /// Starts at the first key at or after `key`; with [`rev`](Self::rev) at the last one at or before it.
    pub fn from(mut self, key: impl AsKey<K>) -> Self {
        let mut from = Vec::new();
        key.encode_last(&mut from);
        self.bounds.from = Some(from);
        self
    }

    /// Only keys that start with `prefix`: text for text, bytes for bytes, leading elements for tuples.
    pub fn prefix(mut self, prefix: impl Prefix<K>) -> Self {
        let mut bytes = Vec::new();
        prefix.encode_prefix(&mut bytes);
        self.bounds.prefix = Some(bytes);
        self
    }

    /// Descending, from the last key or from [`from`](Self::from).
    pub fn rev(mut self) -> Self {
        self.bounds.order = Order::Descending;
        self
    }

    /// Runs it on this thread.
    pub fn iter(self) -> Iter<V, T> {
        Iter::new(self.view, self.bounds, self.codec, self.read)
    }

    /// Runs it on a blocking thread, at most a few hundred rows ahead of its reader. Needs a tokio runtime when
    /// first polled.
    ///
    /// # Cancel safety
    /// Dropping the stream ends the scan. Rows read ahead are dropped with it.
    ///
    /// ```
    /// use futures::TryStreamExt;
    /// # use slipstream::Cache;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> slipstream::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<u32, u32> = Cache::named("streamed");
    /// # cache.open_in(dir.path())?;
    /// for n in 0..1000 {
    ///     cache.put(n, n)?;
    /// }
    /// let sum = cache.scan().stream().try_fold(0, async |sum, (_, n)| Ok(sum + n)).await?;
    /// assert_eq!(sum, 499_500);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> impl Stream<Item = Result<T>> + Send + use<K, V, T>
    where
        T: Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(WAITING_LOTS);
        let scan = blocking({
            let iter = self.iter();
            move || {
                send_lots(iter, &sender);
                Ok(())
            }
        });
        // The scan starts with the first poll and is polled beside its rows, so that its failure is an item too.
        let rows =
            stream::unfold(receiver, async |mut receiver| Some((stream::iter(receiver.recv().await?), receiver)));
        let failure = stream::unfold(Some(scan), async |scan| {
            let failed = scan?.await.err()?;
            Some((stream::iter(vec![Err(failed)]), None))
        });
        futures::StreamExt::flatten(stream::select(rows, failure))
    }
}

fn send_lots<V: 'static, T>(mut iter: Iter<V, T>, sender: &mpsc::Sender<Vec<Result<T>>>) {
    loop {
        let lot: Vec<_> = iter.by_ref().take(LOT_ROWS).collect();
        if lot.is_empty() || sender.blocking_send(lot).is_err() {
            return;
        }
    }
}

impl<K: Key, V: 'static, T> IntoIterator for Scan<K, V, T> {
    type Item = Result<T>;
    type IntoIter = Iter<V, T>;
    fn into_iter(self) -> Iter<V, T> {
        self.iter()
    }
}

impl<K, V: 'static, T> std::fmt::Debug for Scan<K, V, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl<K: Key, V: 'static> Cache<K, V> {
    /// A scan over keys and values.
    pub fn items(&self) -> Scan<K, V, (K, V)> {
        self.scan_with(read_item)
    }

    /// The same as [`items`](Self::items), for `scan().stream()`.
    pub fn scan(&self) -> Scan<K, V, (K, V)> {
        self.items()
    }

    /// A scan over keys; values are not decoded.
    pub fn keys(&self) -> Scan<K, V, K> {
        self.scan_with(read_key)
    }

    /// A scan over values in the order of their keys.
    pub fn values(&self) -> Scan<K, V, V> {
        self.scan_with(|codec, _, value| read_value(codec, value))
    }

    fn scan_with<T>(&self, read: ReadRow<V, T>) -> Scan<K, V, T> {
        let view = self.opened().map(|open| View { open, family: self.family.clone(), pin: None });
        Scan { view, bounds: Bounds::default(), codec: self.codec, read, key: PhantomData }
    }
}

impl<K: Key, V: 'static> Snapshot<K, V> {
    /// A scan over keys and values as they were.
    pub fn items(&self) -> Scan<K, V, (K, V)> {
        self.scan_with(read_item)
    }

    /// A scan over keys as they were.
    pub fn keys(&self) -> Scan<K, V, K> {
        self.scan_with(read_key)
    }

    /// A scan over values as they were, in the order of their keys.
    pub fn values(&self) -> Scan<K, V, V> {
        self.scan_with(|codec, _, value| read_value(codec, value))
    }

    fn scan_with<T>(&self, read: ReadRow<V, T>) -> Scan<K, V, T> {
        let pin = Some(Arc::clone(&self.pin));
        let view = View { open: Arc::clone(self.pin.open()), family: self.cache.family.clone(), pin };
        Scan { view: Ok(view), bounds: Bounds::default(), codec: self.cache.codec, read, key: PhantomData }
    }
}

fn read_key<K: Key, V: 'static>(_: &dyn Codec<V>, key: &[u8], _: &[u8]) -> Result<K> {
    K::decode_last(key)
}

fn read_item<K: Key, V: 'static>(codec: &dyn Codec<V>, key: &[u8], value: &[u8]) -> Result<(K, V)> {
    Ok((K::decode_last(key)?, read_value(codec, value)?))
}
