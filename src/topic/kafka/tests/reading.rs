//! Where reading begins and goes on.

use std::sync::Arc;

use rdkafka::admin::AdminOptions;
use rdkafka::{Offset, TopicPartitionList};

use super::*;
use crate::error::Kind;
use crate::message::Timestamp;
use crate::topic::driver::SeekTo;

type Payload = Option<&'static [u8]>;

/// Deletes the records before `offset`.
async fn truncate(backend: &KafkaBackend, topic: &Arc<str>, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    let admin = backend.admin.client().unwrap();
    let deleted = admin.delete_records(&list, &AdminOptions::new()).await.unwrap();
    deleted.elements().iter().for_each(|element| element.error().unwrap());
}

#[tokio::test]
async fn four_partitions_are_read_in_order_and_resumed_behind_what_was_committed() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 4).await;
    for partition in 0..4 {
        fill(&backend, &topic, partition, 0..100).await;
    }
    let group = unique("g");
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    member.assigned(4).await;
    for partition in 0..4 {
        assert_eq!(member.feeds[&partition].from, 0);
        assert_eq!(member.feeds[&partition].committed, None);
        let records = member.read(partition, 100).await;
        assert_eq!(offsets(&records), (0..100).collect::<Vec<_>>());
        assert_eq!(records[41].value.as_deref(), Some(&b"41"[..]));
    }
    member.driver.commit((0..4).map(|partition| position(&topic, partition, 7)).collect()).await.unwrap();
    // Lower than what is committed, and a partition that nobody has: both dropped.
    member.driver.commit(vec![position(&topic, 0, 3), position(&topic, 9, 3)]).await.unwrap();
    member.close().await;

    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    member.assigned(4).await;
    for partition in 0..4 {
        assert_eq!(member.feeds[&partition].committed, Some(7));
        assert_eq!(member.read(partition, 93).await[0].offset, 7);
    }
    member.close().await;
}

#[tokio::test]
async fn keys_values_and_headers_keep_null_and_empty_apart() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    let writer = backend.writer().unwrap();
    let cases: [(Payload, Payload); 6] = [
        (None, None),
        (Some(b""), Some(b"")),
        (Some(b"k"), None),
        (None, Some(b"v")),
        (Some(b"\xff\xfe"), Some(b"value")),
        (Some(b"k"), Some(b"")),
    ];
    let headers = Headers::new().with("a", "1").with_null("b").with("a", "").with("c", vec![0xff, 0x00]);
    for (key, value) in &cases {
        let mut record = record(&topic, 0, "");
        record.key = key.map(Bytes::copy_from_slice);
        record.value = value.map(Bytes::copy_from_slice);
        record.headers = headers.clone();
        record.timestamp = Some(1_700_000_000_123);
        write(&writer, record).await.await.unwrap();
    }
    write(&writer, record(&topic, 0, "bare")).await.await.unwrap();
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    let records = member.read(0, cases.len() + 1).await;
    for (record, (key, value)) in records.iter().zip(&cases) {
        assert_eq!((record.key.as_deref(), record.value.as_deref()), (*key, *value));
        assert_eq!(record.headers, headers);
        assert_eq!(record.timestamp, Timestamp::Created(1_700_000_000_123));
    }
    assert!(records[cases.len()].headers.is_empty());
    assert!(matches!(records[cases.len()].timestamp, Timestamp::Created(_)));
    member.close().await;
}

#[tokio::test]
async fn latest_begins_behind_what_is_there() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..5).await;
    let latest = Wanted { start: Start::Latest, ..wanted(&topic) };
    let mut member = Member::join(&backend, in_group(vec![latest], &unique("g")));
    member.assigned(1).await;
    assert_eq!((member.feeds[&0].from, member.feeds[&0].committed), (5, None));
    fill(&backend, &topic, 0, 5..6).await;
    assert_eq!(offsets(&member.read(0, 1).await), [5]);
    member.close().await;
}

#[tokio::test]
async fn a_position_that_was_deleted_follows_the_policy() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..20).await;
    let group = unique("g");
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    member.assigned(1).await;
    member.driver.commit(vec![position(&topic, 0, 3)]).await.unwrap();
    member.close().await;
    truncate(&backend, &topic, 8).await;

    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    let failed = loop {
        match member.event().await {
            Event::Failed(error) => break error,
            Event::Notice { .. } => {}
            _ => panic!("reads on"),
        }
    };
    assert_eq!(failed.kind(), Kind::OutOfRange);
    assert!(failed.to_string().contains("5 records were deleted unread"), "{failed}");
    member.close().await;

    for (policy, from) in [(OutOfRange::Earliest, 8), (OutOfRange::Latest, 20)] {
        let wanted = Wanted { out_of_range: policy, ..wanted(&topic) };
        let mut member = Member::join(&backend, in_group(vec![wanted], &group));
        member.assigned(1).await;
        assert_eq!((member.feeds[&0].from, member.feeds[&0].committed), (from, None));
        member.close().await;
    }
}

