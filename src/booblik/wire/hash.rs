//! The algorithms on which all clients of a broker must agree.

use std::num::NonZeroU32;

/// CRC-32C (Castagnoli) of a payload, as it is stored in front of it.
///
/// ```
/// assert_eq!(slipstream::booblik::wire::crc32c(b"123456789"), 0xE306_9283);
/// ```
pub fn crc32c(payload: &[u8]) -> u32 {
    ::crc32c::crc32c(payload)
}

/// FNV-1a of 32 bits.
///
/// ```
/// assert_eq!(slipstream::booblik::wire::fnv1a(b"user-1"), 4_115_888_500);
/// ```
pub fn fnv1a(key: &[u8]) -> u32 {
    key.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// `java.util.Arrays.hashCode` of the key.
fn java_array_hash(key: &[u8]) -> i32 {
    key.iter().fold(1, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed())))
}

/// How a key chooses a partition. The broker knows nothing of keys: writers of a topic must agree among themselves.
///
/// ```
/// use std::num::NonZeroU32;
/// use slipstream::booblik::wire::Partitioner;
///
/// let three = NonZeroU32::new(3).expect("not zero");
/// assert_eq!(Partitioner::default().partition(b"user-2", three), 1);
/// assert_eq!(Partitioner::JavaArrayHash.partition(b"user-2", three), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Partitioner {
    /// FNV-1a modulo the number of partitions: what all clients do since 0.3.0.
    #[default]
    Fnv1a,
    /// What the Kotlin client did before: for topics that were written then.
    JavaArrayHash,
}

impl Partitioner {
    /// The place in the list of partitions to which `key` goes.
    pub fn partition(self, key: &[u8], partitions: NonZeroU32) -> u32 {
        match self {
            Self::Fnv1a => fnv1a(key) % partitions,
            Self::JavaArrayHash => {
                let chosen = i64::from(java_array_hash(key)).rem_euclid(i64::from(partitions.get()));
                u32::try_from(chosen).unwrap_or_default()
            }
        }
    }
}
