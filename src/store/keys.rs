//! Keys as bytes whose order is the order of the keys.
//!
//! RocksDB sorts rows by the bytes of their keys, so an encoding that keeps the order makes scans, prefixes and
//! "the last one at or before" work for every type of key. Compared with `Ord` (floats: `total_cmp`), the bytes never
//! disagree; property tests hold them to it.
//!
//! | type | bytes |
//! |---|---|
//! | `String`, `str`, `Vec<u8>`, `Bytes`, `[u8]`, `[u8; N]` | as they are; before another element of a tuple, `00` becomes `00 FF` and `00 00` ends it |
//! | `u8` … `u128` | big endian, fixed width |
//! | `i8` … `i128` | the same with the sign bit turned |
//! | `f32`, `f64` | total order: −NaN < −∞ < … < −0.0 < 0.0 < … < ∞ < NaN; −0.0 and 0.0 are two keys |
//! | `bool`, `char` | one byte, four bytes |
//! | `DateTime<Utc>`, `NaiveDateTime`, `NaiveTime` | seconds, then nanoseconds: 12 bytes (8 for a time of day) |
//! | `NaiveDate` | days: 4 bytes |
//! | `chrono::Duration`, `std::time::Duration` | seconds, then nanoseconds: 12 bytes |
//! | tuples of one to four | one after the other |
//!
//! `usize` and `isize` are left out, since their width differs between machines that may read the same store.

mod number;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod tuple;

use std::cell::Cell;

use crate::error::{Error, Kind, Result};

/// A type whose values can be keys: its bytes sort as its values do.
///
/// An own type writes its bytes in [`AsKey<Self>`](AsKey) and reads them here. The easiest way is through a tuple:
///
/// ```
/// use slipstream::keys::{AsKey, Key, decode, encode};
///
/// #[derive(Debug, PartialEq)]
/// struct Seat { row: u16, letter: char }
///
/// impl AsKey<Seat> for Seat {
///     fn encode(&self, out: &mut Vec<u8>) {
///         (self.row, self.letter).encode(out);
///     }
/// }
///
/// impl Key for Seat {
///     fn decode(bytes: &mut &[u8]) -> slipstream::Result<Self> {
///         let (row, letter) = Key::decode(bytes)?;
///         Ok(Self { row, letter })
///     }
/// }
///
/// let bytes = encode::<Seat>(&Seat { row: 12, letter: 'C' });
/// assert_eq!(decode::<Seat>(&bytes).unwrap(), Seat { row: 12, letter: 'C' });
/// ```
pub trait Key: AsKey<Self> + Sized + Send + Sync + 'static {
    /// Reads one key from the front of `bytes` and leaves the rest.
    ///
    /// # Errors
    /// [`Kind::Decode`] when the bytes are not such a key.
    fn decode(bytes: &mut &[u8]) -> Result<Self>;

    /// Reads a key that fills `bytes`, as [`AsKey::encode_last`] wrote it.
    ///
    /// # Errors
    /// [`Kind::Decode`] when the bytes are not such a key, or when some are left over.
    fn decode_last(mut bytes: &[u8]) -> Result<Self> {
        let key = Self::decode(&mut bytes)?;
        if bytes.is_empty() { Ok(key) } else { Err(malformed::<Self>("bytes left over")) }
    }
}

/// What can stand for a key `K` in a call: `K`, `&K`, and borrowed forms such as `&str` for `String`, also in tuples.
///
/// ```
/// use slipstream::keys::encode;
///
/// assert_eq!(encode::<(String, u8)>(("JFK", 1)), encode::<(String, u8)>(&("JFK".to_owned(), 1)));
/// ```
pub trait AsKey<K: ?Sized> {
    /// Appends bytes that say themselves where they end.
    fn encode(&self, out: &mut Vec<u8>);

    /// Appends bytes that nothing will follow. Differs from [`encode`](Self::encode) for text and bytes only.
    fn encode_last(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<K: ?Sized, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
    fn encode_last(&self, out: &mut Vec<u8>) {
        (**self).encode_last(out);
    }
}

/// What keys of type `K` can start with: text for `String`, bytes for `Vec<u8>` and `Bytes`, leading elements for a
/// tuple.
///
/// ```
/// use slipstream::Cache;
///
/// # let dir = tempfile::tempdir().unwrap();
/// static HOURS: Cache<(String, u8), u32> = Cache::new("hours");
/// HOURS.open_in(dir.path())?;
/// HOURS.put(("JFK", 7), 1)?;
/// HOURS.put(("LGA", 6), 2)?;
/// let jfk: Vec<_> = HOURS.keys().prefix(("JFK",)).iter().collect::<Result<_, _>>()?;
/// assert_eq!(jfk, [("JFK".to_owned(), 7)]);
/// # HOURS.close()?;
/// # Ok::<(), slipstream::Error>(())
/// ```
pub trait Prefix<K: ?Sized> {
    /// Appends the bytes that all such keys start with.
    fn encode_prefix(&self, out: &mut Vec<u8>);
}

impl<K: ?Sized, Q: Prefix<K> + ?Sized> Prefix<K> for &Q {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        (**self).encode_prefix(out);
    }
}

/// The bytes under which a store keeps `key`; for writing table files by hand, say.
pub fn encode<K: Key>(key: impl AsKey<K>) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode_last(&mut out);
    out
}

/// The key that a store keeps under `bytes`.
///
/// # Errors
/// [`Kind::Decode`] when the bytes are not such a key.
///
/// ```
/// use slipstream::keys::{decode, encode};
///
/// assert_eq!(decode::<i64>(&encode::<i64>(-300)).unwrap(), -300);
/// assert!(decode::<i64>(b"short").is_err());
/// ```
pub fn decode<K: Key>(bytes: &[u8]) -> Result<K> {
    K::decode_last(bytes)
}

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `then` with the bytes of `key` in a buffer that the thread reuses: no allocation per call. Calls may nest.
#[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "the stores ask for it"))]
pub(crate) fn with_bytes<K: Key, R>(key: &impl AsKey<K>, then: impl FnOnce(&[u8]) -> R) -> R {
    with_bytes_behind(&[], key, then)
}

/// The same with `front` in front of them.
pub(crate) fn with_bytes_behind<K: Key, R>(front: &[u8], key: &impl AsKey<K>, then: impl FnOnce(&[u8]) -> R) -> R {
    const KEPT_BYTES: usize = 4096;
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    buffer.clear();
    buffer.extend_from_slice(front);
    key.encode_last(&mut buffer);
    let result = then(&buffer);
    if buffer.capacity() <= KEPT_BYTES {
        // The thread may be ending; then the buffer is simply freed.
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }
    result
}

/// Takes `N` bytes from the front.
fn take<'a, K>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count).ok_or_else(|| malformed::<K>("too few bytes"))?;
    *bytes = rest;
    Ok(front)
}

/// Takes an array from the front.
fn take_array<K, const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (front, rest) = bytes.split_first_chunk().ok_or_else(|| malformed::<K>("too few bytes"))?;
    *bytes = rest;
    Ok(*front)
}

fn malformed<K>(why: &str) -> Error {
    Error::new(Kind::Decode, format!("not a key of type {}: {why}", std::any::type_name::<K>()))
}
