//! Nulls for a codec that does not know them.

use bytes::Bytes;

use super::{Codec, failed};
use crate::error::Result;

/// Lifts a codec of `V` to one of `Option<V>`: `None` is a null (a tombstone), `Some` what the codec inside says.
///
/// [`encode`](Codec::encode) alone, which cannot answer with a null, refuses `None` with
/// [`Kind::Encode`](crate::Kind::Encode).
///
/// ```
/// use bytes::Bytes;
/// use slipstream::codec::{Codec, Nullable, Utf8};
///
/// static NAMES: Nullable<Utf8> = Nullable(Utf8);
///
/// assert_eq!(NAMES.encode_nullable(&None)?, None);
/// assert_eq!(NAMES.encode_nullable(&Some(String::new()))?, Some(Bytes::new()));
/// assert_eq!(NAMES.decode_nullable(None)?, None);
/// assert_eq!(NAMES.decode_nullable(Some(&Bytes::new()))?, Some(String::new()));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nullable<C>(
    /// The codec of the values that are there.
    pub C,
);

impl<V, C: Codec<V>> Codec<Option<V>> for Nullable<C> {
    fn encode(&self, value: &Option<V>) -> Result<Bytes> {
        match value {
            Some(value) => self.0.encode(value),
            None => Err(failed::null_as_bytes::<Option<V>>()),
        }
    }

    fn decode(&self, bytes: &Bytes) -> Result<Option<V>> {
        self.0.decode(bytes).map(Some)
    }

    fn encode_nullable(&self, value: &Option<V>) -> Result<Option<Bytes>> {
        value.as_ref().map(|value| self.0.encode(value)).transpose()
    }

    fn decode_nullable(&self, bytes: Option<&Bytes>) -> Result<Option<V>> {
        bytes.map(|bytes| self.0.decode(bytes)).transpose()
    }
}
