//! What becomes of records that are written.

use std::sync::Arc;

use super::*;
use crate::error::Kind;
use crate::flow::Tracker;

/// Murmur2 as Kafka's Java producer hashes keys.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(data.len()).unwrap();
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    for (index, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * index);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[tokio::test]
async fn a_key_goes_where_every_java_producer_puts_it() {
    // Vectors of Kafka's own tests.
    let known: [(&str, i32); 4] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("abc", 479_470_107),
    ];
    for (key, hash) in known {
        assert_eq!(murmur2(key.as_bytes()), u32::from_ne_bytes(hash.to_ne_bytes()), "{key}");
    }
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 7).await;
    let writer = backend.writer().unwrap();
    for key in ["", "a", "21", "foobar", "a-little-bit-long-string", "Größe", "key-1", "key-22"] {
        let mut record = record(&topic, 0, "v");
        (record.key, record.partition) = (Some(Bytes::from(key)), None);
        let receipt = write(&writer, record).await.await.unwrap();
        assert_eq!(receipt.partition.unsigned_abs(), (murmur2(key.as_bytes()) & 0x7fff_ffff) % 7, "{key:?}");
    }
}

#[tokio::test]
async fn a_record_that_is_too_large_fails_at_once_and_the_next_goes_through() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    let writer = backend.writer().unwrap();
    let error = write(&writer, record(&topic, 0, vec![0; 5_000_000])).await.await.unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge);
    assert!(error.to_string().contains(&*topic), "{error}");
    assert_eq!(write(&writer, record(&topic, 0, "next")).await.await.unwrap().offset, 0);
}

#[tokio::test]
async fn the_guard_of_a_unit_ends_when_the_broker_has_the_record() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    let writer = backend.writer().unwrap();
    let mut tracker = Tracker::new(8);
    for _ in 0..5 {
        assert!(writer.write(record(&topic, 0, "v"), Ack::Unit(tracker.guard())).is_ok());
        tracker.end_unit();
    }
    let unknown = record(&topic, 99, "v");
    assert!(writer.write(unknown, Ack::Unit(tracker.guard())).is_ok());
    tracker.end_unit();
    writer.flush(PATIENCE).await.unwrap();
    assert_eq!(tracker.scan(), 5);
    let error = tracker.take_failure().unwrap();
    assert_eq!(error.kind(), Kind::UnknownTopic, "{error}");
}

#[tokio::test]
async fn order_is_kept_through_a_full_queue() {
    let settings = [("queue.buffering.max.messages", "50"), ("linger.ms", "0")];
    let Some(backend) = backend(&settings) else { return };
    let topic = topic(&backend, 1).await;
    let writer = backend.writer().unwrap();
    let mut receipts = Vec::new();
    let mut refused = 0;
    for value in 0..2_000 {
        let (reply, receipt) = oneshot::channel();
        let mut next = Some((record(&topic, 0, value.to_string()), Ack::Reply(reply)));
        while let Some((record, ack)) = next.take() {
            if let Err(Refused::Full(record, ack, since)) = writer.write(record, ack) {
                refused += 1;
                next = Some((record, ack));
                soon("room", poll_fn(|cx| writer.poll_room(since, cx))).await;
            }
        }
        receipts.push(receipt);
    }
    assert!(refused > 0, "the queue was never full");
    for (value, receipt) in receipts.into_iter().enumerate() {
        assert_eq!(receipt.await.unwrap().unwrap().offset, i64::try_from(value).unwrap());
    }
}

#[tokio::test]
async fn a_topic_is_created_described_and_deleted() {
    let Some(backend) = backend(&[]) else { return };
    let manage = backend.manage().unwrap();
    let topic = topic(&backend, 2).await;
    fill(&backend, &topic, 1, 0..3).await;
    let found = manage.describe(Arc::clone(&topic)).await.unwrap().unwrap();
    assert_eq!((&*found.name, found.partitions), (&*topic, vec![(0, 0), (0, 3)]));
    assert!(manage.create(Arc::clone(&topic), 2).await.unwrap_err().to_string().contains("exists"));
    assert!(manage.create(unique("t"), 0).await.is_err());
    manage.delete(Arc::clone(&topic)).await.unwrap();
    soon("the end of the topic", async { while manage.describe(Arc::clone(&topic)).await.unwrap().is_some() {} }).await;
    let writer = backend.writer().unwrap();
    let missing = writer.prepare(Arc::clone(&topic), None).await.unwrap_err();
    assert_eq!(missing.kind(), Kind::UnknownTopic);
    writer.prepare(Arc::clone(&topic), Some(1)).await.unwrap();
    assert_eq!(write(&writer, record(&topic, 0, "v")).await.await.unwrap().offset, 0);
    let id = tokio::task::spawn_blocking(move || backend.cluster_id(PATIENCE)).await.unwrap();
    assert!(id.is_some_and(|id| !id.is_empty()));
}
