//! B-37: iterators, snapshots and families give back what they take.

use slipstream::Retention;

use super::cache;

const ROUNDS: u32 = 100_000;
const GROWTH_KIB: u64 = 24 * 1024;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn b_37_memory_stays_flat_over_iterators_and_snapshots() {
    let (cache, _dir) = cache::<u32, u32>();
    for n in 0..100 {
        cache.put(n, n).unwrap();
    }
    let round = |n: u32| {
        let snapshot = cache.snapshot().unwrap();
        assert_eq!(snapshot.get(n % 100).unwrap(), Some(n % 100));
        assert!(cache.items().from(n % 100).iter().next().is_some());
    };
    (0..ROUNDS / 10).for_each(round);
    let before = resident_kib();
    (0..ROUNDS).for_each(round);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB, "{grown} KiB more after {ROUNDS} iterators and snapshots");
    assert_eq!(cache.stats().unwrap().snapshots, 0);
}

#[test]
fn b_37_memory_stays_flat_over_families() {
    let (cache, _dir) = cache::<u32, u32>();
    let round = |_| {
        let family = cache.create_family::<u32, u32>("f", Retention::Keep).unwrap();
        family.put(1, 1).unwrap();
        cache.drop_family("f").unwrap();
        assert!(family.get(1).is_err());
    };
    (0..50).for_each(round);
    let before = resident_kib();
    (0..200).for_each(round);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB, "{grown} KiB more after 200 families");
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
