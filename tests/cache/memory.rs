//! B-37: iterators, snapshots and families give back what they take.
//!
//! Resident memory belongs to the process, so that each measurement runs in one of its own.

use std::process::Command;

use slipstream::Retention;

use super::cache;

const ALONE: &str = "SLIPSTREAM_TEST_ALONE";
const ROUNDS: u32 = 100_000;
const GROWTH_KIB: u64 = 24 * 1024;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs the body of the test `name` in a process of its own.
fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    let run = Command::new(std::env::current_exe().unwrap()).args([&name, "--exact"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&run.stderr));
}

fn stays_flat(warm_up: u32, rounds: u32, round: impl Fn(u32)) {
    (0..warm_up).for_each(&round);
    let before = resident_kib();
    (0..rounds).for_each(&round);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB, "{grown} KiB more after {rounds} rounds");
}

#[test]
fn b_37_memory_stays_flat_over_iterators_and_snapshots() {
    alone("b_37_memory_stays_flat_over_iterators_and_snapshots", || {
        let (cache, _dir) = cache::<u32, u32>();
        for n in 0..100 {
            cache.put(n, n).unwrap();
        }
        stays_flat(ROUNDS / 10, ROUNDS, |n| {
            let snapshot = cache.snapshot().unwrap();
            assert_eq!(snapshot.get(n % 100).unwrap(), Some(n % 100));
            assert!(cache.items().from(n % 100).iter().next().is_some());
        });
        assert_eq!(cache.stats().unwrap().snapshots, 0);
    });
}

#[test]
fn b_37_memory_stays_flat_over_families() {
    alone("b_37_memory_stays_flat_over_families", || {
        let (cache, _dir) = cache::<u32, u32>();
        stays_flat(50, 200, |_| {
            let family = cache.create_family::<u32, u32>("f", Retention::Keep).unwrap();
            family.put(1, 1).unwrap();
            cache.drop_family("f").unwrap();
            assert!(family.get(1).is_err());
        });
    });
}

#[test]
fn a_store_whose_directory_vanishes_ends_without_a_crash() {
    let (cache, dir) = cache::<u32, u32>();
    for _ in 0..60 {
        cache.create_family::<u32, u32>("f", Retention::Keep).unwrap();
        cache.drop_family("f").unwrap();
    }
    drop(dir);
    drop(cache);
}
