//! Full disks and damaged files.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use slipstream::{Cache, Kind, Retention};

use super::small::Small;
use super::{keeping, noise};

const ROWS: u32 = 20_000;

fn table_files(cache_dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(cache_dir.join("db")).unwrap().map(|file| file.unwrap().path());
    let mut tables: Vec<_> = files.filter(|file| file.extension().is_some_and(|ending| ending == "sst")).collect();
    tables.sort_by_key(|file| fs::metadata(file).unwrap().len());
    tables
}

async fn filled() -> (Cache<u32, Vec<u8>>, tempfile::TempDir, PathBuf) {
    let (cache, dir) = keeping::<u32, Vec<u8>>();
    for n in 0..ROWS {
        cache.put(n, noise(u64::from(n), 100)).unwrap();
    }
    cache.compact().await.unwrap();
    let table = table_files(&cache.path().unwrap()).pop().unwrap();
    cache.close().unwrap();
    (cache, dir, table)
}

#[tokio::test]
async fn a_flipped_byte_is_an_error_that_names_the_file_and_never_a_short_list() {
    let (cache, dir, table) = filled().await;
    let file = OpenOptions::new().read(true).write(true).open(&table).unwrap();
    let middle = fs::metadata(&table).unwrap().len() / 3;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], middle).unwrap();

    cache.open_in(dir.path()).unwrap();
    for rows in [cache.keys().iter().collect::<Vec<_>>(), cache.keys().rev().iter().collect()] {
        let error = rows.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert_eq!(error.place(), table.to_str(), "{}", error.report());
        assert!(rows.len() < ROWS as usize);
    }
    let failed: Vec<_> = (0..ROWS).filter_map(|n| cache.get(n).err()).collect();
    assert!(!failed.is_empty());
    assert!(failed.iter().all(|error| error.kind() == Kind::Corrupt && error.place() == table.to_str()));
    let error = cache.get_many(0..ROWS).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
}

#[tokio::test]
async fn a_missing_or_cut_table_file_is_refused_by_name() {
    let (cache, dir, table) = filled().await;
    let len = fs::metadata(&table).unwrap().len();
    OpenOptions::new().write(true).open(&table).unwrap().set_len(len / 2).unwrap();
    let error = cache.open_in(dir.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{}", error.report());
    assert_eq!(error.place(), table.to_str(), "{}", error.report());
    fs::remove_file(&table).unwrap();
    let error = cache.open_in(dir.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{}", error.report());
    assert_eq!(error.place(), table.to_str(), "{}", error.report());
}

/// Puts rows until the disk is full.
fn fill(cache: &Cache<u32, Vec<u8>>) -> (u32, slipstream::Error) {
    (0..).find_map(|n| cache.put(n, value(n)).err().map(|error| (n, error))).unwrap()
}

fn value(n: u32) -> Vec<u8> {
    noise(u64::from(n), 4096)
}

/// RocksDB finds out by itself that there is room, after some seconds; every attempt until then says the same.
fn put_when_there_is_room(cache: &Cache<u32, Vec<u8>>, n: u32) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while let Err(error) = cache.put(n, value(n)) {
        assert_eq!(error.kind(), Kind::DiskFull, "{}", error.report());
        assert!(Instant::now() < deadline, "writes do not come back");
        std::thread::yield_now();
    }
}

/// A volume that never has as much room as one full write buffer takes.
#[test]
fn a_full_disk_passes_on_a_small_volume_too() {
    let Some(disk) = Small::mount(24) else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 14 << 20]).unwrap();
    let cache: Cache<u32, Vec<u8>> = Cache::named("tested").retention(Retention::Keep);
    cache.open_in(disk.path()).unwrap();
    let (written, error) = fill(&cache);
    assert_eq!(error.kind(), Kind::DiskFull, "{}", error.report());
    fs::remove_file(ballast).unwrap();
    put_when_there_is_room(&cache, written);
    assert!((0..=written).all(|n| cache.get(n).unwrap() == Some(value(n))));
    cache.close().unwrap();
    cache.open_in(disk.path()).unwrap();
    assert!((0..=written).all(|n| cache.get(n).unwrap() == Some(value(n))));
    cache.close().unwrap();
}

#[test]
fn a_full_disk_is_its_own_error_loses_nothing_and_passes() {
    let Some(disk) = Small::mount(24) else { return };
    let cache: Cache<u32, Vec<u8>> = Cache::named("tested").retention(Retention::Keep);
    cache.open_in(disk.path()).unwrap();
    let (written, error) = fill(&cache);
    assert_eq!(error.kind(), Kind::DiskFull, "{}", error.report());
    assert!(error.is_retryable());
    assert!(error.place().unwrap().starts_with(disk.path().to_str().unwrap()), "{error}");
    for n in 0..written {
        assert_eq!(cache.get(n).unwrap().unwrap(), value(n), "{n} was acknowledged");
    }
    disk.grow(96);
    put_when_there_is_room(&cache, written);
    assert!((0..=written).all(|n| cache.contains(n).unwrap()));
    cache.close().unwrap();
}
