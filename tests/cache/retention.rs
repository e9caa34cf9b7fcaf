//! What is dropped, what is not, and that it is said.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slipstream::{Cache, Kind, Retention};

use super::{all, cache, keeping, noise, open};

const MIB: u64 = 1024 * 1024;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn of(call: impl FnOnce(&Self)) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || call(&log));
    }

    fn warnings(&self) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains("WARN") && line.contains("Retention::Keep")).count()
    }
}

#[test]
fn b_31_scenario_13_a_window_drops_rows_and_says_so_before_the_first_miss_and_keep_drops_none() {
    const ROWS: u32 = 60_000;
    Log::of(|log| {
        let (window, _a) = open(Cache::<u32, Vec<u8>>::named("window").retention(Retention::Fifo { bytes: 25 * MIB }));
        let (kept, _b) = keeping::<u32, Vec<u8>>();
        for n in 0..ROWS {
            let value = noise(u64::from(n), 1024);
            window.put(n, &value).unwrap();
            kept.put(n, &value).unwrap();
        }
        let mut missing = 0;
        for n in 0..ROWS {
            if window.get(n).unwrap().is_none() {
                missing += 1;
                assert_eq!(log.warnings(), 1, "one warning before the first miss, and no more");
                assert!(window.stats().unwrap().evictions > 0);
            }
            assert!(kept.contains(n).unwrap());
        }
        assert!(missing > ROWS / 4, "{missing} of 60 MB are beyond a window of 25 MiB");
        assert_eq!(kept.stats().unwrap().evictions, 0);
        assert!(window.stats().unwrap().table_bytes <= 25 * MIB);
    });
}

#[test]
fn a_program_that_only_writes_is_warned_too() {
    Log::of(|log| {
        let (cache, _dir) = open(Cache::<u32, Vec<u8>>::named("small").retention(Retention::Fifo { bytes: 2 * MIB }));
        let deadline = Instant::now() + Duration::from_secs(30);
        for n in 0.. {
            cache.put(n, noise(u64::from(n), 1024)).unwrap();
            if log.warnings() > 0 {
                break;
            }
            assert!(Instant::now() < deadline, "no warning");
        }
    });
}

#[test]
fn d_3_d_25_families_keep_their_rows_and_retention_over_a_reopen() {
    const ROWS: u32 = 36_000;
    let (cache, dir) = cache::<u32, u32>();
    let family = cache.create_family::<u32, Vec<u8>>("large", Retention::Keep).unwrap();
    cache.create_family::<u32, u32>("timed", Retention::Ttl(Duration::from_mins(1))).unwrap();
    for n in 0..ROWS {
        family.put(n, noise(u64::from(n), 1024)).unwrap();
    }
    for _ in 0..2 {
        cache.close().unwrap();
        cache.open_in(dir.path()).unwrap();
    }
    assert_eq!(all(family.keys()).len(), ROWS as usize);
    assert_eq!(family.stats().unwrap().retention, Retention::Keep);
    assert_eq!(cache.stats().unwrap().retention, Retention::default());
    let timed = cache.family::<u32, u32>("timed").unwrap();
    assert_eq!(timed.stats().unwrap().retention, Retention::Ttl(Duration::from_mins(1)));
    let error = cache.create_family::<u32, u32>("large", Retention::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
}

#[test]
fn retention_is_kept_when_unsaid_and_changes_only_where_no_row_is_misread() {
    let dir = tempfile::tempdir().unwrap();
    let with = |retention: Option<Retention>| {
        let cache: Cache<u32, u32> = Cache::named("r");
        let cache = if let Some(retention) = retention { cache.retention(retention) } else { cache };
        cache.open_in(dir.path())?;
        cache.put(1, 1)?;
        cache.stats().map(|stats| stats.retention)
    };
    assert_eq!(with(Some(Retention::Fifo { bytes: MIB })).unwrap(), Retention::Fifo { bytes: MIB });
    assert_eq!(with(None).unwrap(), Retention::Fifo { bytes: MIB });
    assert_eq!(with(Some(Retention::Fifo { bytes: 2 * MIB })).unwrap(), Retention::Fifo { bytes: 2 * MIB });
    assert_eq!(with(Some(Retention::Keep)).unwrap(), Retention::Keep);
    assert_eq!(with(None).unwrap(), Retention::Keep);
    let error = with(Some(Retention::default())).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.report().contains("Keep"), "{}", error.report());
    assert!(error.place().unwrap().contains(dir.path().to_str().unwrap()), "{}", error.report());
}

