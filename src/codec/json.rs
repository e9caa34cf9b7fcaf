//! JSON through serde.

use std::io::{self, Write};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::ser::Formatter;

use super::{Codec, failed, finite, small};
use crate::error::Result;

const NAME: &str = "JSON";
/// Compact JSON in UTF-8, for every serde type.
///
/// - No spaces, fields in the order of the struct, text outside ASCII stays as it is.
/// - A float that is not finite is [`Kind::Encode`](crate::Kind::Encode), not a silent `null`.
/// - Reading takes one value and nothing after it, at most 128 levels deep.
/// - Unknown fields are skipped, so fields can be added; `#[serde(default)]` lets old records lack them.
///
/// It does not know nulls: with `Json` alone `None` is the text `null` and a tombstone is an error. For tombstones
/// name no codec (the default codec writes the same JSON) or take `Nullable(Json)`.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use slipstream::Kind;
/// use slipstream::codec::{Codec, Json};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Reading {
///     place: String,
///     degrees: f64,
/// }
///
/// let reading = Reading { place: "Zürich".into(), degrees: -3.5 };
/// let bytes = Json.encode(&reading)?;
/// assert_eq!(bytes, r#"{"place":"Zürich","degrees":-3.5}"#);
/// assert_eq!(Codec::<Reading>::decode(&Json, &bytes)?, reading);
///
/// let broken = Reading { degrees: f64::NAN, ..reading };
/// assert_eq!(Json.encode(&broken).unwrap_err().kind(), Kind::Encode);
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json;

impl<V: Serialize + DeserializeOwned> Codec<V> for Json {
    fn encode(&self, value: &V) -> Result<Bytes> {
        to_bytes(value)
    }

    fn decode(&self, bytes: &Bytes) -> Result<V> {
        from_bytes(bytes)
    }
}

pub(super) fn to_bytes<V: Serialize>(value: &V) -> Result<Bytes> {
    small::written(|out| {
        let mut nulls = Nulls { seen: false };
        let mut serializer = serde_json::Serializer::with_formatter(out, &mut nulls);
        value.serialize(&mut serializer).map_err(|cause| failed::encoding::<V>(NAME, cause))?;
        if nulls.seen {
            // Each of them is either a real null or a float that JSON cannot write: only then is a second look needed.
            finite::check(value).map_err(|cause| failed::encoding::<V>(NAME, cause))?;
        }
        Ok(())
    })
}

pub(super) fn from_bytes<V: DeserializeOwned>(bytes: &Bytes) -> Result<V> {
    serde_json::from_slice(bytes).map_err(|cause| failed::decoding::<V>(NAME, bytes.len(), cause))
}

/// Compact JSON that remembers whether it wrote a null.
struct Nulls {
    seen: bool,
}

impl Formatter for &mut Nulls {
    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.seen = true;
        writer.write_all(b"null")
    }
}
