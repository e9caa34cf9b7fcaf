//! A disk that is full when rows are to be stored. Needs the right to mount a file system; without it the test says that
//! it did not run.

use std::collections::BTreeMap;
use std::time::Duration;

use slipstream::Signals;
use slipstream::prelude::*;

use crate::small::Small;
use crate::support::{Disk, has, rows_of, until_or_ended};

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..4096).map(|_| random.u8(..)).collect()
}

const RECORDS: u64 = 1500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_holds_everything_and_passes() -> Result<()> {
    let Some(small) = Small::mount(24) else { return Ok(()) };
    let disk = Disk::new();
    disk.feed((0..RECORDS).map(|n| (n.to_string(), n))).await;
    let ballast = small.path().join("ballast");
    std::fs::write(&ballast, vec![1; 20 << 20]).unwrap();
    let table: Table<String, Vec<u8>> = Table::named("noise");
    let put = |message: Message<u64>, rows: &mut Rows<String, Vec<u8>>| -> Result<u64> {
        rows.put(message.key()?, noise(message.value))?;
        Ok(message.value)
    };
    let conf = disk.conf().with("state.dir", small.path().display().to_string()).with("table.generation.units", 50);
    let (input, output): (Topic<u64>, Topic<u64>) = (Topic::named("input"), Topic::named("output"));
    let run = App::new().conf(conf).handle(input, put, output).name("put").table(&table).signals(Signals::Ignore).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    let is_full = || handle.health().notices.iter().any(|notice| notice.contains("no space"));
    until_or_ended(&handle, is_full).await;
    assert!(is_full(), "{:?}", handle.health());
    // Nothing is handled meanwhile.
    let handled = || handle.stats().handled("input");
    let before = loop {
        let before = handled();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if handled() == before {
            break before;
        }
    };
    assert!(before < RECORDS);
    std::fs::remove_file(&ballast).unwrap();
    let all = i64::try_from(RECORDS).unwrap();
    let done = tokio::time::timeout(Duration::from_mins(1), until_or_ended(&handle, || has(&table, all))).await;
    assert!(done.is_ok(), "{:?}", handle.health());
    let expected: BTreeMap<_, _> = (0..RECORDS).map(|n| (n.to_string(), noise(n))).collect();
    assert!(rows_of(&table).unwrap() == expected, "rows differ");
    assert!(handle.health().notices.is_empty(), "{:?}", handle.health());
    handle.trigger();
    task.await.unwrap()
}
