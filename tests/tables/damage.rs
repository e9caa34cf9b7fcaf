//! Damaged files of a store, after a clean end and after a SIGKILL: what is counted afterwards is right, or the start is
//! refused and a file is named. Never a wrong count, never a short list.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use slipstream::Signals;
use slipstream::prelude::*;

use crate::kills::{fold, kill_while_handling, killed_app};
use crate::support::{Disk, has, rows_of, until_or_ended};

/// Records per batch, of which each store has seen two, and a third is still to be read.
const BATCH: u64 = 2_000;
const ALL: u64 = 3 * BATCH;

/// Places of a file that are damaged, one after the other; more of them with `CHAOS_LENGTH=full`.
fn places() -> u64 {
    if std::env::var("CHAOS_LENGTH").is_ok_and(|length| length == "full") { 20 } else { 4 }
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip,
    Truncate,
    ZeroTail,
    Delete,
}

impl Damage {
    /// At `place` of so many; false where the file is too short for that.
    fn apply(self, path: &Path, place: u64, places: u64) -> bool {
        let len = fs::metadata(path).unwrap().len();
        let at = len * (2 * place + 1) / (2 * places);
        let open = || fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        match self {
            Self::Delete => fs::remove_file(path).unwrap(),
            _ if at >= len => return false,
            Self::Truncate => open().set_len(at).unwrap(),
            Self::ZeroTail => open().write_all_at(&vec![0; usize::try_from(len - at).unwrap()], at).unwrap(),
            Self::Flip => {
                let (file, mut byte) = (open(), [0]);
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
            }
        }
        true
    }
}

/// Copies a directory; what is in it may be damaged then.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn files(disk: &Disk) -> Vec<PathBuf> {
    let files = fs::read_dir(disk.tables().join("db")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| !["LOCK", "LOG"].iter().any(|name| file.ends_with(name))).collect();
    files.sort();
    files
}

fn ending_in(disk: &Disk, ending: &str) -> Vec<PathBuf> {
    files(disk).into_iter().filter(|file| file.extension().is_some_and(|own| own == ending)).collect()
}

/// What the next run makes of it: the rows if they are right, or why there are none.
async fn start(disk: &Disk) -> std::result::Result<(), slipstream::Error> {
    let (counts, sums): (Table<String, u64>, Table<String, u64>) = (Table::named("counts"), Table::named("sums"));
    let run = killed_app(disk.conf(), &counts, &sums).signals(Signals::Ignore).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    let all = i64::try_from(ALL).unwrap();
    let waited = tokio::time::timeout(Duration::from_mins(1), until_or_ended(&handle, || has(&counts, all))).await;
    assert!(waited.is_ok(), "it neither ends nor goes on: {:?}", handle.health());
    let found = (all_of(&counts), all_of(&sums));
    handle.trigger();
    task.await.unwrap()?;
    assert_eq!((found.0?, found.1?), fold(ALL), "rows differ");
    Ok(())
}

fn all_of(table: &Table<String, u64>) -> Result<BTreeMap<String, u64>> {
    table.items().iter().collect()
}

/// Every damage at every place of every file, in a copy of `disk`.
async fn matrix(disk: &Disk) {
    let base = disk.tables();
    let base = base.strip_prefix(disk.path()).unwrap();
    let (mut right, mut refused) = (0, BTreeMap::new());
    let whole = tempfile::tempdir().unwrap();
    copy(disk.path(), whole.path());
    start(&Disk::at(whole.path().to_owned())).await.unwrap();
    for file in files(disk) {
        for damage in [Damage::Flip, Damage::Truncate, Damage::ZeroTail, Damage::Delete] {
            let places = if matches!(damage, Damage::Delete) { 1 } else { places() };
            for place in 0..places {
                let temporary = tempfile::tempdir().unwrap();
                copy(disk.path(), temporary.path());
                let damaged = temporary.path().join(base).join("db").join(file.file_name().unwrap());
                if !damage.apply(&damaged, place, places) {
                    continue;
                }
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                match start(&Disk::at(temporary.path().to_owned())).await {
                    Ok(()) => right += 1,
                    Err(error) => {
                        let said = error.report();
                        let dir = temporary.path().to_string_lossy().into_owned();
                        assert!(said.contains(&dir), "{name} {damage:?} at {place}: names no file: {said}");
                        let said = said.replace(&dir, "").replace(&*base.to_string_lossy(), "");
                        *refused.entry((name, format!("{:?}: {said}", error.kind()))).or_insert(0) += 1;
                    }
                }
            }
        }
    }
    let refusals: u64 = refused.values().sum();
    eprintln!("{right} starts are right, {refusals} are refused: {refused:#?}");
    assert!(right > 0 && refusals > 0);
}

