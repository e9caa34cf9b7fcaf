//! How keys and values become bytes and come back: the [`Codec`] trait and the codecs that come with it.

use bytes::Bytes;

use crate::error::{Error, Kind, Result};

/// Turns values of `T` into bytes and back.
///
/// An own codec writes [`encode`](Self::encode) and [`decode`](Self::decode) and leaves the other two alone: with
/// them a null is an error. Only the default codec and [`Nullable`] know nulls.
pub trait Codec<T>: Send + Sync + 'static {
    /// The bytes of `value`.
    ///
    /// # Errors
    /// [`Kind::Encode`] when it cannot be written.
    fn encode(&self, value: &T) -> Result<Bytes>;

    /// The value in `bytes`.
    ///
    /// # Errors
    /// [`Kind::Decode`] when they are not understood.
    fn decode(&self, bytes: &Bytes) -> Result<T>;

    /// Like [`encode`](Self::encode); `None` is a null (a tombstone in a topic).
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    fn encode_nullable(&self, value: &T) -> Result<Option<Bytes>> {
        self.encode(value).map(Some)
    }

    /// Like [`decode`](Self::decode); `None` is a null (a tombstone in a topic).
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and for a null unless the codec knows what it means.
    fn decode_nullable(&self, bytes: Option<&Bytes>) -> Result<T> {
        match bytes {
            Some(bytes) => self.decode(bytes),
            None => Err(Error::new(Kind::Decode, "null for a type that is not an `Option`")),
        }
    }
}
