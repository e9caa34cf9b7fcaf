use bytes::{BufMut as _, Bytes, BytesMut};
use proptest::prelude::*;

use super::{frame, hex, written};
use crate::booblik::wire::{self, Acks, Call, ErrorCode, Fetch, Frames, MAX_FRAME_BYTES, Refusal, WireError};

const PRODUCE: &str = "00000021 0001 0001 00000007 0002 6162 00000003 02 00000002 00000002 0102 00000002 7f80";
const FETCH_2: &str = "00000024 0002 0002 00000009 0002 6162 00000003 000000000000002a 00100000 00001388 00000001";
const FETCH_1: &str = "0000001c 0002 0001 00000009 0002 6162 00000003 000000000000002a 00100000";
const METADATA_ALL: &str = "0000000c 0003 0001 00000001 00000000";
const METADATA_AB: &str = "00000010 0003 0001 00000002 00000001 0002 6162";

fn call(frame: &Bytes) -> Call<'_> {
    wire::decode_request(frame).unwrap().call
}

fn fetch(frame: &Bytes) -> Fetch<'_> {
    let Call::Fetch(fetch) = call(frame) else { panic!("it is a fetch") };
    fetch
}

/// The refusal of a request with this body.
fn refusal(key: i16, version: i16, body: &str) -> Refusal {
    let mut frame = BytesMut::new();
    frame.put_i16(key);
    frame.put_i16(version);
    frame.put_i32(42);
    frame.extend_from_slice(&hex(body));
    let refusal = wire::decode_request(&frame.freeze()).unwrap_err();
    assert_eq!(refusal.correlation_id, 42);
    refusal
}

fn is_corrupt(key: i16, version: i16, body: &str) {
    let refusal = refusal(key, version, body);
    assert_eq!((refusal.code, refusal.is_silent), (ErrorCode::CorruptRequest, false), "{body}: {}", refusal.reason);
}

// ---- the worked frames of the specification, both ways ---------------------------------------------------------------

#[test]
fn a_produce_is_the_worked_frame() {
    let records = [hex("0102"), hex("7f80")];
    let bytes = written(|out| wire::encode_produce(out, 7, "ab", 3, Acks::Forced, &records).unwrap());
    assert_eq!(bytes, hex(PRODUCE));

    let frame = frame(PRODUCE);
    let Call::Produce(produce) = call(&frame) else { panic!("it is a produce") };
    assert_eq!((produce.topic, produce.partition, produce.acks), ("ab", 3, Acks::Forced));
    assert_eq!(produce.records.iter().collect::<Vec<_>>(), records);
    assert_eq!(wire::decode_request(&frame).unwrap().correlation_id, 7);
}

#[test]
fn records_are_slices_of_the_frame() {
    let frame = frame(PRODUCE);
    let Call::Produce(produce) = call(&frame) else { panic!("it is a produce") };
    let inside = frame.as_ptr_range();
    assert!(produce.records.iter().all(|record| inside.contains(&record.as_ptr())));
}

#[test]
fn a_fetch_is_the_worked_frame_and_both_versions_are_read() {
    let wanted =
        Fetch { topic: "ab", partition: 3, offset: 42, max_bytes: 1 << 20, max_wait_millis: 5000, min_bytes: 1 };
    assert_eq!(written(|out| wire::encode_fetch(out, 9, &wanted).unwrap()), hex(FETCH_2));
    assert_eq!(fetch(&frame(FETCH_2)), wanted);
    assert_eq!(fetch(&frame(FETCH_1)), Fetch { max_wait_millis: 0, min_bytes: 0, ..wanted });
}

#[test]
fn a_metadata_request_is_the_worked_frame() {
    assert_eq!(written(|out| wire::encode_metadata::<&str>(out, 1, &[]).unwrap()), hex(METADATA_ALL));
    assert_eq!(written(|out| wire::encode_metadata(out, 2, &["ab"]).unwrap()), hex(METADATA_AB));
    let (all, one) = (frame(METADATA_ALL), frame(METADATA_AB));
    let (Call::Metadata(all), Call::Metadata(one)) = (call(&all), call(&one)) else { panic!("they are metadata") };
    assert!(all.is_empty());
    assert_eq!((one.len(), one.iter().collect::<Vec<_>>()), (1, vec!["ab"]));
}

// ---- what is refused, and how ----------------------------------------------------------------------------------------

#[test]
fn a_frame_without_a_whole_header_has_no_id_to_echo() {
    for length in 1..8 {
        let refusal = wire::decode_request(&Bytes::from(vec![1; length])).unwrap_err();
        assert_eq!((refusal.correlation_id, refusal.code), (0, ErrorCode::CorruptRequest));
    }
}

#[test]
fn an_unknown_key_or_version_is_told_before_the_body_is_looked_at() {
    for (key, version) in [(0, 1), (4, 1), (-1, 1), (1, 2), (1, 0), (2, 3), (2, 0), (3, 2)] {
        assert_eq!(refusal(key, version, "ffff").code, ErrorCode::UnsupportedVersion, "{key} {version}");
    }
}

#[test]
fn a_topic_name_must_be_one() {
    is_corrupt(1, 1, "");
    is_corrupt(1, 1, "0000 00000000 01 00000001 00000001 61");
    is_corrupt(1, 1, "0009 6162");
    is_corrupt(2, 1, "0002 d18b 00000000 0000000000000000 00000001");
    is_corrupt(3, 1, "00000001 0001 2f");
    let long = format!("00fa {} 00000000 0000000000000000 00000001", "61".repeat(250));
    is_corrupt(2, 1, &long);
}