/// A log of three batches, two of which are counted: one is in table files, since the store was opened again, the other
/// in RocksDB's log.
async fn counted_twice() -> Disk {
    let disk = Disk::new();
    for batch in 0..2 {
        disk.feed(records(batch)).await;
        let (counts, sums): (Table<String, u64>, Table<String, u64>) = (Table::named("counts"), Table::named("sums"));
        let done = i64::try_from((batch + 1) * BATCH).unwrap();
        let app = killed_app(disk.conf(), &counts, &sums);
        crate::support::run_until(app, || has(&counts, done) && rows_of(&sums).is_some()).await.unwrap();
    }
    disk
}

fn records(batch: u64) -> impl Iterator<Item = (String, u64)> {
    (batch * BATCH..(batch + 1) * BATCH).map(|n| (crate::kills::key(n), n))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_after_a_clean_end_is_made_good_or_refused() {
    let disk = counted_twice().await;
    disk.feed(records(2)).await;
    matrix(&disk).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_after_a_kill_is_made_good_or_refused() {
    let disk = counted_twice().await;
    disk.feed(records(2)).await;
    kill_while_handling(&disk, Duration::from_millis(5));
    matrix(&disk).await;
}

/// Rows of one table fill write buffers, and only those: what is not in table files then must not be older than they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_behind_full_write_buffers_is_made_good_or_refused() {
    let disk = Disk::new();
    disk.feed(records(0)).await;
    run_large(&disk, i64::try_from(BATCH).unwrap()).await.unwrap();
    disk.feed(records(1)).await;
    let base = disk.tables();
    let base = base.strip_prefix(disk.path()).unwrap();
    let (logs, tables) = (ending_in(&disk, "log"), ending_in(&disk, "sst"));
    assert!(!logs.is_empty() && tables.len() > 1, "buffers were full: {:?}", files(&disk));
    for file in &logs {
        for damage in [Damage::Delete, Damage::Truncate, Damage::ZeroTail, Damage::Flip] {
            let temporary = tempfile::tempdir().unwrap();
            copy(disk.path(), temporary.path());
            assert!(damage.apply(&temporary.path().join(base).join("db").join(file.file_name().unwrap()), 1, 2));
            let again = Disk::at(temporary.path().to_owned());
            if let Err(error) = run_large(&again, i64::try_from(2 * BATCH).unwrap()).await {
                assert_eq!(error.kind(), slipstream::Kind::Corrupt, "{}", error.report());
                let place = error.place().unwrap_or_default();
                assert!(place.starts_with(&*temporary.path().to_string_lossy()), "{}", error.report());
            }
        }
    }
}

async fn run_large(disk: &Disk, records: i64) -> Result<()> {
    let counts: Table<String, u64> = Table::named("counts").merge(|a, b| a + b);
    let blobs: Table<u64, Bytes> = Table::named("blobs");
    let fold = |message: Message<u64>, counts: &mut Rows<String, u64>, blobs: &mut Rows<u64, Bytes>| -> Result<()> {
        blobs.put(message.value, Bytes::from(vec![u8::try_from(message.value % 251).unwrap(); 40 << 10]))?;
        counts.update(format!("{}", message.value / 100), |n| n.unwrap_or(0) + 1)
    };
    let input: Topic<u64> = Topic::named("input");
    let app = App::new().conf(disk.conf()).handle(input, fold, ()).name("fold").table(&counts).table(&blobs);
    let mut found = None;
    crate::support::run_until(app, || {
        if has(&counts, records) {
            found = Some((all_of(&counts), blobs.items().iter().collect::<Result<Vec<_>>>().map(|rows| rows.len())));
        }
        found.is_some()
    })
    .await?;
    let (counts, blobs) = found.unwrap();
    let expected: BTreeMap<_, _> = (0..records / 100).map(|n| (n.to_string(), 100)).collect();
    assert_eq!((counts?, blobs?), (expected, usize::try_from(records).unwrap()));
    Ok(())
}
