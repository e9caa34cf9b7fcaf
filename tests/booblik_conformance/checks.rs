//! The fourteen checks, for any client. Each looks at the broker with a reader of its own.

use std::time::{Duration, Instant};

use super::process::Broker;
use super::reader::Reader;
use super::subject::{Answer, Subject, from_hex, to_hex};

/// A client, and what a check may compare it with.
pub struct Kit {
    pub client: Subject,
    pub reader: Reader,
}

pub type Check = fn(&mut Kit);

/// What a client has to be able to do, the name of a check, and the check.
pub const CHECKS: [(&str, &str, Check); 14] = [
    ("producer", "metadata", metadata),
    ("producer", "every_byte_round_trip", every_byte),
    ("producer", "empty_record", empty_record),
    ("producer", "batch_of_ten", batch),
    ("producer", "ack_none", ack_none),
    ("producer", "ack_forced", ack_forced),
    ("producer", "partitioner", partitioner),
    ("producer", "unknown_topic", unknown_topic),
    ("producer", "unknown_partition", unknown_partition),
    ("consumer", "fetch", fetch),
    ("consumer", "fetch_at_the_end", fetch_at_the_end),
    ("consumer", "whole_records_only", whole_records_only),
    ("consumer", "record_exceeds_max_bytes", record_exceeds),
    ("consumer", "offset_out_of_range", out_of_range),
];

/// Runs the checks that apply to a client; how many there were.
pub fn all(client: Subject, broker: &Broker) -> usize {
    let roles = client.roles();
    let mut kit = Kit { client, reader: Reader::connect(broker.address()) };
    let apply = CHECKS.iter().filter(|(role, ..)| roles.iter().any(|own| own == role));
    apply
        .inspect(|(_, name, check)| {
            println!("{name}");
            check(&mut kit);
        })
        .count()
}

impl Kit {
    fn end(&mut self) -> i64 {
        self.reader.high_watermark("single", 0)
    }

    fn produce(&self, acks: &str, records: &[Vec<u8>]) -> Answer {
        let records: Vec<String> = records.iter().map(|record| to_hex(record)).collect();
        self.client.call(&["produce", "single", "0", acks, &records.join(",")])
    }

    /// Appends records, and returns the offset of the first one.
    fn appended(&self, records: &[Vec<u8>]) -> i64 {
        self.produce("written", records).offset("baseOffset").unwrap()
    }

    fn fetch(&self, offset: i64, max_bytes: usize) -> Answer {
        self.client.call(&["fetch", "single", "0", &offset.to_string(), &max_bytes.to_string()])
    }
}

fn every_byte_value() -> Vec<u8> {
    (0..=255).collect()
}

fn metadata(kit: &mut Kit) {
    let answer = kit.client.call(&["metadata", "conformance"]);
    let numbers: Vec<i32> =
        answer.all("partition").iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    let found: Vec<i32> = kit.reader.partitions("conformance").iter().map(|info| info.0).collect();
    assert_eq!((numbers, found), (vec![0, 1, 2], vec![0, 1, 2]));
}

fn every_byte(kit: &mut Kit) {
    let before = kit.end();
    kit.produce("written", &[every_byte_value()]);
    assert_eq!(kit.reader.records("single", 0, before), [every_byte_value()]);
}

fn empty_record(kit: &mut Kit) {
    let before = kit.end();
    let answer = kit.client.call(&["produce", "single", "0", "written", ""]);
    assert_eq!(answer.all("error"), ["CORRUPT_REQUEST"]);
    assert_eq!(kit.end(), before);
}

fn batch(kit: &mut Kit) {
    let before = kit.end();
    let records: Vec<Vec<u8>> = (0..10).map(|number| format!("record {number}").into_bytes()).collect();
    assert_eq!(kit.produce("written", &records).offset("baseOffset"), Some(before));
    assert_eq!(kit.reader.records("single", 0, before), records);
}

fn ack_none(kit: &mut Kit) {
    let before = kit.end();
    let answer = kit.produce("none", &[b"nobody waits".to_vec()]);
    assert_eq!((answer.one("error"), answer.one("baseOffset")), (None, None));
    let since = Instant::now();
    while kit.end() == before {
        assert!(since.elapsed() < Duration::from_secs(10), "it does not arrive");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ack_forced(kit: &mut Kit) {
    let before = kit.end();
    let answer = kit.produce("forced", &[b"on the disk".to_vec()]);
    assert_eq!((answer.offset("baseOffset"), answer.offset("logEndOffset")), (Some(before), Some(before + 1)));
}

fn partitioner(kit: &mut Kit) {
    for (key, expected) in keys_of_three() {
        let before = kit.reader.high_watermark("conformance", expected);
        let payload = format!("key {key}").into_bytes();
        let answer = kit.client.call(&["produce-keyed", "conformance", &key, &to_hex(&payload)]);
        assert_eq!(answer.one("partition"), Some(expected.to_string().as_str()), "key {key}");
        assert_eq!(answer.offset("baseOffset"), Some(before), "key {key}");
        assert_eq!(kit.reader.records("conformance", expected, before), [payload], "key {key}");
    }
}

/// The golden vectors: a key, and its partition of three.
pub fn keys_of_three() -> Vec<(String, i32)> {
    let file = include_str!("../../src/booblik/wire/tests/vectors/partitioner-fnv1a.tsv");
    let rows = file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    let keys: Vec<_> = rows.map(|row| (row[0].to_owned(), row[4].parse().unwrap())).collect();
    assert_eq!(keys.len(), 11);
    assert!(keys.iter().all(|(key, _)| to_hex(&from_hex(key)) == *key));
    keys
}

fn unknown_topic(kit: &mut Kit) {
    let answer = kit.client.call(&["produce", "nowhere", "0", "written", "00"]);
    assert_eq!(answer.all("error"), ["UNKNOWN_TOPIC_OR_PARTITION"]);
}

fn unknown_partition(kit: &mut Kit) {
    let answer = kit.client.call(&["produce", "conformance", "8", "written", "00"]);
    assert_eq!(answer.all("error"), ["UNKNOWN_TOPIC_OR_PARTITION"]);
}

fn fetch(kit: &mut Kit) {
    let records = [every_byte_value(), vec![0], b"second".to_vec()];
    let base = kit.appended(&records);
    let answer = kit.fetch(base, 1 << 20);
    assert_eq!(answer.all("record"), records.map(|record| to_hex(&record)));
    assert_eq!(answer.offset("highWatermark"), Some(base + 3));
}

fn fetch_at_the_end(kit: &mut Kit) {
    let end = kit.end();
    let answer = kit.fetch(end, 1 << 20);
    assert_eq!((answer.one("error"), answer.one("record")), (None, None));
}

fn whole_records_only(kit: &mut Kit) {
    let records: Vec<Vec<u8>> = (1..=3).map(|byte| vec![byte; 100]).collect();
    let base = kit.appended(&records);
    let answer = kit.fetch(base, 150);
    let found: Vec<Vec<u8>> = answer.all("record").into_iter().map(from_hex).collect();
    assert!(!found.is_empty() && records.starts_with(&found), "{answer:?}");
}

fn record_exceeds(kit: &mut Kit) {
    let base = kit.appended(&[vec![7; 500]]);
    let answer = kit.fetch(base, 100);
    assert_eq!((answer.all("recordExceedsMaxBytes"), answer.one("record")), (vec!["500"], None));
}

fn out_of_range(kit: &mut Kit) {
    let offset = kit.end() + 1000;
    assert_eq!(kit.fetch(offset, 1 << 20).all("error"), ["OFFSET_OUT_OF_RANGE"]);
}