#[tokio::test]
async fn a_seek_goes_back_and_forth_without_stale_records() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..20_000).await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    member.read(0, 1).await;
    for target in [19_990, 5, 12_000, 0, 19_000, 3] {
        let old = Arc::clone(&member.feeds[&0].feed);
        let new = member.driver.seek(Arc::clone(&topic), 0, target).await.unwrap();
        assert_eq!(new.from, target);
        let records = read(&new.feed, 10).await;
        assert_eq!(offsets(&records[..10]), (target..target + 10).collect::<Vec<_>>());
        assert!(!Arc::ptr_eq(&old, &new.feed));
        member.feeds.insert(0, new);
    }
    member.close().await;
}

/// As lanes do when they end for a seek or a rewind.
#[tokio::test]
async fn a_partition_whose_feed_was_closed_is_still_ours_to_seek() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..20_000).await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    for target in 0..50 {
        member.feeds[&0].feed.queue.discard();
        tokio::task::yield_now().await;
        let new = member.driver.seek(Arc::clone(&topic), 0, target).await.unwrap();
        let records = read(&new.feed, 10).await;
        assert_eq!(offsets(&records[..10]), (target..target + 10).collect::<Vec<_>>());
        member.feeds.insert(0, new);
    }
    member.close().await;
}

#[tokio::test]
async fn the_target_of_a_seek_is_checked_before_anything_moves() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    let writer = backend.writer().unwrap();
    for second in 0..10 {
        let mut record = record(&topic, 0, "x");
        record.timestamp = Some(1_700_000_000_000 + second * 1000);
        write(&writer, record).await.await.unwrap();
    }
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    let resolve = |partition, to| member.driver.resolve(Arc::clone(&topic), partition, to);
    assert_eq!(resolve(0, SeekTo::Beginning).await.unwrap(), 0);
    assert_eq!(resolve(0, SeekTo::End).await.unwrap(), 10);
    assert_eq!(resolve(0, SeekTo::Offset(10)).await.unwrap(), 10);
    assert_eq!(resolve(0, SeekTo::Time(1_700_000_004_001)).await.unwrap(), 5);
    assert_eq!(resolve(0, SeekTo::Time(1_900_000_000_000)).await.unwrap(), 10);
    assert_eq!(resolve(0, SeekTo::Time(0)).await.unwrap(), 0);
    for (partition, to) in [(0, SeekTo::Offset(-1)), (0, SeekTo::Offset(11)), (0, SeekTo::Time(-5)), (1, SeekTo::End)] {
        assert_eq!(resolve(partition, to).await.unwrap_err().kind(), Kind::Seek, "{to:?}");
    }
    let not_ours = member.driver.seek(Arc::clone(&topic), 1, 0).await;
    assert_eq!(not_ours.err().map(|error| error.kind()), Some(Kind::Seek));
    member.close().await;
}

#[tokio::test]
async fn a_full_feed_stops_its_partition_alone_and_nothing_is_lost() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 2).await;
    fill(&backend, &topic, 0, 0..30_000).await;
    fill(&backend, &topic, 1, 0..30_000).await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(2).await;
    // Nobody reads partition 0 meanwhile.
    assert_eq!(member.read(1, 30_000).await.len(), 30_000);
    let waiting = member.feeds[&0].feed.queue.len();
    assert!(waiting <= crate::topic::driver::FEED_MAX_RECORDS + super::super::part::VISIT_MAX_RECORDS, "{waiting}");
    let records = member.read(0, 30_000).await;
    assert_eq!(offsets(&records), (0..30_000).collect::<Vec<_>>());
    member.close().await;
}

#[tokio::test]
async fn a_log_that_moves_away_under_its_reader_follows_the_policy() {
    // One small fetch at a time, so that what is deleted was not fetched before.
    let settings = [("queued.min.messages", "1"), ("fetch.message.max.bytes", "1000")];
    for policy in [OutOfRange::Stop, OutOfRange::Earliest] {
        let Some(backend) = backend(&settings) else { return };
        let topic = topic(&backend, 1).await;
        fill(&backend, &topic, 0, 0..30_000).await;
        let wanted = Wanted { out_of_range: policy, ..wanted(&topic) };
        let mut member = Member::join(&backend, in_group(vec![wanted], &unique("g")));
        member.assigned(1).await;
        member.read(0, 1).await;
        truncate(&backend, &topic, 29_990).await;
        if policy == OutOfRange::Earliest {
            let mut last = 0;
            while last < 29_999 {
                last = member.read(0, 1).await.pop().unwrap().offset;
            }
        } else {
            // Takes what was fetched before, so that the next fetch is made.
            let feed = Arc::clone(&member.feeds[&0].feed);
            let reads = tokio::spawn(async move {
                let mut batch = VecDeque::new();
                while poll_fn(|cx| feed.queue.poll_take(&mut batch, cx)).await {
                    batch.clear();
                }
            });
            let Event::Failed(error) = member.event().await else { panic!("goes on") };
            assert_eq!(error.kind(), Kind::OutOfRange);
            assert!(error.to_string().contains("were deleted unread"), "{error}");
            reads.abort();
        }
        member.close().await;
    }
}
