use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::booblik::wire::Acks;

use super::super::{AppendError, Broker, BrokerOptions, Done, Partition, TopicOptions};
use super::open;

async fn partition(broker: &Broker) -> Partition {
    broker.ensure_topic("t", 1).await.unwrap();
    broker.partition("t", 0).unwrap()
}

fn with(topic: TopicOptions) -> BrokerOptions {
    BrokerOptions { default: topic, ..BrokerOptions::default() }
}

#[tokio::test]
async fn an_append_whose_future_is_dropped_is_written_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(&dir).await;
    let partition = partition(&broker).await;
    for _ in 0..100 {
        let append = partition.append(["x"], Acks::Forced);
        // Polled once: it is handed over, and not yet acknowledged.
        assert!(futures::FutureExt::now_or_never(append).is_none());
    }
    partition.append(["last"], Acks::Written).await.unwrap();
    assert_eq!(partition.high_watermark(), 101);
}

#[tokio::test]
async fn what_asks_for_no_acknowledgement_is_told_at_once_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(&dir).await;
    let partition = partition(&broker).await;
    assert_eq!(partition.append(["x"], Acks::None).await.unwrap().base_offset, -1);
    partition.watch().wait_for(|end| *end == 1).await.unwrap();
}

#[tokio::test]
async fn closing_writes_what_was_submitted_and_tells_everyone() {
    let dir = tempfile::tempdir().unwrap();
    let options = BrokerOptions { gather: Duration::from_mins(1), ..BrokerOptions::default() };
    let broker = Broker::open(dir.path(), options.clone()).await.unwrap();
    let partition = partition(&broker).await;
    let told = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let told = Arc::clone(&told);
        let done = Done::call(move |outcome| {
            outcome.unwrap();
            told.fetch_add(1, Ordering::Relaxed);
        });
        partition.submit(["x"], Acks::Written, done).unwrap();
    }
    assert_eq!(partition.high_watermark(), 0, "still gathering");
    drop(broker);
    assert_eq!((told.load(Ordering::Relaxed), partition.high_watermark()), (10, 10));
    assert_eq!(partition.submit(["x"], Acks::Written, Done::Nobody), Err(AppendError::Closed));
}

#[tokio::test]
async fn one_who_panics_when_told_keeps_nobody_from_being_told() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(&dir).await;
    let partition = partition(&broker).await;
    partition.submit(["x"], Acks::Written, Done::call(|_| panic!("told"))).unwrap();
    assert_eq!(partition.append(["y"], Acks::Written).await.unwrap().base_offset, 1);
    assert_eq!(partition.append(["z"], Acks::Written).await.unwrap().base_offset, 2);
}

#[tokio::test]
async fn hurry_ends_the_gathering() {
    let dir = tempfile::tempdir().unwrap();
    let options = BrokerOptions { gather: Duration::from_mins(1), ..BrokerOptions::default() };
    let broker = Broker::open(dir.path(), options).await.unwrap();
    let partition = partition(&broker).await;
    partition.submit(["x"], Acks::Written, Done::Nobody).unwrap();
    partition.hurry();
    partition.watch().wait_for(|end| *end == 1).await.unwrap();
}

#[tokio::test]
async fn a_full_queue_takes_nothing_and_has_room_when_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let options = BrokerOptions { gather: Duration::from_mins(1), queue_records: 3, ..BrokerOptions::default() };
    let broker = Broker::open(dir.path(), options).await.unwrap();
    let partition = partition(&broker).await;
    for _ in 0..3 {
        partition.submit(["x"], Acks::Written, Done::Nobody).unwrap();
    }
    assert_eq!(partition.submit(["x"], Acks::Written, Done::Nobody), Err(AppendError::Full));
    partition.hurry();
    partition.room().await;
    partition.submit(["x"], Acks::Written, Done::Nobody).unwrap();
}

#[tokio::test]
async fn forced_covers_a_roll_and_syncing_costs_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let broker =
        Broker::open(dir.path(), with(TopicOptions { segment_bytes: 1024, ..TopicOptions::default() })).await.unwrap();
    let partition = partition(&broker).await;
    partition.append(vec![[7; 200]; 20], Acks::Forced).await.unwrap();
    assert_eq!(partition.synced(), 20);
    let barriers = broker.metrics()[0].barriers;
    partition.sync().await.unwrap();
    broker.sync().await.unwrap();
    assert_eq!(broker.metrics()[0].barriers, barriers);
    partition.append(["x"], Acks::Written).await.unwrap();
    assert_eq!(partition.synced(), 20);
    partition.sync().await.unwrap();
    assert_eq!((partition.synced(), broker.metrics()[0].barriers), (21, barriers + 1));
}

