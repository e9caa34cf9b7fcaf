//! Transactions and updates.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use slipstream::{Cache, Kind};
use tokio::sync::{Barrier, Notify};

use super::cache;

const SOON: Duration = Duration::from_millis(20);

async fn append(cache: &Cache<String, String>, what: &str) {
    let mut rows = cache.transaction("k").await.unwrap();
    let before = rows.get("k").unwrap().unwrap_or_default();
    tokio::task::yield_now().await;
    rows.put("k", before + what).unwrap();
    rows.commit().unwrap();
}

#[tokio::test]
async fn ca_7_transactions_on_one_key_run_one_after_the_other_in_order_of_arrival() {
    let (cache, _dir) = cache::<String, String>();
    tokio::join!(append(&cache, "a"), append(&cache, "b"));
    assert_eq!(cache.get("k").unwrap().unwrap(), "ab");
    tokio::join!(append(&cache, "b"), append(&cache, "a"));
    assert_eq!(cache.get("k").unwrap().unwrap(), "abba");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_lose_no_step() {
    let (cache, _dir) = cache::<String, u64>();
    let tasks = (0..8).map(|_| {
        let cache = cache.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                let mut rows = cache.transaction("n").await.unwrap();
                let next = rows.get("n").unwrap().unwrap_or(0) + 1;
                rows.put("n", next).unwrap();
                rows.commit().unwrap();
                while cache.update("m", |n| Some(n.unwrap_or(0) + 1)).is_err() {}
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    assert_eq!(cache.get_many(["n", "m"]).unwrap(), [Some(1600), Some(1600)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_asked_for_in_opposite_orders_do_not_deadlock() {
    let (cache, _dir) = cache::<u32, u32>();
    let together = Arc::new(Barrier::new(2));
    let tasks = [[1, 2], [2, 1]].map(|keys| {
        let (cache, together) = (cache.clone(), Arc::clone(&together));
        tokio::spawn(async move {
            together.wait().await;
            for _ in 0..500 {
                let rows = cache.transaction_over(keys).await.unwrap();
                tokio::task::yield_now().await;
                rows.commit().unwrap();
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
}

#[tokio::test]
async fn d_17_nested_transactions_on_different_keys_pass_and_on_the_same_key_time_out() {
    let (cache, _dir) = cache::<u32, u32>();
    // More than the 16 stripes of the model: no two of them share a lock.
    let mut held = Vec::new();
    for key in 0..64 {
        held.push(cache.transaction(key).await.unwrap());
    }
    let error = cache.transaction(7).timeout(SOON).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.is_retryable());
    held.clear();
    assert!(cache.transaction(7).await.is_ok());
}

#[tokio::test]
async fn a_transaction_sees_its_own_writes_and_nobody_else_does_before_commit() {
    let (cache, _dir) = cache::<String, u32>();
    cache.put("a", 1).unwrap();
    cache.put("b", 2).unwrap();
    let mut rows = cache.transaction_over(["a", "b"]).await.unwrap();
    rows.put("a", 10).unwrap();
    rows.delete("b").unwrap();
    assert_eq!((rows.get("a").unwrap(), rows.get("b").unwrap()), (Some(10), None));
    assert!(!rows.contains("b").unwrap());
    assert_eq!(cache.get_many(["a", "b"]).unwrap(), [Some(1), Some(2)]);
    rows.commit().unwrap();
    assert_eq!(cache.get_many(["a", "b"]).unwrap(), [Some(10), None]);
}

#[tokio::test]
async fn a_dropped_transaction_writes_nothing_and_gives_its_lock_back() {
    let (cache, _dir) = cache::<u32, u32>();
    let mut rows = cache.transaction(1).await.unwrap();
    rows.put(1, 1).unwrap();
    drop(rows);
    assert_eq!(cache.get(1).unwrap(), None);
    assert!(cache.transaction(1).await.is_ok());
}

#[tokio::test]
async fn a_future_dropped_in_the_middle_gives_its_lock_back() {
    let (cache, _dir) = cache::<u32, u32>();
    let (inside, own) = (Arc::new(Notify::new()), cache.clone());
    let task = tokio::spawn({
        let inside = Arc::clone(&inside);
        async move {
            let mut rows = own.transaction(1).await.unwrap();
            rows.put(1, 1).unwrap();
            inside.notify_one();
            std::future::pending::<()>().await;
            rows.commit().unwrap();
        }
    });
    inside.notified().await;
    // One that waits and gives up must not keep the next one from the lock either.
    assert!(Box::pin(async { cache.transaction(1).await }).now_or_never().is_none());
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(cache.transaction(1).await.is_ok());
    assert_eq!(cache.get(1).unwrap(), None);
}

#[tokio::test]
async fn a_key_that_was_not_locked_is_not_written() {
    let (cache, _dir) = cache::<u32, u32>();
    let mut rows = cache.transaction(1).await.unwrap();
    assert_eq!(rows.put(2, 2).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(rows.get(2).unwrap(), None);
}

#[tokio::test]
async fn an_update_does_not_come_between_a_transaction() {
    let (cache, _dir) = cache::<u32, u32>();
    let rows = cache.transaction(1).await.unwrap();
    let error = cache.update(1, |_| Some(9)).unwrap_err();
    assert_eq!(error.kind(), Kind::Locked);
    assert!(error.is_retryable());
    assert_eq!(cache.update(2, |_| Some(2)).unwrap(), Some(2));
    drop(rows);
    assert_eq!(cache.update(1, |n| n.or(Some(9))).unwrap(), Some(9));
    assert_eq!(cache.update(1, |_| None).unwrap(), None);
    assert!(!cache.contains(1).unwrap());
}

#[test]
fn an_update_may_use_the_cache_inside() {
    let (cache, _dir) = cache::<u32, u32>();
    let outer = cache.update(1, |_| cache.update(2, |_| cache.update(1, |n| n).unwrap().or(Some(3))).unwrap());
    assert_eq!(outer.unwrap(), Some(3));
}
