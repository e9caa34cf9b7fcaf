//! How keys and values become bytes and come back: the [`Codec`] trait and the codecs that come with it.
//!
//! | codec | for | bytes | unknown and missing fields | limits when reading |
//! |---|---|---|---|---|
//! | [`Utf8`] | `String` | the text | – | – |
//! | [`Raw`] | `Bytes`, `Vec<u8>` | themselves | – | – |
//! | [`Json`] | every serde type | compact JSON in UTF-8 | skipped; `#[serde(default)]` fills in | 128 levels |
//! | [`MessagePack`] | every serde type | structs as maps of names | skipped; `#[serde(default)]` fills in | 128 levels |
//! | `Avro` (feature `avro`) | every serde type that fits the schema | plain datum or single object | resolved by schema | 64 levels, nothing larger than the input |
//! | [`Nullable`] | `Option<V>` | those of the codec inside | – | – |
//!
//! What a topic uses when it names no codec is the type's [`DefaultCodec`].
//!
//! **Null is not a value in bytes.** A record without a value (a tombstone) is `None`, a record with an empty value
//! is `Some` of nothing, and the two are never mixed up. Only the default codec and [`Nullable`] know nulls; every
//! other codec reports one as [`Kind::Decode`].
//!
//! An own codec is two methods:
//!
//! ```
//! use bytes::Bytes;
//! use slipstream::codec::Codec;
//! use slipstream::{Error, Kind, Result};
//!
//! /// A temperature in tenths of a degree, as two bytes.
//! struct Tenths;
//!
//! impl Codec<i16> for Tenths {
//!     fn encode(&self, value: &i16) -> Result<Bytes> {
//!         Ok(Bytes::copy_from_slice(&value.to_be_bytes()))
//!     }
//!     fn decode(&self, bytes: &Bytes) -> Result<i16> {
//!         match bytes[..].try_into() {
//!             Ok(two) => Ok(i16::from_be_bytes(two)),
//!             Err(_) => Err(Error::new(Kind::Decode, format!("{} bytes instead of two", bytes.len()))),
//!         }
//!     }
//! }
//!
//! let bytes = Tenths.encode(&-35)?;
//! assert_eq!(Tenths.decode(&bytes)?, -35);
//! assert_eq!(Tenths.decode_nullable(None).unwrap_err().kind(), Kind::Decode);
//! # Ok::<(), Error>(())
//! ```

use std::sync::LazyLock;

use bytes::Bytes;

use crate::error::{Error, Kind, Result};

#[cfg(feature = "avro")]
mod avro;
mod default;
mod failed;
#[cfg(feature = "json")]
mod finite;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "msgpack")]
mod msgpack;
mod nullable;
mod plain;
mod small;
#[cfg(test)]
mod tests;

#[cfg(feature = "avro")]
pub use avro::{Avro, AvroSchema};
pub use default::DefaultCodec;
#[cfg(feature = "json")]
pub use json::Json;
#[cfg(feature = "msgpack")]
pub use msgpack::MessagePack;
pub use nullable::Nullable;
pub use plain::{Raw, Utf8};
#[cfg(feature = "rocksdb")]
pub(crate) use small::copy as copied;

/// Turns values of `T` into bytes and back.
///
/// An own codec writes [`encode`](Self::encode) and [`decode`](Self::decode) and leaves the other two alone: with
/// them a null is an error. Only the default codec and [`Nullable`] know nulls. See the [module](self) for an example.
///
/// Both directions are called from the lane that handles the record and must not wait for anything.
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
            None => Err(Error::new(
                Kind::Decode,
                format!("null for `{}`: its codec does not know nulls, `Nullable(codec)` does", failed::name::<T>()),
            )),
        }
    }
}

/// A reference to a codec is that codec: `Nullable(&EVENTS)` wraps a `static`.
impl<T, C: Codec<T> + ?Sized> Codec<T> for &'static C {
    fn encode(&self, value: &T) -> Result<Bytes> {
        (**self).encode(value)
    }

    fn decode(&self, bytes: &Bytes) -> Result<T> {
        (**self).decode(bytes)
    }

    fn encode_nullable(&self, value: &T) -> Result<Option<Bytes>> {
        (**self).encode_nullable(value)
    }

    fn decode_nullable(&self, bytes: Option<&Bytes>) -> Result<T> {
        (**self).decode_nullable(bytes)
    }
}

/// An own codec that must be built at run time can stand in a `static`, and `&STATIC` is a `&'static dyn Codec`.
///
/// ```
/// use std::sync::LazyLock;
///
/// use bytes::Bytes;
/// use slipstream::Result;
/// use slipstream::codec::Codec;
///
/// struct Shift(u8);
///
/// impl Codec<u8> for Shift {
///     fn encode(&self, value: &u8) -> Result<Bytes> {
///         Ok(Bytes::copy_from_slice(&[value.wrapping_add(self.0)]))
///     }
///     fn decode(&self, bytes: &Bytes) -> Result<u8> {
///         Ok(bytes[0].wrapping_sub(self.0))
///     }
/// }
///
/// static SHIFT: LazyLock<Shift> = LazyLock::new(|| Shift(13));
/// static CODEC: &dyn Codec<u8> = &SHIFT;
///
/// assert_eq!(CODEC.decode(&CODEC.encode(&250)?)?, 250);
/// # Ok::<(), slipstream::Error>(())
/// ```
impl<T, C: Codec<T>, F: FnOnce() -> C + Send + 'static> Codec<T> for LazyLock<C, F> {
    fn encode(&self, value: &T) -> Result<Bytes> {
        (**self).encode(value)
    }

    fn decode(&self, bytes: &Bytes) -> Result<T> {
        (**self).decode(bytes)
    }

    fn encode_nullable(&self, value: &T) -> Result<Option<Bytes>> {
        (**self).encode_nullable(value)
    }

    fn decode_nullable(&self, bytes: Option<&Bytes>) -> Result<T> {
        (**self).decode_nullable(bytes)
    }
}
