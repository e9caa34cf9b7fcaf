//! Order, positions, starts and seeks.

use bytes::Bytes;

use super::super::{Memory, MemoryBackend, MemoryLimits};
use super::harness::{App, at, fill, group, record, settle, subscription, tp, wanted, write};
use crate::error::Kind;
use crate::message::{Headers, Timestamp};
use crate::topic::driver::{FEED_MAX_RECORDS, Membership, OutOfRange, Outgoing, SeekTo, Start, Subscription};

#[tokio::test]
async fn records_arrive_in_order_with_everything_that_was_written() {
    let backend = MemoryBackend::open(None);
    let full = Outgoing {
        key: Some(Bytes::from("k")),
        value: Some(Bytes::new()),
        headers: Headers::new().with("a", "1").with_null("b"),
        timestamp: Some(17),
        ..record(Some(2), "")
    };
    assert_eq!(write(&backend, full.clone()).unwrap().unwrap().offset, 0);
    let tombstone = Outgoing { value: None, ..record(Some(2), "") };
    assert_eq!(write(&backend, tombstone).unwrap().unwrap().offset, 1);

    let mut app = App::ready(&backend, group("g")).await;
    assert_eq!(app.lanes.len(), 4);
    let first = app.next(2).await;
    assert_eq!((first.key, first.value, first.offset), (full.key, full.value, 0));
    assert_eq!((first.headers, first.timestamp), (full.headers, Timestamp::Created(17)));
    let second = app.next(2).await;
    assert_eq!((second.value, second.offset), (None, 1));
    assert!(matches!(second.timestamp, Timestamp::Created(now) if now > 1_600_000_000_000));
    write(&backend, record(Some(2), "later"));
    assert_eq!(app.next(2).await.value.unwrap(), "later");
}

#[tokio::test]
async fn equal_keys_meet_in_the_partition_that_kafka_would_choose() {
    let backend = MemoryBackend::open(None);
    let keyed = |key: &'static str| Outgoing { key: Some(key.into()), ..record(None, "v") };
    // murmur2("21") is -973932308; without its sign, modulo 4, that is 0.
    let expected = 0x45f2_f8ec % 4;
    assert_eq!(write(&backend, keyed("21")).unwrap().unwrap().partition, expected);
    assert_eq!(write(&backend, keyed("21")).unwrap().unwrap().partition, expected);
}

#[tokio::test]
async fn a_committed_group_resumes_at_the_next_offset() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, 9);
    let mut app = App::ready(&backend, group("g")).await;
    assert_eq!(app.offsets(0, 7).await, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(app.lanes[&tp(0)].committed, None);
    app.commit(0, 7).await;
    app.driver.close().await.unwrap();
    app.commit(0, 9).await; // it has left: dropped

    let mut again = App::ready(&backend, group("g")).await;
    assert_eq!((again.from(0), again.lanes[&tp(0)].committed), (7, Some(7)));
    assert_eq!(again.offsets(0, 2).await, [7, 8]);
    let other = App::ready(&backend, group("other")).await;
    assert_eq!(other.from(0), 0);
}

#[tokio::test]
async fn latest_begins_behind_what_is_there_but_only_without_a_position() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, 3);
    let latest =
        Subscription { topics: vec![crate::topic::driver::Wanted { start: Start::Latest, ..wanted() }], ..group("g") };
    let mut app = App::ready(&backend, latest.clone()).await;
    fill(&backend, 0, 1);
    assert_eq!(app.offsets(0, 1).await, [3]);
    app.commit(0, 1).await;
    drop(app);
    assert_eq!(App::ready(&backend, latest).await.from(0), 1);
}

#[tokio::test]
async fn a_seek_goes_where_it_says_into_a_new_feed() {
    let backend = MemoryBackend::open(None);
    for millis in [10, 20, 30] {
        write(&backend, Outgoing { timestamp: Some(millis), ..record(Some(1), "x") });
    }
    let mut app = App::ready(&backend, group("g")).await;
    assert_eq!(app.offsets(1, 3).await, [0, 1, 2]);
    let targets = [
        (SeekTo::Beginning, 0),
        (SeekTo::End, 3),
        (SeekTo::Offset(3), 3),
        (SeekTo::Time(11), 1),
        (SeekTo::Time(31), 3),
    ];
    for (to, offset) in targets {
        assert_eq!(app.driver.resolve("t".into(), 1, to).await.unwrap(), offset, "{to:?}");
    }
    let old = std::sync::Arc::clone(&app.lanes[&tp(1)].feed);
    let assignment = app.driver.seek("t".into(), 1, 1).await.unwrap();
    assert_eq!((assignment.from, assignment.committed), (1, None));
    app.take(vec![assignment]);
    fill(&backend, 1, 1);
    assert_eq!(app.offsets(1, 3).await, [1, 2, 3]);
    assert_eq!(old.queue.len(), 0, "the old feed gets nothing more");
}

