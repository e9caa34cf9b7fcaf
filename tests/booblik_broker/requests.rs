//! Every rule for requests, and that a refusal leaves the connection usable.

use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use slipstream::booblik::wire::{Acks, ErrorCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::peer::{Ask, Peer, put_place};
use super::support::{Serving, serving, serving_with, small_segments};
use slipstream::booblik::broker::{BrokerOptions, ServerOptions};

const RECORD: &[&[u8]] = &[b"x"];

fn header(key: i16, version: i16, id: i32) -> BytesMut {
    let mut body = BytesMut::new();
    body.put_i16(key);
    body.put_i16(version);
    body.put_i32(id);
    body
}

fn produce(topic: &str, partition: i32, acks: u8, rest: &[u8]) -> BytesMut {
    let mut body = header(1, 1, 7);
    put_place(&mut body, topic, partition);
    body.put_u8(acks);
    body.put_slice(rest);
    body
}

fn fetch(partition: i32, offset: i64, max_bytes: i32, wait: i32, min_bytes: i32) -> BytesMut {
    let mut body = header(2, 2, 7);
    put_place(&mut body, "t", partition);
    body.put_i64(offset);
    body.put_i32(max_bytes);
    body.put_i32(wait);
    body.put_i32(min_bytes);
    body
}

/// Sends `body`, expects `code` with id 7, and that the connection goes on.
async fn refused(peer: &mut Peer, body: &[u8], code: ErrorCode) {
    peer.send_frame(body).await;
    assert_eq!(peer.answer().await, (7, Err(code)), "{body:?}");
    peer.fence().await;
}

#[tokio::test]
async fn the_frames_of_the_appendix_are_answered_as_it_says() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    serving.broker.ensure_topic("ab", 4).await.unwrap();
    let produce = [
        0, 0, 0, 0x21, 0, 1, 0, 1, 0, 0, 0, 7, 0, 2, b'a', b'b', 0, 0, 0, 3, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 0, 0, 0,
        2, 0x7f, 0x80,
    ];
    peer.send(&produce).await;
    let (id, answer) = peer.answer().await;
    assert_eq!((id, answer.unwrap().to_vec()), (7, vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]));
    assert_eq!(peer.values("ab", 3, 0).await, [vec![1, 2], vec![0x7f, 0x80]]);
}

#[tokio::test]
async fn frames_of_less_than_a_header_are_answered_with_id_0() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    for length in 1..8 {
        peer.send_frame(&[0xff, 1, 0, 1, 9, 9, 9][..length]).await;
        assert_eq!(peer.answer().await, (0, Err(ErrorCode::CorruptRequest)));
    }
    peer.fence().await;
}

#[tokio::test]
async fn keys_and_versions_that_are_not_known_are_refused_before_the_body_is_looked_at() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    for (key, version) in [(0, 1), (4, 1), (-1, 1), (1, 0), (1, 2), (2, 0), (2, 3), (3, 0), (3, 2)] {
        refused(&mut peer, &header(key, version, 7), ErrorCode::UnsupportedVersion).await;
    }
}

#[tokio::test]
async fn a_produce_that_breaks_a_rule_is_corrupt_even_for_a_topic_that_is_not_there() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let one = [0, 0, 0, 1, 0, 0, 0, 1, b'x'];
    for body in [
        produce("", 0, 1, &one),
        produce("a/b", 0, 1, &one),
        produce("Ж", 0, 1, &one),
        produce(&"x".repeat(250), 0, 1, &one),
        produce("missing", -1, 1, &one),
        produce("missing", 0, 3, &one),
        produce("missing", 0, 1, &[0, 0, 0, 0]),
        produce("missing", 0, 1, &[0xff, 0xff, 0xff, 0xff]),
        produce("missing", 0, 1, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'x']),
        produce("missing", 0, 1, &[0, 0, 0, 1, 0, 0, 0, 0]),
        produce("missing", 0, 1, &[0, 0, 0, 1, 0, 0, 0, 2, b'x']),
        produce("missing", 0, 1, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'x']),
        produce("t", 0, 1, &[0, 0, 0, 2, 0, 0, 0, 1, b'x', 0, 0, 0, 0]),
        produce("t", 0, 1, &[]),
    ] {
        refused(&mut peer, &body, ErrorCode::CorruptRequest).await;
    }
    for (topic, partition) in [("missing", 0), ("t", 2)] {
        refused(&mut peer, &produce(topic, partition, 1, &one), ErrorCode::UnknownTopicOrPartition).await;
    }
    assert_eq!(serving.broker.partition("t", 0).unwrap().high_watermark(), 0);
}

