use bytes::{Bytes, BytesMut};

use super::{frame, hex, written};
use crate::booblik::wire::{self, ErrorCode, PartitionInfo, Produced, TopicInfo, WireError};

const PRODUCED: &str = "00000016 0000000b 0000 000000000000002a 000000000000002c";
const REFUSAL: &str = "00000006 00000005 0001";
const FETCHED: &str = "0000001b 00000009 0000 000000000000002b 00000009 00000001 c1d04330 61";
const CAUGHT_UP: &str = "00000012 00000009 0000 000000000000002b 00000000";
const DESCRIBED: &str = "0000003a 00000002 0000 00000001 0002 6162 00000002 \
     00000000 0000000000000005 000000000000000a 00000001 0000000000000000 0000000000000000";

fn body(id: i32, text: &str) -> Bytes {
    let response = wire::decode_response(frame(text)).unwrap();
    assert_eq!(response.correlation_id, id);
    response.result.unwrap()
}

#[test]
fn the_answer_to_a_produce_is_the_worked_frame() {
    let produced = Produced { base_offset: 42, log_end_offset: 44 };
    assert_eq!(written(|out| wire::encode_produced(out, 11, produced)), hex(PRODUCED));
    assert_eq!(wire::decode_produced(&body(11, PRODUCED)), Ok(produced));
}

#[test]
fn a_refusal_is_the_worked_frame() {
    let code = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(written(|out| wire::encode_refusal(out, 5, code)), hex(REFUSAL));
    assert_eq!(wire::decode_response(frame(REFUSAL)).unwrap().result, Err(code));
}

#[test]
fn the_answer_to_a_fetch_is_the_worked_frame() {
    let mut stored = BytesMut::new();
    wire::encode_stored(&mut stored, b"a");
    let sent = [&wire::fetched_head(9, 43, 9)[..], &stored].concat();
    assert_eq!(sent, hex(FETCHED));
    assert_eq!(wire::fetched_head(9, 43, 0)[..], hex(CAUGHT_UP));

    let fetched = wire::decode_fetched(&body(9, FETCHED), 42).unwrap();
    assert_eq!((fetched.high_watermark, fetched.records.len(), fetched.ending), (43, 1, wire::Ending::Whole));
    let caught_up = wire::decode_fetched(&body(9, CAUGHT_UP), 43).unwrap();
    assert_eq!((caught_up.records.len(), caught_up.records.next_offset()), (0, 43));
}

#[test]
fn a_stored_record_is_the_worked_one() {
    let stored = written(|out| wire::encode_stored(out, b"123456789"));
    assert_eq!(stored, hex("00000009 e3069283 313233343536373839"));
}

#[test]
fn described_topics_are_the_worked_frame() {
    let partition =
        |partition, log_start_offset, high_watermark| PartitionInfo { partition, log_start_offset, high_watermark };
    let topics = [TopicInfo { name: "ab".into(), partitions: vec![partition(0, 5, 10), partition(1, 0, 0)] }];
    assert_eq!(written(|out| wire::encode_described(out, 2, &topics).unwrap()), hex(DESCRIBED));
    assert_eq!(wire::decode_described(&body(2, DESCRIBED)), Ok(topics.to_vec()));
}

#[test]
fn every_code_keeps_its_number() {
    for number in [1, 2, 3, 4, 5, 6, 7, 99, -1, i16::MAX, i16::MIN] {
        let code = ErrorCode::from_wire(number).unwrap();
        let sent = Bytes::from(written(|out| wire::encode_refusal(out, 1, code)));
        assert_eq!(wire::decode_response(sent.slice(4..)).unwrap().result.unwrap_err().to_wire(), number);
        assert_eq!(matches!(code, ErrorCode::Unknown(_)), !(1..=6).contains(&number));
    }
}

#[test]
fn only_an_unavailable_partition_is_worth_another_try() {
    let retryable = (1..=7).filter_map(ErrorCode::from_wire).filter(|code| code.is_retryable());
    assert_eq!(retryable.collect::<Vec<_>>(), [ErrorCode::PartitionUnavailable]);
}

#[test]
fn a_response_without_a_whole_header_is_none() {
    for length in 0..6 {
        assert!(wire::decode_response(Bytes::from(vec![0; length])).is_err());
    }
}

#[test]
fn offsets_of_another_length_are_an_error_and_no_panic() {
    for length in (0..40).filter(|length| *length != 16) {
        assert_eq!(wire::decode_produced(&vec![0; length]), Err(WireError::Body("offsets")));
    }
}

#[test]
fn a_list_of_topics_that_is_cut_or_too_long_is_an_error() {
    let whole = body(2, DESCRIBED);
    for length in 0..whole.len() {
        assert!(wire::decode_described(&whole[..length]).is_err(), "{length}");
    }
    assert!(wire::decode_described(&[&whole[..], b"x"].concat()).is_err());
}

#[test]
fn counts_that_the_bytes_do_not_bear_out_are_an_error() {
    for text in ["7fffffff", "ffffffff", "00000001 0001 61 7fffffff", "00000001 0001 61 ffffffff", "00000001 ffff 61"] {
        assert!(wire::decode_described(&hex(text)).is_err(), "{text}");
    }
}

#[test]
fn the_largest_payload_fills_a_frame() {
    let head = wire::fetched_head(1, 0, wire::MAX_FETCH_BYTES);
    assert_eq!(i32::from_be_bytes(*head.first_chunk().unwrap()), i32::try_from(wire::MAX_FRAME_BYTES).unwrap());
}
