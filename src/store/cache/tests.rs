//! What only the crate itself can see.

use std::time::Duration;

use tempfile::TempDir;

use super::place::WriteOutcome;
use super::{Cache, Retention};
use crate::error::Kind;

const MINUTE: Duration = Duration::from_mins(1);

fn timed() -> (Cache<u32, u32>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::named("tested").retention(Retention::Ttl(MINUTE));
    cache.open_in(dir.path()).unwrap();
    (cache, dir)
}

fn advance(cache: &Cache<u32, u32>, time: Duration) {
    cache.opened().unwrap().clock().advance(time);
}

fn keys(cache: &Cache<u32, u32>) -> Vec<u32> {
    cache.keys().iter().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_row_whose_time_is_over_is_seen_by_no_read_and_leaves_the_disk() {
    let (cache, _dir) = timed();
    cache.put(1, 1).unwrap();
    advance(&cache, MINUTE / 2);
    cache.put(2, 2).unwrap();
    let snapshot = cache.snapshot().unwrap();
    assert_eq!(keys(&cache), [1, 2]);
    advance(&cache, MINUTE / 2);
    assert_eq!(cache.get_many([1, 2]).unwrap(), [None, Some(2)]);
    assert_eq!((cache.get(1).unwrap(), cache.contains(1).unwrap()), (None, false));
    assert_eq!(keys(&cache), [2]);
    assert_eq!(snapshot.get(1).unwrap(), None);
    cache.compact().await.unwrap();
    assert_eq!(cache.stats().unwrap().expired_rows, 1);
    assert_eq!(keys(&cache), [2]);
}

#[tokio::test]
async fn b_34_a_row_written_again_lives_again_also_in_the_batch_that_deletes_it() {
    let (cache, _dir) = timed();
    cache.put(1, 1).unwrap();
    cache.put(2, 2).unwrap();
    advance(&cache, 2 * MINUTE);
    let mut batch = cache.batch().unwrap();
    batch.delete(1).unwrap();
    batch.put(1, 10).unwrap();
    batch.commit().unwrap();
    assert_eq!(cache.update(2, |row| row.or(Some(20))).unwrap(), Some(20), "what has expired is not there");
    cache.compact().await.unwrap();
    assert_eq!(cache.get_many([1, 2]).unwrap(), [Some(10), Some(20)]);
    let mut rows = cache.transaction(1).await.unwrap();
    advance(&cache, 2 * MINUTE);
    assert_eq!(rows.get(1).unwrap(), None);
    rows.put(1, 11).unwrap();
    rows.commit().unwrap();
    assert_eq!(keys(&cache), [1]);
}

#[test]
fn rows_from_outside_are_refused_where_rows_carry_a_time() {
    let (cache, _dir) = timed();
    assert_eq!(cache.ingest_external_file(["none.sst"]).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn an_app_holds_a_cache_until_it_ends_and_the_next_one_opens_elsewhere() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache: Cache<u32, u32> = Cache::named("held");
    let (first, again) = (cache.hold_in(one.path()).unwrap(), cache.hold_in(one.path()).unwrap());
    cache.put(1, 1).unwrap();
    drop(first);
    assert!(cache.is_open());
    assert_eq!(cache.hold_in(two.path()).err().unwrap().kind(), Kind::AlreadyOpen);
    drop(again);
    assert!(!cache.is_open());
    let _second = cache.hold_in(two.path()).unwrap();
    assert_eq!(cache.get(1).unwrap(), None);
}

#[test]
fn a_cache_opened_by_hand_stays_open_when_the_app_ends() {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<u32, u32> = Cache::named("held");
    cache.open_in(dir.path()).unwrap();
    drop(cache.hold_in(dir.path()).unwrap());
    assert!(cache.is_open());
    let late = cache.hold_in(dir.path()).unwrap();
    cache.close().unwrap();
    cache.open_in(dir.path()).unwrap();
    drop(late);
    assert!(cache.is_open(), "a hold on an earlier opening ends nothing");
}

#[tokio::test]
async fn a_sink_writes_at_once_and_syncs_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<u32, u32> = Cache::named("sink");
    cache.open_in(dir.path()).unwrap();
    assert_eq!(cache.write_now(&1, Some(&10)).unwrap(), WriteOutcome::Written);
    assert_eq!(cache.get(1).unwrap(), Some(10));
    assert_eq!(cache.write_now(&1, None).unwrap(), WriteOutcome::Written);
    assert_eq!(cache.get(1).unwrap(), None);
    cache.opened().unwrap().sync().unwrap();
    cache.write_stalled(&2, Some(&20)).await.unwrap();
    cache.write_stalled(&1, None).await.unwrap();
    assert_eq!(keys(&cache), [2]);
    cache.opened().unwrap().sync().unwrap();
}

#[tokio::test]
async fn a_sink_is_told_that_the_store_is_behind_and_waits_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<u32, Vec<u8>> = Cache::named("stalled").retention(Retention::Keep);
    cache.open_in(dir.path()).unwrap();
    // No file may be written at level 0: the store is behind from the second one on, until it may merge again.
    let stop = [("level0_slowdown_writes_trigger", "1"), ("level0_stop_writes_trigger", "1")];
    cache.set_options(&[("disable_auto_compactions", "true")]).unwrap();
    cache.set_options(&stop).unwrap();
    cache.put(0, vec![0]).unwrap();
    cache.flush().await.unwrap();
    cache.set_options(&[("disable_auto_compactions", "false"), ("level0_file_num_compaction_trigger", "100")]).unwrap();
    assert_eq!(cache.write_now(&1, Some(&vec![1])).unwrap(), WriteOutcome::Stalled);
    assert_eq!(cache.get(1).unwrap(), None);
    assert!(cache.stats().unwrap().writes_stopped);
    let own = cache.clone();
    let waiting = tokio::spawn(async move { own.write_stalled(&1, Some(&vec![1])).await });
    cache.set_options(&[("level0_slowdown_writes_trigger", "20"), ("level0_stop_writes_trigger", "36")]).unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(cache.get(1).unwrap(), Some(vec![1]));
    assert_eq!(cache.write_now(&2, Some(&vec![2])).unwrap(), WriteOutcome::Written);
}

