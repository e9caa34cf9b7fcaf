//! What every codec says when it fails: which codec, which type, and the cause as the source.

use crate::error::{BoxError, Error, Kind};

/// How messages call the type `T`.
pub(super) fn name<T: ?Sized>() -> &'static str {
    std::any::type_name::<T>()
}

pub(super) fn decoding<T>(codec: &str, length: usize, cause: impl Into<BoxError>) -> Error {
    Error::new(Kind::Decode, format!("{codec}: {length} bytes are not a `{}`", name::<T>())).because(cause)
}

#[cfg(any(feature = "json", feature = "msgpack"))]
pub(super) fn encoding<T>(codec: &str, cause: impl Into<BoxError>) -> Error {
    Error::new(Kind::Encode, format!("{codec}: a `{}` cannot be written", name::<T>())).because(cause)
}

/// A null where bytes are asked for: a caller that knows nulls uses `encode_nullable`.
pub(super) fn null_as_bytes<T>() -> Error {
    Error::new(Kind::Encode, format!("a null `{}` has no bytes here, only a record's value can be null", name::<T>()))
}