#[test]
fn a_produce_must_keep_its_rules() {
    is_corrupt(1, 1, "0001 61 ffffffff 01 00000001 00000001 61");
    is_corrupt(1, 1, "0001 61 00000000 03 00000001 00000001 61");
    is_corrupt(1, 1, "0001 61 00000000 ff 00000001 00000001 61");
    is_corrupt(1, 1, "0001 61 00000000");
    for body in [
        "",
        "00000000",
        "ffffffff",
        "7fffffff 00000001 61",
        "00000001 00000000",
        "00000001 ffffffff 61",
        "00000002 00000001 61",
        "00000001 00000002 61",
    ] {
        is_corrupt(1, 1, &format!("0001 61 00000000 01 {body}"));
    }
}

#[test]
fn a_bad_request_that_wants_no_answer_gets_none() {
    let silent = refusal(1, 1, "0001 61 00000000 00 00000001 00000000");
    assert_eq!((silent.code, silent.is_silent), (ErrorCode::CorruptRequest, true));
    is_corrupt(1, 1, "0001 61 ffffffff 00");
}

#[test]
fn a_fetch_must_keep_its_rules() {
    is_corrupt(2, 1, "0001 61 00000000 ffffffffffffffff 00000001");
    is_corrupt(2, 1, "0001 61 00000000 0000000000000000 00000000");
    is_corrupt(2, 1, "0001 61 00000000 0000000000000000 ffffffff");
    is_corrupt(2, 2, "0001 61 00000000 0000000000000000 00000001");
    is_corrupt(2, 2, "0001 61 00000000 0000000000000000 00000001 ffffffff 00000000");
    is_corrupt(2, 2, "0001 61 00000000 0000000000000000 00000001 00000000 ffffffff");
    is_corrupt(2, 2, "0001 61 00000000 0000000000000000 00000001 00000000 00000002");
}

#[test]
fn a_metadata_count_must_be_borne_out() {
    is_corrupt(3, 1, "");
    is_corrupt(3, 1, "ffffffff");
    is_corrupt(3, 1, "7fffffff 0001 61");
    is_corrupt(3, 1, "00000002 0001 61");
    is_corrupt(3, 1, "00000001 0000");
}

#[test]
fn bytes_after_a_request_are_ignored() {
    for text in [PRODUCE, FETCH_2, FETCH_1, METADATA_AB] {
        let exact = frame(text);
        let longer = Bytes::from([&exact[..], b"more"].concat());
        assert_eq!(call(&longer), call(&exact), "{text}");
    }
}

#[test]
fn a_fetch_is_granted_what_an_answer_can_hold() {
    let greedy =
        Fetch { topic: "a", partition: 0, offset: 0, max_bytes: 1 << 29, max_wait_millis: 1 << 30, min_bytes: 0 };
    assert_eq!((greedy.payload_limit(), greedy.wait().as_secs(), greedy.wanted_bytes()), (8_388_590, 60, 1));
    assert_eq!(Fetch { min_bytes: 1 << 29, ..greedy }.wanted_bytes(), 8_388_590);
}

// ---- what a client can send ------------------------------------------------------------------------------------------

#[test]
fn the_largest_record_fills_a_frame_and_a_larger_one_is_not_written() {
    let largest = vec![7; MAX_FRAME_BYTES - 19 - 4 - 2];
    let bytes = written(|out| wire::encode_produce(out, 1, "ab", 0, Acks::Written, &[&largest]).unwrap());
    assert_eq!(bytes.len(), 4 + MAX_FRAME_BYTES);
    let mut frames = Frames::of_requests();
    frames.feed(&bytes);
    assert!(wire::decode_request(&frames.next().unwrap().unwrap()).is_ok());

    let mut out = BytesMut::new();
    let refused = wire::encode_produce(&mut out, 1, "abc", 0, Acks::Written, &[&largest]);
    assert_eq!((refused, out.len()), (Err(WireError::TooLarge(MAX_FRAME_BYTES + 1)), 0));
}

#[test]
fn numbers_that_are_no_i32_are_not_cut() {
    let fetch = Fetch { topic: "a", partition: 0, offset: 0, max_bytes: 1 << 31, max_wait_millis: 0, min_bytes: 0 };
    let mut out = BytesMut::new();
    assert_eq!(wire::encode_fetch(&mut out, 1, &fetch), Err(WireError::Count(1 << 31)));
    let name = "a".repeat(70_000);
    assert_eq!(wire::encode_fetch(&mut out, 1, &Fetch { topic: &name, max_bytes: 1, ..fetch }), Err(WireError::Name));
    assert_eq!(wire::encode_metadata(&mut out, 1, &[&name]), Err(WireError::Name));
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn a_broker_reads_what_a_client_writes(
        id: i32, topic in "[A-Za-z0-9._-]{1,249}", partition in 0..i32::MAX,
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..20),
    ) {
        let bytes = written(|out| wire::encode_produce(out, id, &topic, partition, Acks::Written, &records).unwrap());
        let frame = Bytes::from(bytes).slice(4..);
        let request = wire::decode_request(&frame).unwrap();
        prop_assert_eq!(request.correlation_id, id);
        let Call::Produce(produce) = request.call else { panic!("it is a produce") };
        prop_assert_eq!((produce.topic, produce.partition), (&topic[..], partition));
        prop_assert_eq!(produce.records.payload_bytes(), records.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(produce.records.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), records);
    }
}