#[tokio::test]
async fn records_are_synced_by_number_and_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let options = with(TopicOptions { flush_every_records: Some(10), ..TopicOptions::default() });
    let broker = Broker::open(dir.path(), options).await.unwrap();
    let by_number = partition(&broker).await;
    by_number.append(["x"; 9], Acks::Written).await.unwrap();
    assert_eq!(by_number.synced(), 0);
    by_number.append(["x"], Acks::Written).await.unwrap();
    assert_eq!(by_number.synced(), 10);

    let dir = tempfile::tempdir().unwrap();
    let options = with(TopicOptions { flush_every: Some(Duration::from_millis(5)), ..TopicOptions::default() });
    let broker = Broker::open(dir.path(), options).await.unwrap();
    let by_age = partition(&broker).await;
    by_age.append(["x"], Acks::Written).await.unwrap();
    while by_age.synced() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn old_segments_go_by_age_and_who_reads_one_reads_it_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let topic =
        TopicOptions { segment_bytes: 1024, retention_age: Some(Duration::from_millis(50)), ..TopicOptions::default() };
    let options = BrokerOptions { retention_check: Duration::from_hours(1), ..with(topic) };
    let broker = Broker::open(dir.path(), options).await.unwrap();
    let partition = partition(&broker).await;
    partition.append(vec![[7; 200]; 9], Acks::Written).await.unwrap();
    let crate::booblik::log::Found::Slice(slice) = partition.0.view.find(0).unwrap().1 else { panic!("it is there") };
    while partition.log_start() < 8 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        partition.0.retain();
    }
    assert_eq!((partition.log_start(), partition.next_readable(0)), (8, 8));
    assert!(!dir.path().join("t-0/00000000000000000000.log").exists());
    let mut bytes = vec![0; 4 * 208];
    std::os::unix::fs::FileExt::read_exact_at(slice.segment.file(), &mut bytes, slice.position).unwrap();
    assert_eq!(&bytes[8..208], [7; 200]);
    assert_eq!(partition.append(["on"], Acks::Written).await.unwrap().base_offset, 9);
}

/// Whoever reads without a pause while records come is given none behind the end, where the next read would be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_never_waits_does_not_get_ahead_of_the_end() {
    const RECORDS: i64 = 30_000;
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::open(dir.path(), with(TopicOptions::default())).await.unwrap();
    let partition = partition(&broker).await;
    let own = partition.clone();
    let reader = std::thread::spawn(move || {
        let mut at = 0;
        while at < RECORDS {
            let batch = own.read(at, 1 << 10).unwrap();
            assert!(batch.next_offset <= batch.high_watermark, "{} behind {}", batch.next_offset, batch.high_watermark);
            at = batch.next_offset;
        }
    });
    for _ in 0..RECORDS {
        partition.append(["x"], Acks::Written).await.unwrap();
    }
    reader.join().unwrap();
}

/// Segments begin and go all the time while several write and one reads: the reader sees every offset in order, or is
/// told that what it wants is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_and_retention_beside_writing_and_reading_lose_nothing_else() {
    const RECORDS: i64 = 6000;
    let dir = tempfile::tempdir().unwrap();
    let topic = TopicOptions { segment_bytes: 2048, retention_bytes: Some(20_000), ..TopicOptions::default() };
    let options = BrokerOptions { retention_check: Duration::from_millis(1), ..with(topic) };
    let broker = Broker::open(dir.path(), options.clone()).await.unwrap();
    let partition = partition(&broker).await;
    let writers: Vec<_> = (0..4)
        .map(|writer: u8| {
            let partition = partition.clone();
            tokio::spawn(async move {
                for _ in 0..RECORDS / 40 {
                    partition.append([[writer; 100]; 10], Acks::Written).await.unwrap();
                }
            })
        })
        .collect();
    let (mut at, mut read, mut watch) = (0, 0, partition.watch());
    while at < RECORDS {
        watch.wait_for(|end| *end > at).await.unwrap();
        match partition.read(at, 1000) {
            Ok(batch) => {
                for record in batch.records() {
                    record.check().unwrap();
                    assert_eq!(record.offset, at);
                    (at, read) = (at + 1, read + 1);
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), crate::error::Kind::OutOfRange);
                assert!(at < partition.log_start());
                at = partition.log_start();
            }
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(read > 0 && partition.log_start() > 0);
    let start = partition.log_start();
    drop(partition);
    broker.close().await.unwrap();
    let broker = Broker::open(dir.path(), options).await.unwrap();
    let metrics = &broker.metrics()[0];
    assert!(metrics.log_start >= start);
    assert_eq!(metrics.high_watermark, RECORDS);
}
