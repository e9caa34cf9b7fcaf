//! Opening, closing, and who may do so at the same time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use slipstream::{Cache, Kind, Retention};

use super::{all, cache};

const HELD_DIR: &str = "SLIPSTREAM_TEST_HELD_DIR";

static SHARED: Cache<String, u32> = Cache::new("shared").retention(Retention::Keep);

#[test]
fn a_static_is_opened_closed_and_opened_again_elsewhere() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    SHARED.open_in(one.path()).unwrap();
    SHARED.open_in(one.path()).unwrap();
    SHARED.put("a", 1).unwrap();
    let error = SHARED.open_in(two.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::AlreadyOpen);
    for path in [one.path(), two.path()] {
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error} names {path:?}");
    }
    SHARED.close().unwrap();
    assert_eq!(SHARED.get("a").unwrap_err().kind(), Kind::Closed);
    SHARED.open_in(two.path()).unwrap();
    assert_eq!(SHARED.get("a").unwrap(), None);
    SHARED.close().unwrap();
}

#[test]
fn ca_2_a_closed_cache_says_so_for_every_clone_and_family_and_also_when_closed_again() {
    let (cache, dir) = cache::<u32, u32>();
    let family = cache.create_family::<u32, u32>("f", Retention::Keep).unwrap();
    let clone = cache.clone();
    clone.put(1, 1).unwrap();
    cache.close().unwrap();
    for error in [
        clone.get(1).unwrap_err(),
        family.get(1).unwrap_err(),
        cache.put(1, 1).unwrap_err(),
        cache.stats().unwrap_err(),
        cache.snapshot().unwrap_err(),
        cache.close().unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Closed);
    }
    cache.open_in(dir.path()).unwrap();
    assert_eq!(clone.get(1).unwrap(), Some(1));
}

#[test]
fn other_settings_while_open_are_refused_by_name() {
    let (cache, _dir) = cache::<u32, u32>();
    let other = cache.clone().retention(Retention::Keep);
    let error = other.get(1).unwrap_err();
    assert_eq!(error.kind(), Kind::AlreadyOpen);
    assert!(error.to_string().contains("Keep"), "{error}");
    assert_eq!(cache.get(1).unwrap(), None);
}

#[test]
fn names_that_could_leave_the_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", "..", "a/b", ".hidden", "_x", "ä", &"x".repeat(65)] {
        let cache: Cache<u32, u32> = Cache::named(name);
        assert_eq!(cache.open_in(dir.path()).unwrap_err().kind(), Kind::Config, "{name:?}");
    }
    let (cache, _dir) = cache::<u32, u32>();
    assert_eq!(cache.create_family::<u32, u32>("default", Retention::Keep).unwrap_err().kind(), Kind::Config);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn directories_are_for_their_owner_only() {
    let (cache, _dir) = cache::<u32, u32>();
    let path = cache.path().unwrap();
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_default_directory_is_used_without_being_asked_and_only_then() {
    let cache: Cache<u32, u32> = Cache::named("on-demand");
    assert!(!cache.is_open());
    // Nothing is written outside a temporary directory: the path that would be used is a file.
    let blocked = tempfile::NamedTempFile::new().unwrap();
    assert!(cache.open_in(blocked.path()).is_err());
    assert!(!cache.is_open());
}

/// Run by the next test in a process of its own.
#[test]
fn child_that_holds_a_store() {
    let Ok(dir) = std::env::var(HELD_DIR) else { return };
    SHARED.open_in(dir).unwrap();
    SHARED.put("held", 1).unwrap();
    eprintln!("held");
    let _ = std::io::stdin().lines().next();
}

#[test]
fn a_store_held_by_another_process_names_it_and_the_place_in_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["lifecycle::child_that_holds_a_store", "--exact", "--nocapture"])
        .env(HELD_DIR, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("held")));

    let second: Cache<String, u32> = Cache::named("shared");
    let error = second.open_in(dir.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Locked);
    assert!(error.is_retryable());
    let report = error.report();
    assert!(report.contains(&format!("held by process {}", child.id())), "{report}");
    assert!(report.contains("lifecycle.rs"), "{report}");
    assert!(report.contains(dir.path().to_str().unwrap()), "{report}");

    // A reader does not need the lock.
    let reader: Cache<String, u32> = Cache::named("shared").read_only();
    reader.open_in(dir.path()).unwrap();
    assert_eq!(reader.get("held").unwrap(), Some(1));
    assert_eq!(reader.put("held", 2).unwrap_err().kind(), Kind::Unsupported);

    child.kill().unwrap();
    child.wait().unwrap();
    second.open_in(dir.path()).unwrap();
    assert_eq!(second.get("held").unwrap(), Some(1), "killed without a goodbye, nothing is lost");
}

