//! The golden vectors of booblik 0.3.0 (`conformance/vectors` there, MIT): copied, never to be regenerated.

use std::num::NonZeroU32;

use super::hex;
use crate::booblik::wire::{Partitioner, crc32c, fnv1a};

/// The rows of a file: comments begin with `#`, and the first field may be empty.
fn rows(file: &'static str) -> Vec<Vec<&'static str>> {
    let rows = file.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split('\t').collect()).collect()
}

fn partitions_agree(file: &'static str, partitioner: Partitioner) {
    let rows = rows(file);
    assert_eq!(rows.len(), 11);
    for row in rows {
        for (column, count) in [1, 2, 3, 4, 16, 64].into_iter().enumerate() {
            let chosen = partitioner.partition(&hex(row[0]), NonZeroU32::new(count).unwrap());
            assert_eq!(chosen.to_string(), row[2 + column], "{} over {count}", row[8]);
        }
    }
}

#[test]
fn checksums_are_castagnolis() {
    let rows = rows(include_str!("vectors/crc32c.tsv"));
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_eq!(crc32c(&hex(row[0])).to_string(), row[1], "{}", row[2]);
    }
}

#[test]
fn keys_go_where_the_other_clients_send_them() {
    let file = include_str!("vectors/partitioner-fnv1a.tsv");
    partitions_agree(file, Partitioner::Fnv1a);
    for row in rows(file) {
        assert_eq!(fnv1a(&hex(row[0])).to_string(), row[1], "{}", row[8]);
    }
}

#[test]
fn the_old_partitioner_is_the_one_of_java() {
    partitions_agree(include_str!("vectors/partitioner-javahash.tsv"), Partitioner::JavaArrayHash);
}
