//! SIGKILL at any moment: afterwards every key has been counted once per record, and the position is the log's end.
//!
//! The app that is killed is this program again, told so by a variable; see [`the_app_that_is_killed`].

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use slipstream::Signals;
use slipstream::prelude::*;

use crate::support::{Disk, has, rows, run_until};

const DIR: &str = "TABLES_KILLED_IN";
const RECORDS: u64 = 120_000;
const KEYS: u64 = 89;
const KILLS: u64 = 8;

pub fn killed_app(conf: Conf, counts: &Table<String, u64>, sums: &Table<String, u64>) -> App {
    let fold = |message: Message<u64>, counts: &mut Rows<String, u64>, sums: &mut Rows<String, u64>| -> Result<u64> {
        let key = message.key()?;
        counts.update(key, |n| n.unwrap_or(0) + 1)?;
        sums.update(key, |sum| sum.unwrap_or(0) + message.value)?;
        Ok(message.value)
    };
    let conf = conf.with("table.generation.units", 500).with("table.generation.time", "5ms");
    let (input, output): (Topic<u64>, Topic<u64>) = (Topic::named("input"), Topic::named("output"));
    App::new().conf(conf).handle(input, fold, output).name("fold").table(counts).table(sums)
}

/// Not a test: what tests start, and kill or let fail.
#[test]
fn the_app_that_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (counts, sums): (Table<String, u64>, Table<String, u64>) = (Table::named("counts"), Table::named("sums"));
        let run = killed_app(Disk::at(dir.into()).conf(), &counts, &sums).signals(Signals::Ignore).run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        slipstream::testing::until(|| handle.stats().handled("input") > 0 || task.is_finished()).await;
        println!("handling");
        println!("ended {:?}", task.await.unwrap().map_err(|error| (error.kind(), error.report())));
    });
}

/// Starts the app. It says when it is handling records, and how it has ended.
pub fn command(disk: &Disk) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["kills::the_app_that_is_killed", "--exact", "--nocapture"]).env(DIR, disk.path());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Starts the app and kills it some time after it began to handle records.
pub fn kill_while_handling(disk: &Disk, after: Duration) {
    let mut child = command(disk).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_handling = lines.map_while(std::result::Result::ok).any(|line| line.contains("handling"));
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_handling, "it ended before it was killed");
}

/// Some come again and again, others for a while only.
pub fn key(n: u64) -> String {
    if n.is_multiple_of(7) { format!("early-{}", n / 500) } else { format!("key-{}", n % KEYS) }
}

/// Counts and sums of the first `records`.
pub fn fold(records: u64) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let (mut counts, mut sums) = (BTreeMap::new(), BTreeMap::new());
    for n in 0..records {
        *counts.entry(key(n)).or_insert(0) += 1;
        *sums.entry(key(n)).or_insert(0) += n;
    }
    (counts, sums)
}

#[test]
fn after_every_kill_each_record_is_counted_once() {
    let disk = Disk::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(disk.feed((0..RECORDS).map(|n| (key(n), n))));
    for kill in 0..KILLS {
        kill_while_handling(&disk, Duration::from_millis(5 + kill * 37 % 90));
    }
    runtime.block_on(each_is_counted_once(&disk, RECORDS));
}

/// A run comes to the end of the log, and the rows are the fold of all records.
pub async fn each_is_counted_once(disk: &Disk, records: u64) {
    let (counts, sums): (Table<String, u64>, Table<String, u64>) = (Table::named("counts"), Table::named("sums"));
    let mut found = None;
    let ended = run_until(killed_app(disk.conf(), &counts, &sums), || {
        found = has(&counts, i64::try_from(records).unwrap()).then(|| (rows(&counts), rows(&sums)));
        found.is_some()
    });
    ended.await.unwrap();
    assert_eq!(found.unwrap(), fold(records));
}
