//! The codec of a type that names none.

use std::any::Any;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, Nullable, Raw, Utf8, failed};
use crate::error::{Error, Kind, Result};

/// The codec that keys and values of this type get when none is named.
///
/// | type | bytes | null |
/// |---|---|---|
/// | `String` | UTF-8 | error |
/// | `Bytes`, `Vec<u8>` | themselves | error |
/// | `Option` of these | as these | `None` |
/// | every other `Option<T>` of serde | JSON | `None` |
/// | every other serde type (feature `json`) | JSON | what JSON's `null` is to it, else an error |
///
/// The text `null` is never written: a value that JSON would write so is a null, and [`encode`](Codec::encode), which
/// cannot say null, refuses it. (Therefore `Some(None)` comes back as `None`, as in JSON.) It is understood when read,
/// since others write it. Floats that are not finite are an error, as with [`Json`](super::Json). Without the feature
/// `json` the rows that say JSON fail with [`Kind::Unsupported`].
///
/// It is implemented for every type with [`Serialize`] and [`DeserializeOwned`]. A type without them can implement it
/// to have an own default:
///
/// ```
/// use bytes::Bytes;
/// use slipstream::Result;
/// use slipstream::codec::{Codec, DefaultCodec};
///
/// #[derive(Debug, PartialEq)]
/// struct Blob(Bytes);
/// struct BlobCodec;
///
/// impl Codec<Blob> for BlobCodec {
///     fn encode(&self, value: &Blob) -> Result<Bytes> {
///         Ok(value.0.clone())
///     }
///     fn decode(&self, bytes: &Bytes) -> Result<Blob> {
///         Ok(Blob(bytes.clone()))
///     }
/// }
///
/// impl DefaultCodec for Blob {
///     const CODEC: &'static dyn Codec<Self> = &BlobCodec;
/// }
///
/// assert_eq!(Blob::CODEC.encode(&Blob(Bytes::from_static(b"x")))?, "x");
/// assert_eq!(String::CODEC.encode(&"x".to_owned())?, "x");
/// assert_eq!(Option::<String>::CODEC.encode_nullable(&None)?, None);
/// # #[cfg(feature = "json")]
/// assert_eq!(<Vec<u32>>::CODEC.encode(&vec![1, 2])?, "[1,2]");
/// # Ok::<(), slipstream::Error>(())
/// ```
///
/// A type that is neither is told so once, in these words:
///
/// ```compile_fail
/// use slipstream::codec::DefaultCodec;
///
/// struct Order;
/// let _ = Order::CODEC;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no default codec",
    label = "this type needs serde's `Serialize` and `Deserialize`, or a codec of its own",
    note = "write `#[derive(serde::Serialize, serde::Deserialize)]` on `{Self}`, or name a codec: `Topic::with_codec(name, &CODEC)`"
)]
pub trait DefaultCodec: Sized + 'static {
    /// The codec; usable in a `const fn`.
    const CODEC: &'static dyn Codec<Self>;
}

// Not recommended: else a type without serde is reported once per missing serde trait instead of in our words.
#[diagnostic::do_not_recommend]
impl<V: Serialize + DeserializeOwned + 'static> DefaultCodec for V {
    const CODEC: &'static dyn Codec<Self> = &Auto(PhantomData);
}

/// Chooses by the type, which the compiler knows: each question is answered when it compiles.
struct Auto<V>(PhantomData<fn() -> V>);

impl<V: Serialize + DeserializeOwned + 'static> Codec<V> for Auto<V> {
    fn encode(&self, value: &V) -> Result<Bytes> {
        self.encode_nullable(value)?.ok_or_else(failed::null_as_bytes::<V>)
    }

    fn decode(&self, bytes: &Bytes) -> Result<V> {
        self.decode_nullable(Some(bytes))
    }

    fn encode_nullable(&self, value: &V) -> Result<Option<Bytes>> {
        let done = encode_as::<V, String>(value, &Utf8)
            .or_else(|| encode_as::<V, Bytes>(value, &Raw))
            .or_else(|| encode_as::<V, Vec<u8>>(value, &Raw))
            .or_else(|| encode_as::<V, Option<String>>(value, &Nullable(Utf8)))
            .or_else(|| encode_as::<V, Option<Bytes>>(value, &Nullable(Raw)))
            .or_else(|| encode_as::<V, Option<Vec<u8>>>(value, &Nullable(Raw)));
        done.unwrap_or_else(|| structured::encode(value))
    }

    fn decode_nullable(&self, bytes: Option<&Bytes>) -> Result<V> {
        let done = decode_as::<V, String>(bytes, &Utf8)
            .or_else(|| decode_as::<V, Bytes>(bytes, &Raw))
            .or_else(|| decode_as::<V, Vec<u8>>(bytes, &Raw))
            .or_else(|| decode_as::<V, Option<String>>(bytes, &Nullable(Utf8)))
            .or_else(|| decode_as::<V, Option<Bytes>>(bytes, &Nullable(Raw)))
            .or_else(|| decode_as::<V, Option<Vec<u8>>>(bytes, &Nullable(Raw)));
        done.unwrap_or_else(|| structured::decode(bytes))
    }
}

/// The bytes of `value` if `V` is `T`.
fn encode_as<V: 'static, T: 'static>(value: &V, codec: &dyn Codec<T>) -> Option<Result<Option<Bytes>>> {
    let value = (value as &dyn Any).downcast_ref::<T>()?;
    Some(codec.encode_nullable(value))
}

/// The value in `bytes` if `V` is `T`. The value moves through an `Option` that both types can be asked for.
fn decode_as<V: 'static, T: 'static>(bytes: Option<&Bytes>, codec: &dyn Codec<T>) -> Option<Result<V>> {
    let mut value: Option<V> = None;
    let slot = (&mut value as &mut dyn Any).downcast_mut::<Option<T>>()?;
    match codec.decode_nullable(bytes) {
        Ok(decoded) => *slot = Some(decoded),
        Err(_) if bytes.is_none() => return Some(Err(null_for::<T>())),
        Err(error) => return Some(Err(error)),
    }
    value.map(Ok)
}

/// For users of a default codec, who have no codec to wrap.
fn null_for<T>() -> Error {
    let name = failed::name::<T>();
    Error::new(Kind::Decode, format!("null for `{name}`: where nulls are expected, take `Option<{name}>`"))
}

#[cfg(feature = "json")]
mod structured {
    use super::{Bytes, DeserializeOwned, Result, Serialize, null_for};
    use crate::codec::json;

    pub(super) fn encode<V: Serialize>(value: &V) -> Result<Option<Bytes>> {
        let bytes = json::to_bytes(value)?;
        Ok((bytes != "null").then_some(bytes))
    }

    pub(super) fn decode<V: DeserializeOwned>(bytes: Option<&Bytes>) -> Result<V> {
        match bytes {
            Some(bytes) => json::from_bytes(bytes),
            None => V::deserialize(serde_json::Value::Null).map_err(|cause| null_for::<V>().because(cause)),
        }
    }
}

#[cfg(not(feature = "json"))]
mod structured {
    use super::{Bytes, Error, Kind, Result, failed};

    pub(super) fn encode<V>(_: &V) -> Result<Option<Bytes>> {
        Err(unsupported::<V>())
    }

    pub(super) fn decode<V>(_: Option<&Bytes>) -> Result<V> {
        Err(unsupported::<V>())
    }

    fn unsupported<V>() -> Error {
        let message = "has no default codec without the feature `json`: turn it on or name a codec";
        Error::new(Kind::Unsupported, format!("`{}` {message}", failed::name::<V>()))
    }
}