#[tokio::test]
async fn locks_that_nobody_holds_take_no_memory() {
    let (cache, _dir) = timed();
    let open = cache.opened().unwrap();
    let held = cache.transaction_over([1, 2, 3]).await.unwrap();
    assert_eq!(open.locks.len(), 3);
    let gave_up = cache.transaction(2).timeout(Duration::ZERO).await;
    assert_eq!(gave_up.unwrap_err().kind(), Kind::Timeout);
    drop(held);
    assert_eq!(open.locks.len(), 0);
}

/// A file system of 24 MiB; it goes with the test.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        let made = mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(dir.path()).output();
        made.is_ok_and(|made| made.status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// As commits do, which go on meanwhile.
#[test]
fn syncs_on_a_full_disk_do_not_keep_it_from_passing() {
    let Some(disk) = SmallDisk::mount() else {
        return eprintln!("NOT RUN: a file system cannot be mounted here");
    };
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![1; 14 << 20]).unwrap();
    let cache: Cache<u32, Vec<u8>> = Cache::named("tested").retention(Retention::Keep);
    cache.open_in(disk.0.path()).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let row: Vec<u8> = (0..4096).map(|_| random.u8(..)).collect();
    let error = (0..).find_map(|n: u32| cache.put(n, [&n.to_be_bytes()[..], &row].concat()).err()).unwrap();
    assert_eq!(error.kind(), Kind::DiskFull);
    let open = cache.opened().unwrap();
    for _ in 0..3 {
        assert_eq!(open.sync().map_err(|error| error.kind()), Err(Kind::DiskFull));
    }
    std::fs::remove_file(ballast).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(40);
    while let Err(error) = open.sync() {
        assert!(std::time::Instant::now() < until, "syncs do not come back: {}", error.report());
        std::thread::sleep(Duration::from_millis(20));
    }
    cache.put(0, row).unwrap();
    open.sync().unwrap();
}
