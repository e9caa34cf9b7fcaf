//! Text and bytes as they are.

use bytes::Bytes;

use super::{Codec, failed, small};
use crate::error::Result;

/// Text as UTF-8.
///
/// ```
/// use bytes::Bytes;
/// use slipstream::Kind;
/// use slipstream::codec::{Codec, Utf8};
///
/// let bytes = Utf8.encode(&"Zürich".to_owned())?;
/// assert_eq!(&bytes[..], "Zürich".as_bytes());
/// assert_eq!(Utf8.decode(&bytes)?, "Zürich");
/// assert_eq!(Utf8.decode(&Bytes::from_static(b"\xff\xfe")).unwrap_err().kind(), Kind::Decode);
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Utf8;

impl Codec<String> for Utf8 {
    fn encode(&self, value: &String) -> Result<Bytes> {
        Ok(small::copy(value.as_bytes()))
    }

    fn decode(&self, bytes: &Bytes) -> Result<String> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(cause) => Err(failed::decoding::<String>("UTF-8", bytes.len(), cause)),
        }
    }
}

/// Bytes as they are. `Bytes` are shared in both directions, `Vec<u8>` are copied.
///
/// ```
/// use bytes::Bytes;
/// use slipstream::codec::{Codec, Raw};
///
/// let bytes = Raw.encode(&vec![0, 255])?;
/// let back: Bytes = Raw.decode(&bytes)?;
/// assert_eq!(back.as_ptr(), bytes.as_ptr());
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raw;

impl Codec<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Bytes> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: &Bytes) -> Result<Bytes> {
        Ok(bytes.clone())
    }
}

impl Codec<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>) -> Result<Bytes> {
        Ok(small::copy(value))
    }

    fn decode(&self, bytes: &Bytes) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}