#[tokio::test]
async fn a_fetch_that_breaks_a_rule_is_corrupt() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    for body in [
        fetch(-1, 0, 1, 0, 0),
        fetch(0, -1, 1, 0, 0),
        fetch(0, 0, 0, 0, 0),
        fetch(0, 0, -1, 0, 0),
        fetch(0, 0, 1, -1, 0),
        fetch(0, 0, 1, 0, -1),
        fetch(0, 0, 1, 0, 2),
    ] {
        refused(&mut peer, &body, ErrorCode::CorruptRequest).await;
        refused(&mut peer, &body[..body.len() - 1], ErrorCode::CorruptRequest).await;
    }
    refused(&mut peer, &fetch(9, 0, 1, 0, 1), ErrorCode::UnknownTopicOrPartition).await;
}

#[tokio::test]
async fn version_1_of_fetch_and_trailing_bytes_are_served() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let mut body = produce("t", 0, 1, &[0, 0, 0, 1, 0, 0, 0, 1, b'x']);
    body.put_slice(b"and more");
    peer.send_frame(&body).await;
    assert!(peer.answer().await.1.is_ok());

    let mut body = header(2, 1, 8);
    put_place(&mut body, "t", 0);
    body.put_i64(0);
    body.put_i32(100);
    peer.send_frame(&body).await;
    let (id, answer) = peer.answer().await;
    let expected =
        [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1][..], &crc32c::crc32c(b"x").to_be_bytes(), b"x"].concat();
    assert_eq!((id, answer.unwrap().to_vec()), (8, expected));
}

#[tokio::test]
async fn a_record_that_fits_no_segment_refuses_its_whole_request() {
    let serving = serving_with(small_segments(), ServerOptions::default()).await;
    let mut peer = serving.peer().await;
    let large = vec![1; 1017];
    let answer = peer.produce("t", 0, Acks::Written, &[b"small", &large]).await;
    assert_eq!(answer, Err(ErrorCode::RecordTooLarge));
    assert_eq!(peer.produce("t", 0, Acks::Written, &[&large[1..]]).await.unwrap().base_offset, 0);
}

#[tokio::test]
async fn what_asks_for_no_answer_gets_none_whatever_is_wrong_with_it() {
    let serving = serving_with(small_segments(), ServerOptions::default()).await;
    let mut peer = serving.peer().await;
    let one = [0, 0, 0, 1, 0, 0, 0, 1, b'x'];
    peer.send_frame(&produce("missing", 0, 0, &one)).await;
    peer.send_frame(&produce("t", 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])).await;
    peer.send_frame(&produce("t", 0, 0, &[0, 0, 0, 0])).await;
    let frame = peer.produce_frame("t", 0, Acks::None, &[&[1; 1017]]);
    peer.send(&frame).await;
    let frame = peer.produce_frame("t", 0, Acks::None, RECORD);
    peer.send(&frame).await;
    peer.fence().await;
    let produced = peer.produce("t", 0, Acks::Written, RECORD).await.unwrap();
    assert_eq!((produced.base_offset, produced.log_end_offset), (1, 2));
    assert_eq!(serving.server.metrics().silent_errors, 4);
}

#[tokio::test]
async fn metadata_comes_by_name_each_topic_once_and_all_or_nothing() {
    let serving = serving().await;
    serving.broker.ensure_topic("b", 1).await.unwrap();
    serving.broker.ensure_topic("a", 3).await.unwrap();
    let mut peer = serving.peer().await;
    let names = |topics: &[slipstream::booblik::wire::TopicInfo]| -> Vec<(String, usize)> {
        topics.iter().map(|topic| (topic.name.clone(), topic.partitions.len())).collect()
    };
    let all = peer.metadata(&[]).await.unwrap();
    assert_eq!(names(&all), [("a".into(), 3), ("b".into(), 1), ("t".into(), 2)]);
    let some = peer.metadata(&["t", "a", "t"]).await.unwrap();
    assert_eq!(names(&some), [("a".into(), 3), ("t".into(), 2)]);
    assert_eq!(peer.metadata(&["t", "missing"]).await, Err(ErrorCode::UnknownTopicOrPartition));

    peer.produce("t", 1, Acks::Written, &[b"x", b"y"]).await.unwrap();
    let topics = peer.metadata(&["t"]).await.unwrap();
    let marks: Vec<_> =
        topics[0].partitions.iter().map(|partition| (partition.partition, partition.high_watermark)).collect();
    assert_eq!(marks, [(0, 0), (1, 2)]);
}

