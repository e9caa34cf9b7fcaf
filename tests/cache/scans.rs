//! Scans, snapshots and batches.

use futures::{StreamExt, TryStreamExt};
use slipstream::{Kind, Retention};

use super::{all, cache};

#[test]
fn a_scan_sees_the_rows_as_they_were_when_it_began() {
    let (cache, _dir) = cache::<u32, u32>();
    for n in 0..10 {
        cache.put(n, n).unwrap();
    }
    let mut scan = cache.keys().iter();
    assert_eq!(scan.next().unwrap().unwrap(), 0);
    cache.delete_range(0, 10).unwrap();
    cache.put(11, 11).unwrap();
    assert_eq!(all(scan), (1..10).collect::<Vec<_>>());
    assert_eq!(all(cache.keys()), [11]);
}

#[test]
fn a_scan_and_a_snapshot_outlive_close() {
    let (cache, _dir) = cache::<u32, u32>();
    cache.put(1, 10).unwrap();
    let (scan, snapshot) = (cache.items().iter(), cache.snapshot().unwrap());
    cache.close().unwrap();
    assert_eq!(all(scan), [(1, 10)]);
    assert_eq!(snapshot.get(1).unwrap(), Some(10));
    assert_eq!(all(snapshot.items()), [(1, 10)]);
}

#[test]
fn a_scan_over_a_closed_cache_is_an_error_and_not_an_empty_list() {
    let (cache, _dir) = cache::<u32, u32>();
    cache.close().unwrap();
    let rows: Vec<_> = cache.keys().iter().collect();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].as_ref().unwrap_err().kind(), Kind::Closed);
}

#[test]
fn a_row_that_cannot_be_decoded_is_an_error_and_the_next_ones_follow() {
    let (cache, _dir) = cache::<u32, u32>();
    cache.put(1, 10).unwrap();
    cache.put(3, 30).unwrap();
    cache.raw().unwrap().put(slipstream::keys::encode::<u32>(2), b"\xC1").unwrap();
    let rows: Vec<_> = cache.items().iter().collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1].as_ref().unwrap_err().kind(), Kind::Decode);
    assert_eq!(*rows[2].as_ref().unwrap(), (3, 30));
    assert_eq!(cache.get(2).unwrap_err().place(), Some("cache tested"));
}

#[test]
fn a_snapshot_shows_families_too() {
    let (cache, _dir) = cache::<u32, u32>();
    let family = cache.create_family::<u32, String>("names", Retention::Keep).unwrap();
    family.put(1, "one".to_owned()).unwrap();
    let before = family.snapshot().unwrap();
    family.put(1, "uno".to_owned()).unwrap();
    assert_eq!(before.get(1).unwrap().unwrap(), "one");
    assert!(before.contains(1).unwrap() && !before.contains(2).unwrap());
    assert_eq!(all(before.values()), ["one"]);
    assert_eq!(cache.stats().unwrap().snapshots, 1);
    assert!(cache.stats().unwrap().oldest_snapshot_age.is_some());
}

#[test]
fn a_batch_is_all_or_nothing() {
    let (cache, _dir) = cache::<u32, u32>();
    cache.put(5, 5).unwrap();
    let mut dropped = cache.batch().unwrap();
    dropped.put(1, 1).unwrap();
    drop(dropped);
    assert_eq!(cache.get(1).unwrap(), None);
    let mut batch = cache.batch().unwrap();
    assert!(batch.is_empty());
    batch.put(1, 1).unwrap();
    batch.delete(5).unwrap();
    batch.delete_range(9, 3).unwrap();
    assert_eq!(batch.len(), 2, "an empty range is no write");
    batch.commit().unwrap();
    assert_eq!(all(cache.items()), [(1, 1)]);
}

#[test]
fn a_batch_refuses_families_of_another_cache() {
    let (one, _a) = cache::<u32, u32>();
    let (two, _b) = cache::<u32, u32>();
    let mut batch = one.batch().unwrap();
    assert_eq!(batch.put_in(&two, 1, 1).unwrap_err().kind(), Kind::Config);
}

#[tokio::test]
async fn a_stream_gives_every_row_in_order_and_stops_when_dropped() {
    let (cache, _dir) = cache::<u32, u32>();
    for n in 0..5_000 {
        cache.put(n, n).unwrap();
    }
    let rows: Vec<_> = cache.scan().stream().try_collect().await.unwrap();
    assert_eq!(rows, (0..5_000).map(|n| (n, n)).collect::<Vec<_>>());
    let some: Vec<_> = cache.keys().from(10).rev().stream().take(3).try_collect().await.unwrap();
    assert_eq!(some, [10, 9, 8]);
    cache.close().unwrap();
    let failed: Vec<_> = cache.keys().stream().collect().await;
    assert_eq!(failed[0].as_ref().unwrap_err().kind(), Kind::Closed);
}
