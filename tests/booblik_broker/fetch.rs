//! What a fetch gives, and when one that waits is answered.

use std::time::{Duration, Instant};

use slipstream::booblik::broker::{BrokerOptions, ServerOptions, TopicOptions};
use slipstream::booblik::wire::{Acks, Ending, ErrorCode};

use super::peer::Ask;
use super::support::{serving, serving_with, small_segments, until};

/// A wait that no test sits through.
const LONG: i32 = 50_000;

#[tokio::test]
async fn an_answer_does_not_cross_a_segment() {
    let serving = serving_with(small_segments(), ServerOptions::default()).await;
    let mut peer = serving.peer().await;
    let record = [7; 200];
    peer.produce("t", 0, Acks::Written, &[&record[..]; 12]).await.unwrap();
    for offset in [0, 4, 8] {
        assert_eq!(peer.values("t", 0, offset).await.len(), 4, "at {offset}");
    }
    assert_eq!(peer.values("t", 0, 6).await.len(), 2);
    assert_eq!(serving.broker.metrics()[0].segments, 3);
}

#[tokio::test]
async fn at_the_high_watermark_there_is_nothing_and_beyond_it_an_error() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    peer.produce("t", 0, Acks::Written, &[b"x"]).await.unwrap();
    let fetched = peer.fetch("t", 0, Ask::at(1)).await.unwrap();
    assert_eq!((fetched.high_watermark, fetched.records.len()), (1, 0));
    assert_eq!(peer.fetch("t", 0, Ask::at(2)).await, Err(ErrorCode::OffsetOutOfRange));
    let started = Instant::now();
    assert_eq!(peer.fetch("t", 0, Ask::at(2).wait(LONG)).await, Err(ErrorCode::OffsetOutOfRange));
    assert!(started.elapsed() < Duration::from_secs(20), "refused at once, not after the wait");
}

#[tokio::test]
async fn an_answer_is_cut_at_a_number_of_bytes() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    peer.produce("t", 0, Acks::Written, &[&[1; 100], &[2; 100], &[3; 100]]).await.unwrap();
    let cut = peer.fetch("t", 0, Ask { max_bytes: 150, ..Ask::at(0) }).await.unwrap();
    assert_eq!((cut.records.len(), cut.ending), (1, Ending::Cut { record_bytes: 100 }));
    let header = peer.fetch("t", 0, Ask { max_bytes: 111, ..Ask::at(0) }).await.unwrap();
    assert_eq!((header.records.len(), header.ending), (1, Ending::Cut { record_bytes: 0 }));
    let none = peer.fetch("t", 0, Ask { max_bytes: 1, ..Ask::at(0) }).await.unwrap();
    assert_eq!(none.records.len(), 0);
}

#[tokio::test]
async fn an_answer_fits_the_frames_that_clients_accept() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let record = vec![7; 3 << 20];
    for _ in 0..4 {
        peer.produce("t", 0, Acks::Written, &[&record]).await.unwrap();
    }
    peer.ask("t", 0, Ask { max_bytes: i32::MAX, ..Ask::at(0) }).await;
    assert_eq!(peer.answer().await.1.unwrap().len(), (8 << 20) - 6);
}

#[tokio::test]
async fn the_largest_record_can_be_written_and_read_back() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let largest = vec![7; 8_388_582];
    peer.produce("t", 0, Acks::Written, &[&largest]).await.unwrap();
    let fetched = peer.fetch("t", 0, Ask { max_bytes: i32::MAX, ..Ask::at(0) }).await.unwrap();
    assert_eq!((fetched.records.len(), fetched.ending), (1, Ending::Whole));

    let unreadable = vec![7; 8_388_583];
    assert_eq!(peer.produce("t", 0, Acks::Written, &[&unreadable]).await, Err(ErrorCode::RecordTooLarge));
}

#[tokio::test]
async fn a_wait_without_records_ends_empty() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let started = Instant::now();
    let fetched = peer.fetch("t", 0, Ask::at(0).wait(300)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(fetched.records.len(), 0);
    assert_eq!(serving.server.metrics().held, 0);
}

#[tokio::test]
async fn a_record_ends_a_wait() {
    let serving = serving().await;
    let (mut reader, mut writer) = (serving.peer().await, serving.peer().await);
    reader.ask("t", 0, Ask::at(0).wait(LONG)).await;
    until(|| serving.server.metrics().held == 1).await;
    writer.produce("t", 1, Acks::Written, &[b"elsewhere"]).await.unwrap();
    assert_eq!(serving.server.metrics().held, 1);
    writer.produce("t", 0, Acks::Written, &[b"here"]).await.unwrap();
    assert_eq!(reader.fetched(0).await.unwrap().records.len(), 1);
    until(|| serving.server.metrics().held == 0).await;
}

