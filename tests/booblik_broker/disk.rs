//! A disk that is full. Needs the right to mount a file system; without it the test says that it did not run.

use std::time::Duration;

use slipstream::booblik::broker::{Acks, AppendError, Broker, BrokerOptions, ServerOptions};
use slipstream::booblik::wire::{Acks as WireAcks, ErrorCode};
use slipstream::{Error, Kind};

use super::peer::{Ask, Peer};
use super::small::Small;
use super::support::until;

fn options() -> BrokerOptions {
    BrokerOptions { resume_every: Duration::from_millis(20), ..BrokerOptions::default() }
}

#[tokio::test]
async fn a_full_disk_is_answered_with_code_6_and_writing_resumes_by_itself() {
    let Some(small) = Small::mount(2) else { return };
    let broker = Broker::open(small.path(), options()).await.unwrap();
    broker.ensure_topic("t", 1).await.unwrap();
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
    let mut peer = Peer::connect(server.local_addr()).await;
    small.fill();

    let mut written = 0;
    let refused = loop {
        let record = [u8::try_from(written % 251).unwrap(); 10_000];
        match peer.produce("t", 0, WireAcks::Written, &[&record, &record]).await {
            Ok(produced) => assert_eq!(produced.base_offset, written),
            Err(code) => break code,
        }
        written += 2;
    };
    assert_eq!(refused, ErrorCode::PartitionUnavailable);
    assert!(written > 0);
    assert_eq!(broker.partition("t", 0).unwrap().high_watermark(), written, "nothing of the failed request is there");

    let health = broker.health();
    assert!(!health.ok);
    assert!(health.unavailable[0].reason.contains("No space left"), "{health:?}");
    assert!(broker.metrics()[0].failed_batches > 0 && !broker.metrics()[0].available);
    assert_eq!(peer.fetch("t", 0, Ask::at(0)).await.unwrap().records.len(), usize::try_from(written).unwrap());
    let error = broker.partition("t", 0).unwrap().append([[1; 10_000]], Acks::Written).await.unwrap_err();
    assert!(matches!(error, AppendError::Unavailable { disk_full: true, .. }));
    assert_eq!((Error::from(error.clone()).kind(), Error::from(error).is_retryable()), (Kind::DiskFull, true));

    small.make_room();
    broker.partition("t", 0).unwrap().available().await;
    assert!(broker.health().ok);
    let produced = peer.produce("t", 0, WireAcks::Forced, &[b"again"]).await.unwrap();
    assert_eq!(produced.base_offset, written, "the failed request took no offset");

    server.shutdown().await;
    broker.close().await.unwrap();
    let broker = Broker::open(small.path(), options()).await.unwrap();
    let partition = broker.partition("t", 0).unwrap();
    assert_eq!(partition.high_watermark(), written + 1);
    let batch = partition.read(0, 1 << 20).unwrap();
    assert!(batch.records().all(|record| record.check().is_ok()));
    drop((partition, broker));
}

#[tokio::test]
async fn requests_that_were_under_way_when_the_disk_filled_are_all_answered_in_order() {
    let Some(small) = Small::mount(2) else { return };
    let broker = Broker::open(small.path(), options()).await.unwrap();
    broker.ensure_topic("t", 1).await.unwrap();
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
    let mut peer = Peer::connect(server.local_addr()).await;
    small.fill();
    // What comes later may fail as one group.
    peer.produce("t", 0, WireAcks::Written, &[&[0; 10_000]]).await.unwrap();
    let mut sent = Vec::new();
    for number in 1..100_u8 {
        sent.extend_from_slice(&peer.produce_frame("t", 0, WireAcks::Written, &[&[number; 10_000]]));
    }
    peer.send(&sent).await;
    let mut acknowledged = vec![0];
    for number in 1..100_u8 {
        let (id, answer) = peer.answer().await;
        assert_eq!(id, 101 + i32::from(number));
        match answer {
            Ok(_) => acknowledged.push(number),
            Err(code) => assert_eq!(code, ErrorCode::PartitionUnavailable),
        }
    }
    assert!(acknowledged.len() < 100);
    let found: Vec<u8> = peer.values("t", 0, 0).await.iter().map(|value| value[0]).collect();
    assert_eq!(found, acknowledged, "what was acknowledged, and nothing else");
    server.shutdown().await;
    broker.close().await.unwrap();
}

#[tokio::test]
async fn a_new_segment_that_does_not_fit_takes_its_request_back_as_a_whole() {
    let Some(small) = Small::mount(2) else { return };
    let topic = slipstream::booblik::broker::TopicOptions { segment_bytes: 100_000, ..Default::default() };
    let broker = Broker::open(small.path(), BrokerOptions { default: topic, ..options() }).await.unwrap();
    broker.ensure_topic("t", 1).await.unwrap();
    let partition = broker.partition("t", 0).unwrap();
    partition.append([[1; 60_000]], Acks::Written).await.unwrap();
    small.fill();
    let records = vec![vec![2; 60_000]; 5];
    let error = partition.append(&records, Acks::Written).await.unwrap_err();
    assert!(matches!(error, AppendError::Unavailable { .. }));
    assert_eq!(partition.high_watermark(), 1);
    assert_eq!(broker.metrics()[0].segments, 1);
    small.make_room();
    until(|| broker.health().ok).await;
    assert_eq!(partition.append(&records, Acks::Forced).await.unwrap().end_offset, 6);
    assert_eq!(partition.read(5, 100_000).unwrap().next_offset, 6);
    drop((partition, broker));
}