#[tokio::test]
async fn a_seek_outside_the_log_or_of_another_s_partition_is_refused() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, 1);
    let app = App::ready(&backend, group("g")).await;
    for offset in [-1, 2] {
        let error = app.driver.resolve("t".into(), 0, SeekTo::Offset(offset)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Seek);
        assert_eq!(app.driver.seek("t".into(), 0, offset).await.err().unwrap().kind(), Kind::Seek);
    }
    let elsewhere = app.driver.resolve("t".into(), 4, SeekTo::End).await.unwrap_err();
    assert_eq!(elsewhere.kind(), Kind::Seek);
    app.driver.close().await.unwrap();
    assert_eq!(app.driver.resolve("t".into(), 0, SeekTo::End).await.unwrap_err().kind(), Kind::Seek);
}

#[tokio::test]
async fn every_member_without_a_group_reads_everything_from_its_own_positions() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, 3);
    let everything = |positions| subscription(Membership::Everything(positions));
    let mut fresh = App::ready(&backend, everything(vec![])).await;
    let mut resumed = App::ready(&backend, everything(vec![at(0, 2).into()])).await;
    assert_eq!((fresh.lanes.len(), resumed.lanes.len()), (4, 4));
    assert_eq!(fresh.lanes[&tp(0)].committed, None);
    assert_eq!(resumed.lanes[&tp(0)].committed, Some(2));
    assert_eq!(fresh.offsets(0, 3).await, [0, 1, 2]);
    assert_eq!(resumed.offsets(0, 1).await, [2]);
}

#[tokio::test]
async fn a_position_beyond_the_end_stops_or_is_reset_once() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, 2);
    let app = App::ready(&backend, group("g")).await;
    app.commit(0, 9).await;
    drop(app);

    let mut stopped = App::start(&backend, group("g"));
    assert_eq!(stopped.failed().await.kind(), Kind::OutOfRange);
    assert!(stopped.events.recv().await.is_none(), "it has left");

    let mut policy = group("g");
    policy.topics[0].out_of_range = OutOfRange::Earliest;
    let reset = App::ready(&backend, policy).await;
    assert_eq!((reset.from(0), reset.lanes[&tp(0)].committed), (0, Some(9)));
    drop(reset);
    assert_eq!(App::ready(&backend, group("g")).await.lanes[&tp(0)].committed, Some(0));
}

#[tokio::test]
async fn a_feed_takes_no_more_than_its_bound_until_it_is_read() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, FEED_MAX_RECORDS + 1000);
    let mut app = App::ready(&backend, group("g")).await;
    settle().await;
    assert_eq!(app.lanes[&tp(0)].feed.queue.len(), FEED_MAX_RECORDS);
    let offsets = app.offsets(0, FEED_MAX_RECORDS + 1000).await;
    assert!(offsets.into_iter().eq((0..).take(FEED_MAX_RECORDS + 1000)));

    let large = Memory::unnamed(MemoryLimits::default().record_bytes(16 << 20));
    let backend = MemoryBackend::over(large);
    for _ in 0..3 {
        write(&backend, record(Some(0), &"x".repeat(5 << 20))).unwrap().unwrap();
    }
    let mut app = App::ready(&backend, group("g")).await;
    settle().await;
    assert_eq!(app.lanes[&tp(0)].feed.queue.len(), 1, "one larger record passes alone");
    assert_eq!(app.offsets(0, 3).await, [0, 1, 2]);
}

#[tokio::test]
async fn a_feed_that_was_closed_by_its_reader_does_not_keep_the_feeder_busy() {
    let backend = MemoryBackend::open(None);
    let mut app = App::ready(&backend, group("g")).await;
    app.lanes[&tp(0)].feed.queue.discard();
    fill(&backend, 0, 1);
    fill(&backend, 1, 1);
    assert_eq!(app.offsets(1, 1).await, [0]);
    settle().await;
    let again = app.driver.seek("t".into(), 0, 0).await.unwrap();
    app.take(vec![again]);
    assert_eq!(app.offsets(0, 1).await, [0]);
}

#[test]
fn reading_needs_a_runtime_and_says_so() {
    let backend = MemoryBackend::open(None);
    let (sender, _events) = tokio::sync::mpsc::channel(1);
    let error = crate::topic::driver::Backend::subscribe(&backend, group("g"), sender).err().unwrap();
    assert_eq!(error.kind(), Kind::Unsupported);
}
