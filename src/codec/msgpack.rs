//! MessagePack through serde.

use bytes::Bytes;
use rmp_serde::Deserializer;
use rmp_serde::decode::Error as DecodeError;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Codec, failed, small};
use crate::error::Result;

const NAME: &str = "MessagePack";
/// As many as JSON takes; the crate's own limit of 1,024 is too much for the stack of a thread.
const MAX_LEVELS: usize = 128;

/// MessagePack, for every serde type: smaller and faster than JSON, and every float survives.
///
/// - Structs are written as maps with the names of their fields. That costs the names, and buys that fields can be
///   added, removed and put in another order: unknown ones are skipped, and `#[serde(default)]` lets old values lack
///   new ones. Enum variants are written by name too.
/// - `Bytes` and what uses `serde_bytes` are stored as they are; a `Vec<u8>` field is a list of numbers.
/// - Reading takes one value and nothing after it, at most 128 levels deep.
///
/// It does not know nulls: with `MessagePack` alone `None` is one byte (nil). For tombstones take
/// [`Nullable(MessagePack)`](super::Nullable).
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use slipstream::codec::{Codec, MessagePack};
///
/// #[derive(Serialize, Deserialize)]
/// struct Old {
///     seen: u32,
/// }
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct New {
///     #[serde(default)]
///     place: String,
///     seen: u32,
/// }
///
/// let bytes = MessagePack.encode(&Old { seen: 7 })?;
/// assert_eq!(&bytes[..], b"\x81\xa4seen\x07");
/// let new: New = MessagePack.decode(&bytes)?;
/// assert_eq!(new, New { place: String::new(), seen: 7 });
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessagePack;

impl<V: Serialize + DeserializeOwned> Codec<V> for MessagePack {
    fn encode(&self, value: &V) -> Result<Bytes> {
        small::written(|out| {
            let mut serializer = rmp_serde::Serializer::new(out).with_struct_map();
            value.serialize(&mut serializer).map_err(|cause| failed::encoding::<V>(NAME, cause))
        })
    }

    fn decode(&self, bytes: &Bytes) -> Result<V> {
        let mut deserializer = Deserializer::from_read_ref(&bytes[..]);
        deserializer.set_max_depth(MAX_LEVELS);
        V::deserialize(&mut deserializer)
            .and_then(|value| at_end(&mut deserializer).map(|()| value))
            .map_err(|cause| failed::decoding::<V>(NAME, bytes.len(), cause))
    }
}

/// Whether nothing follows the value: there must be no marker left to read.
fn at_end<'de, R: rmp_serde::decode::ReadSlice<'de>>(rest: &mut Deserializer<R>) -> Result<(), DecodeError> {
    match <IgnoredAny as serde::Deserialize>::deserialize(rest) {
        Err(DecodeError::InvalidMarkerRead(_)) => Ok(()),
        _ => Err(DecodeError::Uncategorized("bytes left over after the value".to_owned())),
    }
}
