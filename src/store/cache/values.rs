//! The default codec of values.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::Codec;
use crate::error::{Error, Kind, Result};

/// MessagePack with named fields: compact, and a struct may gain fields that have a default.
pub(super) struct MessagePack;

impl<T: Serialize + DeserializeOwned> Codec<T> for MessagePack {
    fn encode(&self, value: &T) -> Result<Bytes> {
        rmp_serde::to_vec_named(value)
            .map(Bytes::from)
            .map_err(|error| Error::new(Kind::Encode, "cannot be written as MessagePack").because(error))
    }

    fn decode(&self, bytes: &Bytes) -> Result<T> {
        rmp_serde::from_slice(bytes)
            .map_err(|error| Error::new(Kind::Decode, "not the expected MessagePack").because(error))
    }
}
