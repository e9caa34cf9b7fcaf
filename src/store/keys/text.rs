//! Text and bytes.
//!
//! Alone, or as the last element of a tuple, they are written as they are. Before another element they need an end
//! that sorts before every continuation: `00 00`, with `00` inside written as `00 FF`.

use bytes::Bytes;

use super::{AsKey, Key, Prefix, malformed, take};
use crate::error::Result;

const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 0x00;

fn encode_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut parts = bytes.split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&[0, ESCAPED_ZERO]);
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&[0, END]);
}

fn decode_escaped<K>(bytes: &mut &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let zero = bytes.iter().position(|byte| *byte == 0).ok_or_else(|| malformed::<K>("no end"))?;
        out.extend_from_slice(take::<K>(bytes, zero)?);
        match take::<K>(bytes, 2)? {
            [_, END] => return Ok(out),
            [_, ESCAPED_ZERO] => out.push(0),
            _ => return Err(malformed::<K>("a zero that is neither escaped nor the end")),
        }
    }
}

macro_rules! stands_for {
    ($($key:ty: $($form:ty),+;)*) => {$($(
        impl AsKey<$key> for $form {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_escaped(self.as_ref(), out);
            }
            fn encode_last(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_ref());
            }
        }
        impl Prefix<$key> for $form {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_ref());
            }
        }
    )*)*};
}

stands_for! {
    String: String, str;
    Vec<u8>: Vec<u8>, Bytes, [u8], str;
    Bytes: Bytes, Vec<u8>, [u8], str;
}

macro_rules! array_stands_for {
    ($($key:ty),*) => {$(
        impl<const N: usize> AsKey<$key> for [u8; N] {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_escaped(self, out);
            }
            fn encode_last(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self);
            }
        }
        impl<const N: usize> Prefix<$key> for [u8; N] {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self);
            }
        }
    )*};
}

array_stands_for!(Vec<u8>, Bytes);

impl Key for String {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        utf8(decode_escaped::<Self>(bytes)?)
    }
    fn decode_last(bytes: &[u8]) -> Result<Self> {
        utf8(bytes.to_vec())
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| malformed::<String>("not UTF-8").because(error))
}

impl Key for Vec<u8> {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        decode_escaped::<Self>(bytes)
    }
    fn decode_last(bytes: &[u8]) -> Result<Self> {
        Ok(bytes.to_vec())
    }
}

impl Key for Bytes {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        decode_escaped::<Self>(bytes).map(Self::from)
    }
    fn decode_last(bytes: &[u8]) -> Result<Self> {
        Ok(Self::copy_from_slice(bytes))
    }
}

// A fixed-width array needs no end.
impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        super::take_array::<Self, N>(bytes)
    }
}