#[test]
fn a_reader_of_nothing_is_an_error_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for cache in [Cache::<u32, u32>::named("none").read_only(), Cache::named("none").secondary()] {
        assert_eq!(cache.open_in(dir.path()).unwrap_err().kind(), Kind::Store);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn ca_3_readers_write_no_options_file_and_a_secondary_catches_up() {
    let (cache, dir) = cache::<u32, u32>();
    cache.put(1, 1).unwrap();
    let options = || {
        let files = fs::read_dir(cache.path().unwrap().join("db")).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("OPTIONS"));
        names.sort();
        names
    };
    let before = options();
    let reader: Cache<u32, u32> = Cache::named("tested").read_only();
    let secondary: Cache<u32, u32> = Cache::named("tested").secondary();
    reader.open_in(dir.path()).unwrap();
    secondary.open_in(dir.path()).unwrap();
    assert_eq!((reader.get(1).unwrap(), secondary.get(1).unwrap()), (Some(1), Some(1)));
    cache.put(2, 2).unwrap();
    assert_eq!(reader.get(2).unwrap(), None);
    assert_eq!(reader.catch_up().unwrap_err().kind(), Kind::Unsupported);
    secondary.catch_up().unwrap();
    assert_eq!(secondary.get(2).unwrap(), Some(2));
    assert_eq!(options(), before);
    for cache in [&cache, &reader, &secondary] {
        cache.close().unwrap();
    }
}

#[test]
fn ca_5_repair_and_destroy_work_on_a_closed_cache_only() {
    let (cache, dir) = cache::<u32, u32>();
    cache.put(1, 1).unwrap();
    assert_eq!(cache.repair_in(dir.path()).unwrap_err().kind(), Kind::AlreadyOpen);
    assert_eq!(cache.destroy_in(dir.path()).unwrap_err().kind(), Kind::AlreadyOpen);
    cache.close().unwrap();
    cache.repair_in(dir.path()).unwrap();
    cache.open_in(dir.path()).unwrap();
    assert_eq!(cache.get(1).unwrap(), Some(1));
    cache.close().unwrap();
    cache.destroy_in(dir.path()).unwrap();
    cache.destroy_in(dir.path()).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    cache.open_in(dir.path()).unwrap();
    assert_eq!(all(cache.keys()), Vec::<u32>::new());
}

#[tokio::test]
async fn a_copy_brings_back_rows_families_and_retention() {
    let (cache, _dir) = super::keeping::<u32, u32>();
    let family = cache.create_family::<u32, u32>("f", Retention::Fifo { bytes: 1 << 20 }).unwrap();
    cache.put(1, 1).unwrap();
    family.put(2, 2).unwrap();
    let (copies, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    cache.backup(copies.path()).await.unwrap();
    cache.put(1, 100).unwrap();
    cache.backup(copies.path()).await.unwrap();
    cache.close().unwrap();
    let none = cache.restore(elsewhere.path(), elsewhere.path()).await.unwrap_err();
    assert_eq!(none.kind(), Kind::Store);
    cache.restore(copies.path(), elsewhere.path()).await.unwrap();
    assert_eq!(cache.restore(copies.path(), elsewhere.path()).await.unwrap_err().kind(), Kind::AlreadyOpen);
    cache.open_in(elsewhere.path()).unwrap();
    assert_eq!((cache.get(1).unwrap(), family.get(2).unwrap()), (Some(100), Some(2)));
    assert_eq!(family.stats().unwrap().retention, Retention::Fifo { bytes: 1 << 20 });
    assert_eq!(cache.stats().unwrap().retention, Retention::Keep);
}

#[test]
fn b_39_a_store_of_a_newer_format_is_refused_with_a_way_out_and_left_alone() {
    let (cache, dir) = cache::<u32, u32>();
    let file = cache.path().unwrap().join("cache.toml");
    cache.close().unwrap();
    let newer = fs::read_to_string(&file).unwrap().replace("format = 1", "format = 2");
    fs::write(&file, &newer).unwrap();
    let error = cache.open_in(dir.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.report().contains("move the directory away"), "{}", error.report());
    assert_eq!(fs::read_to_string(&file).unwrap(), newer);
}
