//! Integers, floats, `bool` and `char`.

use super::{AsKey, Key, malformed, take_array};
use crate::error::Result;

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl AsKey<$type> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl Key for $type {
            fn decode(bytes: &mut &[u8]) -> Result<Self> {
                take_array::<Self, { size_of::<Self>() }>(bytes).map(Self::from_be_bytes)
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, u128);

// Turning the sign bit puts the negative half below the positive one.
macro_rules! signed {
    ($($type:ty),*) => {$(
        impl AsKey<$type> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self ^ <$type>::MIN).to_be_bytes());
            }
        }
        impl Key for $type {
            fn decode(bytes: &mut &[u8]) -> Result<Self> {
                let turned = take_array::<Self, { size_of::<Self>() }>(bytes).map(Self::from_be_bytes)?;
                Ok(turned ^ <$type>::MIN)
            }
        }
    )*};
}

signed!(i8, i16, i32, i64, i128);

// Positive floats sort by their bits. Negative ones sort the other way round and belong below: all bits are turned.
macro_rules! float {
    ($($type:ty as $bits:ty),*) => {$(
        impl AsKey<$type> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                (if bits & SIGN == 0 { bits | SIGN } else { !bits }).encode(out);
            }
        }
        impl Key for $type {
            fn decode(bytes: &mut &[u8]) -> Result<Self> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = <$bits>::decode(bytes)?;
                Ok(Self::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN }))
            }
        }
    )*};
}

float!(f32 as u32, f64 as u64);

impl AsKey<bool> for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Key for bool {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        match u8::decode(bytes)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed::<Self>("neither 0 nor 1")),
        }
    }
}

impl AsKey<char> for char {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode(out);
    }
}

impl Key for char {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        char::from_u32(u32::decode(bytes)?).ok_or_else(|| malformed::<Self>("no such character"))
    }
}