/// The options of a family as RocksDB wrote them last.
fn options<K, V: 'static>(cache: &Cache<K, V>, family: &str) -> String {
    let files = fs::read_dir(cache.path().unwrap().join("db")).unwrap().map(|file| file.unwrap().path());
    let newest = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("OPTIONS")).max().unwrap();
    let text = fs::read_to_string(newest).unwrap();
    let (_, own) = text.split_once(&format!("[CFOptions \"{family}\"]")).unwrap();
    own.split("[CFOptions").next().unwrap().to_owned()
}

fn merges<K, V: 'static>(cache: &Cache<K, V>, family: &str) {
    let options = options(cache, family);
    for expected in ["allow_compaction=true", "\n  ttl=0", "max_compaction_bytes=6553600", "filter_policy=bloomfilter"]
    {
        assert!(options.contains(expected), "{expected} in {options}");
    }
}

#[tokio::test]
async fn ca_19_churned_files_are_merged_in_every_family_and_after_a_reopen() {
    let (cache, dir) = cache::<String, u32>();
    for round in 0..8 {
        cache.put("live", round).unwrap();
        cache.put(format!("gone-{round}"), round).unwrap();
        cache.delete(format!("gone-{round}")).unwrap();
        cache.flush().await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while cache.live_files().unwrap().len() >= 8 {
        assert!(Instant::now() < deadline, "not merged");
        tokio::task::yield_now().await;
    }
    assert_eq!(all(cache.items()), [("live".to_owned(), 7)]);
    cache.create_family::<u32, u32>("second", Retention::default()).unwrap();
    for _ in 0..2 {
        merges(&cache, "default");
        merges(&cache, "second");
        cache.close().unwrap();
        cache.open_in(dir.path()).unwrap();
    }
}

#[tokio::test]
async fn ca_20_the_first_merge_of_an_unmerged_store_keeps_its_old_rows() {
    let (cache, dir) = cache::<u32, Vec<u8>>();
    cache.set_options(&[("compaction_options_fifo", "{allow_compaction=false;}")]).unwrap();
    let mut old = 0;
    while cache.stats().unwrap().table_bytes < 23 * MIB {
        for _ in 0..512 {
            cache.put(old, noise(u64::from(old), 1000)).unwrap();
            old += 1;
        }
        cache.flush().await.unwrap();
    }
    assert_eq!(cache.stats().unwrap().evictions, 0);
    cache.close().unwrap();
    cache.open_in(dir.path()).unwrap();
    for n in 0..12_000 {
        cache.put(1_000_000 + n, vec![7; 100]).unwrap();
    }
    cache.flush().await.unwrap();
    cache.compact().await.unwrap();
    let survivors = all(cache.keys()).into_iter().filter(|key| *key < 1_000_000).count();
    assert!(survivors * 10 >= old as usize * 9, "{survivors} of {old}");
    let largest = cache.live_files().unwrap().into_iter().map(|file| file.size_bytes as u64).max().unwrap();
    assert!((MIB..=25 * MIB / 4).contains(&largest), "{largest}");
}

#[tokio::test]
async fn ca_21_scans_over_churned_rows_stay_fast() {
    async fn churned(merge: bool) -> (Cache<u32, u32>, tempfile::TempDir) {
        let (cache, dir) = cache::<u32, u32>();
        if !merge {
            cache.set_options(&[("compaction_options_fifo", "{allow_compaction=false;}")]).unwrap();
        }
        for n in 0..12_000 {
            cache.put(n, n).unwrap();
            if n >= 30 {
                cache.delete(n - 30).unwrap();
            }
            if n % 40 == 0 {
                cache.flush().await.unwrap();
            }
        }
        cache.compact().await.unwrap();
        (cache, dir)
    }
    let scans = |cache: &Cache<u32, u32>| {
        let start = Instant::now();
        for _ in 0..20 {
            assert_eq!(all(cache.keys()).len(), 30);
        }
        start.elapsed()
    };
    let ((merged, _a), (unmerged, _b)) = (churned(true).await, churned(false).await);
    let (fast, slow) = (scans(&merged), scans(&unmerged));
    assert!(slow > 10 * fast, "{slow:?} without merges, {fast:?} with them");
}
