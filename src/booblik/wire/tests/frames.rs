use proptest::prelude::*;

use crate::booblik::wire::{Frames, MAX_FRAME_BYTES, WireError};

fn with_length(length: i32) -> Frames {
    let mut frames = Frames::of_requests();
    frames.feed(&length.to_be_bytes());
    frames
}

#[test]
fn a_length_outside_of_the_protocol_is_refused_before_anything_is_allocated() {
    for length in [0, -1, i32::MIN, 8_388_609, i32::MAX] {
        let mut frames = with_length(length);
        assert_eq!(frames.next(), Err(WireError::FrameLength(length)));
        assert!(frames.space().capacity() < 100_000);
    }
}

#[test]
fn an_announced_frame_gets_room_only_as_its_bytes_arrive() {
    let mut frames = with_length(8_388_608);
    assert_eq!(frames.next(), Ok(None));
    assert!(frames.space().capacity() < 200_000, "four bytes are worth no eight megabytes");
    let mut fed = 0;
    while fed < MAX_FRAME_BYTES {
        frames.feed(&[0; 1024]);
        fed += 1024;
        assert!(frames.space().capacity() <= 2 * fed + 200_000);
    }
    assert_eq!(frames.next().unwrap().unwrap().len(), MAX_FRAME_BYTES);
    assert!(!frames.has_partial());
}

#[test]
fn a_response_has_at_least_a_header() {
    for (length, is_ok) in [(5, false), (6, true)] {
        let mut frames = Frames::of_responses();
        frames.feed(&i32::to_be_bytes(length));
        assert_eq!(frames.next().is_ok(), is_ok);
    }
}

#[test]
fn two_frames_in_one_read_come_out_one_by_one() {
    let mut frames = Frames::of_requests();
    frames.feed(b"\0\0\0\x01a\0\0\0\x02bc\0\0");
    assert_eq!(frames.next().unwrap().unwrap(), "a");
    assert_eq!(frames.next().unwrap().unwrap(), "bc");
    assert_eq!((frames.next(), frames.has_partial(), frames.buffered_bytes()), (Ok(None), true, 2));
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_frames(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 1..10), piece in 1_usize..50,
    ) {
        let framed = |body: &Vec<u8>| [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat();
        let stream: Vec<u8> = bodies.iter().flat_map(framed).collect();
        let (mut frames, mut out) = (Frames::of_requests(), Vec::new());
        for part in stream.chunks(piece) {
            frames.feed(part);
            while let Some(frame) = frames.next().unwrap() {
                out.push(frame.to_vec());
            }
        }
        prop_assert_eq!(out, bodies);
    }
}
