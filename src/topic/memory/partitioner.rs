//! Which partition a key belongs to: the same as for every Java producer of Kafka.

/// The partition of `key` among `count` partitions, as Kafka's `murmur2_random` chooses it.
pub(super) fn partition_of(key: &[u8], count: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    // A topic has at least one partition.
    positive as usize % count.max(1)
}

/// The 32-bit MurmurHash2 with the seed and the byte order that Kafka's Java client uses.
#[expect(clippy::cast_possible_truncation, reason = "the hash takes the length modulo 2^32")]
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | u32::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_hash_as_in_the_java_client() {
        // The vectors of Kafka's own test of its hash.
        let vectors: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_key_always_has_the_same_partition_below_the_count(key in any::<Vec<u8>>(), count in 1_usize..100) {
            let partition = partition_of(&key, count);
            prop_assert!(partition < count);
            prop_assert_eq!(partition, partition_of(&key, count));
        }
    }
}