#[tokio::test]
async fn answers_come_in_order_however_much_is_under_way() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let mut sent = BytesMut::new();
    for number in 0..500 {
        let acks = if number % 50 == 0 { Acks::Forced } else { Acks::Written };
        sent.extend_from_slice(&peer.produce_frame("t", number % 2, acks, &[&number.to_be_bytes()]));
        if number % 100 == 0 {
            sent.extend_from_slice(&peer.produce_frame("missing", 0, Acks::Written, RECORD));
        }
    }
    peer.send(&sent).await;
    let (mut id, mut answers) = (100, Vec::new());
    for _ in 0..505 {
        id += 1;
        let (answered, answer) = peer.answer().await;
        assert_eq!(answered, id);
        answers.push(answer.is_ok());
    }
    assert_eq!(answers.iter().filter(|ok| **ok).count(), 500);
    let odd: Vec<Vec<u8>> =
        (0..500_i32).filter(|number| number % 2 == 1).map(|number| number.to_be_bytes().to_vec()).collect();
    assert_eq!(peer.values("t", 1, 0).await, odd, "the log has the order of the requests");
}

#[tokio::test]
async fn a_fetch_behind_a_produce_sees_its_records() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let frame = peer.produce_frame("t", 0, Acks::Forced, &[b"mine"]);
    peer.send(&frame).await;
    peer.ask("t", 0, Ask::at(0)).await;
    assert_eq!(peer.answer().await.0, 101);
    assert_eq!(peer.fetched(0).await.unwrap().records.values().collect::<Vec<_>>(), [b"mine"]);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart_and_in_the_file_as_it_is_fetched() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    peer.produce("t", 0, Acks::Forced, &[b"one", b"two"]).await.unwrap();
    let file = std::fs::read(serving.segment(0)).unwrap();
    peer.ask("t", 0, Ask::at(0)).await;
    assert_eq!(peer.answer().await.1.unwrap()[12..], file);
    let directory = serving.stop().await;

    let broker = slipstream::booblik::broker::Broker::open(directory.path(), BrokerOptions::default()).await.unwrap();
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
    let serving = Serving { broker, server, directory };
    let mut peer = serving.peer().await;
    assert_eq!(peer.values("t", 0, 0).await, [b"one", b"two"]);
    assert_eq!(peer.produce("t", 0, Acks::Written, &[b"three"]).await.unwrap().base_offset, 2);
}

#[tokio::test]
async fn a_group_with_forced_requests_waits_for_the_disk_once() {
    let serving = serving().await;
    let mut peer = serving.peer().await;
    let mut sent = BytesMut::new();
    for _ in 0..200 {
        sent.extend_from_slice(&peer.produce_frame("t", 0, Acks::Forced, RECORD));
    }
    peer.send(&sent).await;
    for _ in 0..200 {
        assert!(peer.answer().await.1.is_ok());
    }
    let metrics = serving.broker.metrics().into_iter().find(|metrics| metrics.partition == 0).unwrap();
    assert_eq!(metrics.barriers, metrics.groups);
    assert!(metrics.groups < 200, "requests of one connection share groups: {}", metrics.groups);
    assert_eq!(metrics.synced, 200);
}

#[tokio::test]
async fn a_stop_takes_no_answer_from_a_client_that_goes_on_sending_and_reads_slowly() {
    let options = ServerOptions { drain: Duration::from_mins(1), ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let mut peer = serving.peer().await;
    let frame = peer.produce_frame("t", 0, Acks::Written, &[b"x"]);
    let (mut incoming, mut outgoing) = peer.stream.into_split();
    let sending = tokio::spawn(async move {
        let many = frame.repeat(100);
        while outgoing.write_all(&many).await.is_ok() {}
    });
    let partition = serving.broker.partition("t", 0).unwrap();
    // More than its answers' way has room for.
    partition.watch().wait_for(|end| *end > 50_000).await.unwrap();
    let stopping = tokio::spawn(serving.server.shutdown());
    let (mut answers, mut bytes) = (0, vec![0; 64 << 10]);
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        match tokio::time::timeout(Duration::from_secs(30), incoming.read(&mut bytes)).await.unwrap() {
            Ok(0) => break,
            read => answers += read.expect("an end, and no reset"),
        }
    }
    sending.abort();
    stopping.await.unwrap();
    assert_eq!(answers as i64, partition.high_watermark() * 26);
}
