use bytes::{BufMut as _, Bytes, BytesMut};
use proptest::prelude::*;

use super::hex;
use crate::booblik::wire::{self, Damage, Ending, Fetched, WireError};

/// The body with this payload.
fn body(payload: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i64(100);
    body.put_i32(i32::try_from(payload.len()).unwrap());
    body.extend_from_slice(payload);
    body.freeze()
}

fn stored(values: &[&str]) -> Vec<u8> {
    let mut out = BytesMut::new();
    values.iter().for_each(|value| wire::encode_stored(&mut out, value.as_bytes()));
    out.to_vec()
}

fn decoded(payload: &[u8]) -> (Vec<(i64, String)>, Ending) {
    let Fetched { records, ending, .. } = wire::decode_fetched(&body(payload), 42).unwrap();
    let records = records.into_iter().map(|record| (record.offset, String::from_utf8(record.value.to_vec()).unwrap()));
    (records.collect(), ending)
}

fn one_and_two() -> Vec<(i64, String)> {
    vec![(42, "one".into()), (43, "two".into())]
}

#[test]
fn a_body_shorter_than_its_fixed_part_is_an_error() {
    for length in 0..12 {
        assert_eq!(wire::decode_fetched(&Bytes::from(vec![0; length]), 0), Err(WireError::Body("fixed part")));
    }
}

#[test]
fn a_payload_of_another_length_than_announced_is_an_error() {
    for announced in [-1, 0, 10, 12, i32::MAX] {
        let mut wrong = BytesMut::from(&body(&stored(&["one"]))[..]);
        wrong[8..12].copy_from_slice(&i32::to_be_bytes(announced));
        assert_eq!(wire::decode_fetched(&wrong.freeze(), 0).is_err(), announced != 11, "{announced}");
    }
}

#[test]
fn a_tail_that_is_cut_anywhere_is_left_out() {
    let whole = stored(&["one", "two", "three"]);
    let tail_start = stored(&["one", "two"]).len();
    for length in tail_start + 1..whole.len() {
        let record_bytes = if length < tail_start + 8 { 0 } else { 5 };
        assert_eq!(decoded(&whole[..length]), (one_and_two(), Ending::Cut { record_bytes }), "{length}");
    }
    assert_eq!(decoded(&whole).1, Ending::Whole);
}

#[test]
fn a_cut_record_is_no_damage_even_with_a_wrong_checksum() {
    assert_eq!(decoded(&hex("00000009 00000000 61")), (vec![], Ending::Cut { record_bytes: 9 }));
}

#[test]
fn the_good_records_before_a_damaged_one_are_given_out() {
    let mut payload = stored(&["one", "two", "six", "ten"]);
    *payload.iter_mut().rev().nth(11).unwrap() ^= 1;
    let (computed, stored) = (wire::crc32c(b"siy"), wire::crc32c(b"six"));
    assert_eq!(decoded(&payload), (one_and_two(), Ending::Damaged(Damage::Checksum { stored, computed })));
}

#[test]
fn a_size_that_no_record_has_is_damage_after_the_good_records() {
    for size in [0, -1, i32::MIN, 8_388_583, i32::MAX] {
        let mut payload = stored(&["one", "two"]);
        payload.extend_from_slice(&size.to_be_bytes());
        payload.extend_from_slice(&[0; 4]);
        assert_eq!(decoded(&payload), (one_and_two(), Ending::Damaged(Damage::Size(size))));
    }
}

#[test]
fn the_largest_record_is_cut_and_not_damaged() {
    assert_eq!(decoded(&hex("007fffe6 00000000")), (vec![], Ending::Cut { record_bytes: 8_388_582 }));
}

#[test]
fn checksums_are_unsigned() {
    assert!(wire::crc32c(b"a") > u32::MAX / 2);
    assert_eq!(decoded(&stored(&["a"])), (vec![(42, "a".into())], Ending::Whole));
}

#[test]
fn records_are_slices_of_the_answer() {
    let body = body(&stored(&["one", "two"]));
    let inside = body.as_ptr_range();
    let fetched = wire::decode_fetched(&body, 0).unwrap();
    assert!(fetched.records.into_iter().all(|record| inside.contains(&record.value.as_ptr())));
}

proptest! {
    #[test]
    fn any_cut_gives_the_records_that_are_whole(
        values in prop::collection::vec("[a-z]{1,40}", 1..20), keep in 0_usize..1000,
    ) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let payload = stored(&values);
        let keep = keep.min(payload.len());
        let whole = (0..=values.len()).rev().find(|count| stored(&values[..*count]).len() <= keep).unwrap();
        let (records, ending) = decoded(&payload[..keep]);
        prop_assert_eq!(records.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), &values[..whole]);
        prop_assert_eq!(ending == Ending::Whole, stored(&values[..whole]).len() == keep);
    }
}
