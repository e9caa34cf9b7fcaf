//! The crate's client against the crate's broker: each check alone, then all of them through a program.

use std::path::PathBuf;

use super::checks::{self, CHECKS, Kit};
use super::process::Broker;
use super::reader::Reader;
use super::subject::Subject;

fn check(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::of_the_kit(&directory);
    let client = Subject::client(&broker.address().to_string());
    let mut kit = Kit { client, reader: Reader::connect(broker.address()) };
    let (_, _, check) = CHECKS.iter().find(|(_, own, _)| *own == name).expect("a check with this name");
    check(&mut kit);
}

macro_rules! checks {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn no_check_is_left_out() {
            assert_eq!([$(stringify!($name)),*], CHECKS.map(|(_, name, _)| name));
        }
    };
}

checks! {
    metadata
    every_byte_round_trip
    empty_record
    batch_of_ten
    ack_none
    ack_forced
    partitioner
    unknown_topic
    unknown_partition
    fetch
    fetch_at_the_end
    whole_records_only
    record_exceeds_max_bytes
    offset_out_of_range
}

/// The example `booblik_adapter`, which cargo puts beside the folder of this test.
fn adapter() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/booblik_adapter");
    assert!(path.exists(), "{} is not built: cargo build --example booblik_adapter", path.display());
    path
}

#[test]
fn all_checks_through_the_adapter() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::of_the_kit(&directory);
    let client = Subject::program(&[adapter().to_str().unwrap()], &broker.address().to_string());
    assert_eq!(checks::all(client, &broker), 14);
}
