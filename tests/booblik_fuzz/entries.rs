//! What is tried on any bytes whatever: one entry per decoder. `fuzz/` runs the same ones under libFuzzer.

use bytes::{Bytes, BytesMut};
use slipstream::booblik::wire::{self, Acks, Call, Ending, Frames, Request};

/// A request frame: what decodes is written again in the same bytes, up to what may follow it.
pub fn requests(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    match wire::decode_request(&frame) {
        Ok(request) => assert_rewrites(&request, data),
        Err(refusal) => assert!((1..=6).contains(&refusal.code.to_wire()) && !refusal.reason.is_empty()),
    }
}

/// A response frame, its body read as each kind of answer.
pub fn responses(data: &[u8]) {
    let Ok(response) = wire::decode_response(Bytes::copy_from_slice(data)) else {
        assert!(data.len() < wire::RESPONSE_HEADER_BYTES);
        return;
    };
    if let Ok(body) = response.result {
        assert_eq!(wire::decode_produced(&body).is_ok(), body.len() == 16);
        described(&body);
        fetched(&body);
    }
}

/// The body of a metadata answer: what decodes is written again in the same bytes.
pub fn described(data: &[u8]) {
    if let Ok(topics) = wire::decode_described(data) {
        let mut out = BytesMut::new();
        wire::encode_described(&mut out, 0, &topics).expect("as large as what was read");
        assert_eq!(&out[wire::LENGTH_BYTES + wire::RESPONSE_HEADER_BYTES..], data);
    }
}

/// The body of a fetch answer: the good records are the front of the payload, whatever follows.
pub fn fetched(data: &[u8]) {
    let Ok(fetched) = wire::decode_fetched(&Bytes::copy_from_slice(data), 42) else { return };
    let mut stored = BytesMut::new();
    fetched.records.values().for_each(|value| wire::encode_stored(&mut stored, value));
    let payload = &data[12..];
    assert!(payload.starts_with(&stored));
    assert_eq!(fetched.ending == Ending::Whole, payload.len() == stored.len());
    let (count, next) = (fetched.records.len(), fetched.records.next_offset());
    assert_eq!(fetched.records.into_iter().count(), count);
    assert_eq!(next, 42 + i64::try_from(count).expect("few"));
}

/// A stream of frames: the pieces in which it arrives make no difference.
pub fn frames(data: &[u8]) {
    let piece = data.first().map_or(1, |byte| usize::from(*byte) % 17 + 1);
    assert_eq!(cut(Frames::of_requests(), data, piece), cut(Frames::of_requests(), data, data.len().max(1)));
    assert_eq!(cut(Frames::of_responses(), data, piece), cut(Frames::of_responses(), data, data.len().max(1)));
}

/// The frames up to the first bad length, and whether there was one.
fn cut(mut frames: Frames, data: &[u8], piece: usize) -> (Vec<Bytes>, bool) {
    let mut out = Vec::new();
    for part in data.chunks(piece) {
        frames.feed(part);
        loop {
            match frames.next() {
                Ok(Some(frame)) => out.push(frame),
                Ok(None) => break,
                Err(_) => return (out, true),
            }
        }
    }
    (out, false)
}

fn assert_rewrites(request: &Request<'_>, data: &[u8]) {
    let (mut out, id) = (BytesMut::new(), request.correlation_id);
    match &request.call {
        Call::Produce(produce) => {
            let records: Vec<&[u8]> = produce.records.iter().collect();
            assert_eq!(records.len(), produce.records.len());
            assert_eq!(records.iter().map(|record| record.len()).max(), Some(produce.records.largest_bytes()));
            let (topic, partition, acks): (_, _, Acks) = (produce.topic, produce.partition, produce.acks);
            wire::encode_produce(&mut out, id, topic, partition, acks, &records).expect("as large as what was read");
        }
        Call::Fetch(fetch) => {
            wire::encode_fetch(&mut out, id, fetch).expect("what was read");
            // Written in version 2, whichever was read.
            out[7] = data[3];
            let version_1_bytes = wire::LENGTH_BYTES + 26 + fetch.topic.len();
            out.truncate(if data[3] == 1 { version_1_bytes } else { out.len() });
        }
        Call::Metadata(names) => {
            let names: Vec<&str> = names.iter().collect();
            wire::encode_metadata(&mut out, id, &names).expect("as large as what was read");
        }
    }
    assert!(data.starts_with(&out[wire::LENGTH_BYTES..]));
}
