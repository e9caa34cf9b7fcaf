//! Bytes of encoded values: small ones share a buffer, so that a record costs no allocation of its own.

use std::cell::Cell;

use bytes::{Bytes, BytesMut};

#[cfg(any(test, feature = "json", feature = "msgpack"))]
use crate::error::Result;

/// Larger values get a buffer of their own. A small one that is kept for long keeps up to [`SHARED_BYTES`] alive.
const SMALL_BYTES: usize = 512;
/// The size of a shared buffer.
const SHARED_BYTES: usize = 4096;
/// A scratch buffer that grew beyond this is given back.
#[cfg(any(test, feature = "json", feature = "msgpack"))]
const SCRATCH_MAX_BYTES: usize = 64 * 1024;

thread_local! {
    static SHARED: Cell<BytesMut> = Cell::new(BytesMut::new());
    #[cfg(any(test, feature = "json", feature = "msgpack"))]
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A copy of `bytes`.
pub(crate) fn copy(bytes: &[u8]) -> Bytes {
    if bytes.is_empty() || bytes.len() > SMALL_BYTES {
        return Bytes::copy_from_slice(bytes);
    }
    // Taken out meanwhile, and a new one where the thread is ending: nothing can find it half-way.
    let mut shared = SHARED.try_with(Cell::take).unwrap_or_default();
    if shared.capacity() < bytes.len() {
        shared = BytesMut::with_capacity(SHARED_BYTES);
    }
    shared.extend_from_slice(bytes);
    let copied = shared.split().freeze();
    let _ = SHARED.try_with(|kept| kept.set(shared));
    copied
}

/// What `write` puts into the buffer that it is given, which is empty.
#[cfg(any(test, feature = "json", feature = "msgpack"))]
pub(super) fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<Bytes> {
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    scratch.clear();
    let bytes = write(&mut scratch).map(|()| copy(&scratch));
    if scratch.capacity() <= SCRATCH_MAX_BYTES {
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_share_a_buffer_keep_their_bytes() {
        let copies: Vec<Bytes> = (0..2000_u32).map(|n| copy(format!("value {n}").as_bytes())).collect();
        for (n, bytes) in copies.iter().enumerate() {
            assert_eq!(bytes, format!("value {n}").as_bytes());
        }
    }

    #[test]
    fn empty_and_large_values_are_copied_too() {
        assert_eq!(copy(b""), b"".as_slice());
        let large = vec![7; 10 * SMALL_BYTES];
        assert_eq!(copy(&large), large);
    }

    #[test]
    fn a_codec_that_encodes_within_another_disturbs_nothing() {
        let outer = written(|out| {
            out.extend_from_slice(b"outer ");
            out.extend_from_slice(&written(|inner| {
                inner.extend_from_slice(b"inner");
                Ok(())
            })?);
            Ok(())
        });
        assert_eq!(outer.unwrap(), b"outer inner".as_slice());
    }
}
