//! What a fetch gets where records are missing: a record that no client takes for a good one. Its checksum cannot match,
//! so that each of them says "damaged" and stays; one that knows the mark goes on where it says.

use super::{RECORD_HEADER_BYTES, crc32c};

/// Begins the payload of such a record.
const MARK: [u8; 8] = *b"\xffBBGAP\x00\x01";
/// The mark and an offset.
const PAYLOAD_BYTES: usize = 16;

/// Bytes of [`gap_record`].
pub const GAP_RECORD_BYTES: usize = RECORD_HEADER_BYTES + PAYLOAD_BYTES;

/// A record in its stored form that says: what is missing here ends at `next`.
///
/// ```
/// use bytes::{BufMut as _, BytesMut};
/// use slipstream::booblik::wire::{self, Damage, Ending};
///
/// let mut body = BytesMut::new();
/// body.put_i64(100);
/// body.put_i32(i32::try_from(wire::GAP_RECORD_BYTES).expect("24"));
/// body.put_slice(&wire::gap_record(50));
/// let fetched = wire::decode_fetched(&body.freeze(), 20)?;
/// assert_eq!(fetched.ending, Ending::Damaged(Damage::Gap { next: 50 }));
/// # Ok::<(), wire::WireError>(())
/// ```
pub fn gap_record(next: i64) -> [u8; GAP_RECORD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    let (mark, offset) = payload.split_at_mut(MARK.len());
    mark.copy_from_slice(&MARK);
    offset.copy_from_slice(&next.to_be_bytes());
    let mut record = [0; GAP_RECORD_BYTES];
    let (head, rest) = record.split_at_mut(RECORD_HEADER_BYTES);
    let (size, checksum) = head.split_at_mut(4);
    size.copy_from_slice(&16_u32.to_be_bytes());
    checksum.copy_from_slice(&(!crc32c(&payload)).to_be_bytes());
    rest.copy_from_slice(&payload);
    record
}

/// Where what is missing ends, if this payload with a checksum that does not match is such a record.
pub(super) fn gap_end(payload: &[u8], stored: u32, computed: u32) -> Option<i64> {
    let offset = payload.strip_prefix(&MARK).filter(|_| stored == !computed)?;
    offset.try_into().ok().map(i64::from_be_bytes)
}
