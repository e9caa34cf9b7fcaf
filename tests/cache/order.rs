//! Scans agree with a sorted model for every type of key (B-32, D22, D23).

use std::cmp::Ordering;
use std::fmt::Debug;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use proptest::collection::vec;
use proptest::prelude::*;
use slipstream::Cache;
use slipstream::keys::Key;

use super::{all, keeping};

const CASES: u32 = 24;

fn clear<K: Key>(cache: &Cache<K, u32>) {
    for key in all(cache.keys()) {
        cache.delete(key).unwrap();
    }
}

fn fill<K: Key + Clone>(cache: &Cache<K, u32>, keys: &[K], compare: impl Fn(&K, &K) -> Ordering) -> Vec<(K, u32)> {
    clear(cache);
    let mut model: Vec<(K, u32)> = Vec::new();
    for (n, key) in (0..).zip(keys) {
        cache.put(key, n).unwrap();
        match model.binary_search_by(|(own, _)| compare(own, key)) {
            Ok(at) => model[at].1 = n,
            Err(at) => model.insert(at, (key.clone(), n)),
        }
    }
    model
}

/// All scans over `keys`, from each of them and from the ends, in both directions.
fn agree<K: Key + Clone + Debug>(cache: &Cache<K, u32>, keys: &[K], compare: impl Fn(&K, &K) -> Ordering) {
    let same = |ours: Vec<(K, u32)>, model: Vec<&(K, u32)>| {
        assert_eq!(ours.len(), model.len(), "{ours:?} against {model:?}");
        for (own, other) in ours.iter().zip(model) {
            assert!(compare(&own.0, &other.0) == Ordering::Equal && own.1 == other.1, "{own:?} against {other:?}");
        }
    };
    let model = fill(cache, keys, &compare);
    same(all(cache.items()), model.iter().collect());
    same(all(cache.items().rev()), model.iter().rev().collect());
    for from in keys {
        let at_or_after = model.iter().filter(|row| compare(&row.0, from) != Ordering::Less);
        same(all(cache.items().from(from)), at_or_after.collect());
        let at_or_before = model.iter().rev().filter(|row| compare(&row.0, from) != Ordering::Greater);
        same(all(cache.items().from(from).rev()), at_or_before.collect());
    }
    let values: Vec<_> = model.iter().map(|row| row.1).collect();
    assert_eq!(all(cache.values()), values);
}

fn holds<K: Key + Clone + Debug + Ord>(keys: impl Strategy<Value = K>) {
    holds_by(keys, K::cmp);
}

fn holds_by<K: Key + Clone + Debug>(keys: impl Strategy<Value = K>, compare: fn(&K, &K) -> Ordering) {
    let (cache, _dir) = keeping::<K, u32>();
    proptest!(ProptestConfig::with_cases(CASES), |(keys in vec(keys, 0..12))| {
        agree(&cache, &keys, compare);
    });
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..4)
}

fn text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('a'), any::<char>()], 0..4).prop_map(String::from_iter)
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (-4_000_000_000i64..4_000_000_000, 0u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos).unwrap())
}

#[test]
fn text_and_bytes() {
    holds(text());
    holds(bytes());
    holds(bytes().prop_map(Bytes::from));
}

#[test]
fn signed_integers() {
    holds(any::<i8>());
    holds(any::<i16>());
    holds(any::<i32>());
    holds(any::<i64>());
    holds(any::<i128>());
}

#[test]
fn unsigned_integers() {
    holds(any::<u8>());
    holds(any::<u16>());
    holds(any::<u32>());
    holds(any::<u64>());
    holds(any::<u128>());
}

#[test]
fn floats_in_total_order() {
    holds_by(proptest::num::f64::ANY, f64::total_cmp);
    holds_by(proptest::num::f32::ANY, f32::total_cmp);
}

#[test]
fn bools_chars_and_times() {
    holds(any::<bool>());
    holds(any::<char>());
    holds(time());
    holds::<NaiveDateTime>(time().prop_map(|time| time.naive_utc()));
    holds::<NaiveDate>(time().prop_map(|time| time.date_naive()));
    holds(any::<i64>().prop_map(TimeDelta::nanoseconds));
}

#[test]
fn tuples() {
    holds((text(), time()));
    holds((bytes(), any::<i8>(), text()));
    holds((any::<bool>(), text(), bytes(), any::<i16>()));
}

#[test]
fn prefixes_of_text_bytes_and_tuples_in_both_directions() {
    let (words, _a) = keeping::<String, u32>();
    let (blobs, _b) = keeping::<Vec<u8>, u32>();
    let (pairs, _c) = keeping::<(String, i8), u32>();
    let rows = vec((text(), bytes(), any::<i8>()), 0..12);
    proptest!(ProptestConfig::with_cases(CASES), |(rows in rows, start in text(), first in bytes())| {
        let (keys, _): (Vec<String>, Vec<u8>) = (rows.iter().map(|row| row.0.clone()).collect(), Vec::new());
        with_prefix(&words, &keys, start.as_str(), |key| key.starts_with(&start));
        let keys: Vec<_> = rows.iter().map(|row| row.1.clone()).collect();
        with_prefix(&blobs, &keys, first.as_slice(), |key| key.starts_with(&first));
        let keys: Vec<_> = rows.iter().map(|row| (row.0.clone(), row.2)).collect();
        if let Some((word, _)) = keys.first().cloned() {
            with_prefix(&pairs, &keys, (word.as_str(),), |key| key.0 == word);
        }
    });
}

fn with_prefix<K: Key + Clone + Debug + Ord>(
    cache: &Cache<K, u32>,
    keys: &[K],
    prefix: impl slipstream::keys::Prefix<K> + Copy,
    fits: impl Fn(&K) -> bool,
) {
    let model = fill(cache, keys, K::cmp);
    let fitting: Vec<_> = model.iter().filter(|row| fits(&row.0)).cloned().collect();
    assert_eq!(all(cache.items().prefix(prefix)), fitting);
    assert_eq!(all(cache.items().prefix(prefix).rev()), fitting.iter().rev().cloned().collect::<Vec<_>>());
    for from in keys {
        let after: Vec<_> = fitting.iter().filter(|row| row.0 >= *from).cloned().collect();
        assert_eq!(all(cache.items().prefix(prefix).from(from)), after, "from {from:?}");
        let before: Vec<_> = fitting.iter().rev().filter(|row| row.0 <= *from).cloned().collect();
        assert_eq!(all(cache.items().prefix(prefix).from(from).rev()), before, "back from {from:?}");
    }
}

#[test]
fn b_32_an_as_of_join_before_1970_finds_its_row() {
    let (weather, _dir) = keeping::<f64, u32>();
    for (n, time) in (0..).zip([0.0, 1.0, 2.5, 1000.0, -1.0, -2.5, -0.0, f64::NAN, f64::INFINITY]) {
        weather.put(time, n).unwrap();
    }
    let last = |from: f64| all(weather.keys().from(from).rev()).first().copied();
    assert_eq!(last(-2.0), Some(-2.5));
    assert_eq!(last(0.5), Some(0.0));
    assert_eq!(last(-3.0), None);
    assert_eq!(all(weather.keys().from(0.0).rev()).len(), 4, "0.0, -0.0, -1.0, -2.5");
}
