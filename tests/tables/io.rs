//! A disk that breaks while rows are stored: the run ends with the reason, and what was not stored is not done. A library
//! that is preloaded into the app lets calls of the operating system fail.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::kills::{command, each_is_counted_once, key};
use crate::support::Disk;

const RECORDS: u64 = 120_000;

/// The app until it ends, and what it says at the end. The disk breaks some time after it began to handle records.
fn run_until_broken(disk: &Disk, library: &Path, what: &str, after: Duration) -> String {
    let when = disk.path().join("breaks");
    let mut command = command(disk);
    command.env("LD_PRELOAD", library).env("FAIL_WHEN", &when).env("FAIL_WHAT", what).env("FAIL_BELOW", "/tables/");
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
    assert!(lines.any(|line| line.contains("handling")));
    std::thread::sleep(after);
    std::fs::write(&when, "").unwrap();
    let said = lines.find(|line| line.starts_with("ended"));
    std::fs::remove_file(&when).unwrap();
    child.wait().unwrap();
    said.unwrap()
}

/// Builds the library that lets the disk break.
fn library(directory: &Path) -> std::path::PathBuf {
    let library = directory.join("failing_disk.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/failing_disk.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compile.status().unwrap().success());
    library
}

fn breaks(what: &str) {
    let (disk, outside) = (Disk::new(), tempfile::tempdir().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(disk.feed((0..RECORDS).map(|n| (key(n), n))));
    let library = library(outside.path());
    for round in 0..4 {
        let said = run_until_broken(&disk, &library, what, Duration::from_millis(round * 13));
        assert!(said.contains("Io") && said.contains("the disk failed") && said.contains("/tables/"), "{said}");
    }
    runtime.block_on(each_is_counted_once(&disk, RECORDS));
}

#[test]
fn a_write_that_fails_ends_the_run_and_loses_nothing() {
    breaks("write");
}

#[test]
fn a_sync_that_fails_ends_the_run_and_loses_nothing() {
    breaks("sync");
}