#[tokio::test]
async fn a_wait_goes_on_until_there_is_as_much_as_was_asked_for() {
    let serving = serving().await;
    let (mut reader, mut writer) = (serving.peer().await, serving.peer().await);
    reader.ask("t", 0, Ask { min_bytes: 20, ..Ask::at(0).wait(LONG) }).await;
    until(|| serving.server.metrics().held == 1).await;
    writer.produce("t", 0, Acks::Written, &[b"one"]).await.unwrap();
    writer.fence().await;
    assert_eq!(serving.server.metrics().held, 1, "11 bytes are not 20");
    writer.produce("t", 0, Acks::Written, &[b"two"]).await.unwrap();
    assert_eq!(reader.fetched(0).await.unwrap().records.len(), 2);
}

#[tokio::test]
async fn a_wait_ends_with_its_segment() {
    let serving = serving_with(small_segments(), ServerOptions::default()).await;
    let (mut reader, mut writer) = (serving.peer().await, serving.peer().await);
    reader.ask("t", 0, Ask { min_bytes: 1000, ..Ask::at(0).wait(LONG) }).await;
    until(|| serving.server.metrics().held == 1).await;
    writer.produce("t", 0, Acks::Written, &[&[1; 600]]).await.unwrap();
    writer.fence().await;
    assert_eq!(serving.server.metrics().held, 1);
    writer.produce("t", 0, Acks::Written, &[&[2; 600]]).await.unwrap();
    assert_eq!(reader.fetched(0).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn a_fetch_that_waits_holds_its_own_connection_only() {
    let serving = serving().await;
    let (mut reader, mut other) = (serving.peer().await, serving.peer().await);
    reader.ask("t", 0, Ask::at(0).wait(LONG)).await;
    let behind = reader.produce_frame("t", 1, Acks::Written, &[b"behind"]);
    reader.send(&behind).await;
    until(|| serving.server.metrics().held == 1).await;
    other.fence().await;
    assert_eq!(serving.broker.partition("t", 1).unwrap().high_watermark(), 0, "it waits its turn");
    other.produce("t", 0, Acks::Written, &[b"x"]).await.unwrap();
    assert!(reader.answer().await.1.is_ok());
    assert!(reader.answer().await.1.is_ok());
    assert_eq!(serving.broker.partition("t", 1).unwrap().high_watermark(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_wait() {
    let serving = serving().await;
    let mut reader = serving.peer().await;
    reader.ask("t", 0, Ask::at(0).wait(i32::MAX)).await;
    until(|| serving.server.metrics().held == 1).await;
    drop(reader);
    until(|| serving.server.metrics().held == 0).await;
    until(|| serving.server.metrics().connections == 0).await;
    assert_eq!(serving.server.metrics().dropped, 0);
}

#[tokio::test]
async fn a_shutdown_answers_a_fetch_that_waits() {
    let serving = serving().await;
    let mut reader = serving.peer().await;
    reader.ask("t", 0, Ask::at(0).wait(i32::MAX)).await;
    until(|| serving.server.metrics().held == 1).await;
    serving.server.shutdown().await;
    assert_eq!(reader.fetched(0).await.unwrap().records.len(), 0);
    assert!(reader.is_closed().await);
}

#[tokio::test]
async fn retention_moves_the_start_and_overtakes_a_reader() {
    let topic = TopicOptions { segment_bytes: 1024, retention_bytes: Some(1500), ..TopicOptions::default() };
    let check = Duration::from_millis(20);
    let options = BrokerOptions { default: topic, retention_check: check, ..BrokerOptions::default() };
    let serving = serving_with(options, ServerOptions::default()).await;
    let mut peer = serving.peer().await;
    let partition = serving.broker.partition("t", 0).unwrap();
    peer.produce("t", 0, Acks::Written, &[&[7; 200][..]; 4]).await.unwrap();
    // Four records fill the first segment: a reader that wants more than is left of it gets what there is.
    peer.ask("t", 0, Ask { min_bytes: 900, ..Ask::at(0).wait(LONG) }).await;
    until(|| serving.server.metrics().held == 1).await;
    partition.append(vec![[7; 200]; 16], Acks::Written).await.unwrap();
    let overtaken = peer.fetched(0).await;
    assert!(matches!(&overtaken, Err(ErrorCode::OffsetOutOfRange)) || overtaken.unwrap().records.len() == 4);
    until(|| partition.log_start() > 0).await;
    let start = partition.log_start();
    assert_eq!(peer.fetch("t", 0, Ask::at(start - 1)).await, Err(ErrorCode::OffsetOutOfRange));
    assert!(peer.fetch("t", 0, Ask::at(start)).await.is_ok());
    assert_eq!(partition.next_readable(0), start);
    assert!(!serving.segment(0).exists());
}
