//! Bytes in every shape, and clients that mean no good.

use std::time::Duration;

use slipstream::booblik::broker::{BrokerOptions, ServerOptions};
use slipstream::booblik::wire::{Acks, ErrorCode};

use super::peer::{Ask, Peer};
use super::support::{serving, serving_with, until};

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    peer.stream.set_nodelay(true).unwrap();
    let frame = peer.produce_frame("t", 0, Acks::Written, &[b"slow"]);
    for byte in &frame {
        peer.send(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert!(peer.answer().await.1.is_ok());
    assert_eq!(peer.values("t", 0, 0).await, [b"slow"]);
}

#[tokio::test]
async fn two_requests_may_come_in_one_write_and_a_third_in_part() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let frames: Vec<_> = (0..3).map(|_| peer.produce_frame("t", 0, Acks::Written, &[b"x"])).collect();
    let all = frames.concat();
    let (now, later) = all.split_at(all.len() - 3);
    peer.send(now).await;
    assert_eq!(peer.answer().await.0, 101);
    assert_eq!(peer.answer().await.0, 102);
    peer.send(later).await;
    assert_eq!(peer.answer().await.0, 103);
}

#[tokio::test]
async fn a_length_that_no_request_has_drops_the_connection_without_a_word() {
    let serving = serving().await;
    for length in [0, -1, i32::MIN, 8_388_609, i32::MAX] {
        let mut peer = serving.peer().await;
        peer.send(&length.to_be_bytes()).await;
        assert!(peer.is_closed().await, "{length}");
    }
    until(|| serving.server.metrics().dropped == 5).await;
    serving.peer().await.fence().await;
}

#[tokio::test]
async fn the_longest_request_is_served() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let mut body = vec![0; 8_388_608];
    body[..8].copy_from_slice(&[0, 9, 0, 1, 0, 0, 0, 7]);
    peer.send_frame(&body).await;
    assert_eq!(peer.answer().await, (7, Err(ErrorCode::UnsupportedVersion)));
    peer.fence().await;
}

#[tokio::test]
async fn requests_before_a_hostile_length_are_answered() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let mut sent = peer.produce_frame("t", 0, Acks::Forced, &[b"good"]).to_vec();
    sent.extend_from_slice(&[0xff; 100]);
    peer.send(&sent).await;
    assert!(peer.answer().await.1.is_ok());
    assert!(peer.is_closed().await);
}

#[tokio::test]
async fn an_end_between_requests_is_clean_and_within_one_is_not() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    peer.fence().await;
    drop(peer);
    until(|| serving.server.metrics().connections == 0).await;
    assert_eq!(serving.server.metrics().dropped, 0);
    let mut peer = serving.peer().await;
    peer.send(&[0, 0, 0, 9, 1, 2]).await;
    drop(peer);
    until(|| serving.server.metrics().dropped == 1).await;
}

#[tokio::test]
async fn a_client_that_says_no_more_gets_the_answers_that_are_due() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let frames: Vec<_> = (0..50).map(|_| peer.produce_frame("t", 0, Acks::Forced, &[b"x"])).collect();
    peer.send(&frames.concat()).await;
    tokio::io::AsyncWriteExt::shutdown(&mut peer.stream).await.unwrap();
    for _ in 0..50 {
        assert!(peer.answer().await.1.is_ok());
    }
    assert!(peer.is_closed().await);
}

#[tokio::test]
async fn a_client_that_stops_reading_is_dropped_and_holds_up_nobody() {
    let options = ServerOptions { write_stall: Duration::from_millis(300), ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let mut other = serving.peer().await;
    for _ in 0..4 {
        other.produce("t", 0, Acks::Written, &[&vec![7; 4 << 20]]).await.unwrap();
    }
    let mut stuck = serving.peer().await;
    for _ in 0..32 {
        stuck.ask("t", 0, Ask { max_bytes: 8 << 20, ..Ask::at(0) }).await;
    }
    until(|| serving.server.metrics().dropped == 1).await;
    other.fence().await;
}

#[tokio::test]
async fn a_client_that_reads_no_acknowledgements_is_bounded_and_dropped() {
    let options = ServerOptions { write_stall: Duration::from_millis(300), ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let address = serving.server.local_addr();
    let stuck = tokio::spawn(async move {
        let mut peer = Peer::connect(address).await;
        let frame = peer.produce_frame("t", 0, Acks::Written, &[b"x"]).repeat(2000);
        while tokio::io::AsyncWriteExt::write_all(&mut peer.stream, &frame).await.is_ok() {}
    });
    until(|| serving.server.metrics().dropped == 1).await;
    stuck.await.unwrap();
    serving.peer().await.fence().await;
}

#[tokio::test]
async fn a_request_that_makes_no_progress_is_dropped() {
    let options = ServerOptions { read_stall: Duration::from_millis(100), ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let mut peer = serving.peer().await;
    peer.send(&[0, 0, 1, 0, 0, 1]).await;
    assert!(peer.is_closed().await);
    assert_eq!(serving.server.metrics().dropped, 1);
}

#[tokio::test]
async fn random_bytes_do_no_harm() {
    let serving = serving().await;
    for seed in 0..64_u64 {
        let mut peer = serving.peer().await;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .take(300)
        .collect();
        peer.send_frame(&bytes).await;
        peer.answer().await.1.unwrap_err();
    }
    serving.peer().await.fence().await;
}
