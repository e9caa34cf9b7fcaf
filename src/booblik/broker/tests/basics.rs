use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Kind;

use super::super::{Acknowledge, Acks, AppendError, Broker, BrokerOptions, Done, Outcome, TopicOptions};
use super::open;

#[tokio::test]
async fn what_was_appended_is_read_back_and_survives_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(&dir).await;
    assert_eq!(broker.ensure_topic("t", 2).await.unwrap(), 2);
    let partition = broker.partition("t", 1).unwrap();
    let appended = partition.append(["a", "bb", "ccc"], Acks::Written).await.unwrap();
    assert_eq!((appended.base_offset, appended.end_offset), (0, 3));
    let id = broker.id().to_owned();
    broker.close().await.unwrap();

    let broker = open(&dir).await;
    assert_eq!(broker.id(), id);
    assert_eq!(broker.ensure_topic("t", 7).await.unwrap(), 2, "a topic keeps its number of partitions");
    let partition = broker.partition("t", 1).unwrap();
    let batch = partition.read(1, 1 << 20).unwrap();
    let found: Vec<_> = batch.records().map(|record| (record.offset, record.payload)).collect();
    assert_eq!(found, [(1, "bb".into()), (2, "ccc".into())]);
    assert!(partition.read(3, 100).unwrap().is_empty());
    assert_eq!(partition.read(4, 100).unwrap_err().kind(), Kind::OutOfRange);
    assert_eq!(partition.read(-1, 100).unwrap_err().kind(), Kind::OutOfRange);
}

#[tokio::test]
async fn one_process_shares_a_broker_and_refuses_other_options() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(&dir).await;
    let again = open(&dir).await;
    assert!(Arc::ptr_eq(&broker.0, &again.0));
    let other = BrokerOptions { writer_threads: 1, ..BrokerOptions::default() };
    assert_eq!(Broker::open(dir.path(), other).await.unwrap_err().kind(), Kind::AlreadyOpen);
}

#[tokio::test]
async fn a_bad_record_takes_its_batch_with_it_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let options = BrokerOptions::default().topic("t", TopicOptions { segment_bytes: 1024, ..TopicOptions::default() });
    let broker = Broker::open(dir.path(), options).await.unwrap();
    broker.ensure_topic("t", 1).await.unwrap();
    let partition = broker.partition("t", 0).unwrap();
    assert_eq!(partition.append(["ok", ""], Acks::Written).await, Err(AppendError::Empty));
    assert_eq!(partition.append([] as [&str; 0], Acks::Written).await, Err(AppendError::Empty));
    let large = vec![1; 1017];
    assert_eq!(partition.append([&large], Acks::Written).await, Err(AppendError::TooLarge { max_bytes: 1016 }));
    partition.append([&large[1..]], Acks::Forced).await.unwrap();
    assert_eq!(partition.high_watermark(), 1);
}

struct Counting(AtomicU64, AtomicU64);

impl Acknowledge for Counting {
    fn acknowledge(&self, token: u64, outcome: Outcome) {
        assert_eq!(outcome.unwrap().base_offset, i64::try_from(token).unwrap());
        assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), token, "told in order");
        self.1.fetch_add(token, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn submitted_batches_are_written_together_and_acknowledged_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(&dir).await;
    broker.ensure_topic("t", 1).await.unwrap();
    let partition = broker.partition("t", 0).unwrap();
    let counting = Arc::new(Counting(0.into(), 0.into()));
    for token in 0..10_000 {
        let done = || Done::Token(Arc::clone(&counting) as Arc<dyn Acknowledge>, token);
        while let Err(error) = partition.submit([token.to_string()], Acks::Written, done()) {
            assert_eq!(error, AppendError::Full);
            partition.room().await;
        }
    }
    partition.watch().wait_for(|end| *end == 10_000).await.unwrap();
    broker.close().await.unwrap();
    assert_eq!(counting.1.load(Ordering::Relaxed), 9_999 * 5_000);
    assert!(partition.append(["late"], Acks::Written).await.is_err_and(|error| error == AppendError::Closed));
}
