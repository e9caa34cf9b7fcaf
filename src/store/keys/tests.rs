//! The bytes sort as the keys do, and read back as what was written.

use std::cmp::Ordering;
use std::fmt::Debug;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{AsKey, Key, Prefix, decode, encode};

fn holds<K: Key + Debug + Clone>(a: &K, b: &K, compare: impl Fn(&K, &K) -> Ordering) {
    let (bytes_a, bytes_b) = (encode::<K>(a), encode::<K>(b));
    assert_eq!(bytes_a.cmp(&bytes_b), compare(a, b), "{a:?} against {b:?}");
    assert_eq!(compare(&decode::<K>(&bytes_a).unwrap(), a), Ordering::Equal, "{a:?} read back");
    // In front of another element, the order of that element only decides when the first ones are equal.
    let pairs = (encode::<(K, u8)>((a, 1)), encode::<(K, u8)>((b, 0)));
    assert_eq!(pairs.0.cmp(&pairs.1), compare(a, b).then(Ordering::Greater), "({a:?}, 1) against ({b:?}, 0)");
    let (again, one) = decode::<(K, u8)>(&pairs.0).unwrap();
    assert_eq!((compare(&again, a), one), (Ordering::Equal, 1));
}

fn ordered<K: Key + Debug + Clone + Ord>(a: &K, b: &K) {
    holds(a, b, K::cmp);
}

/// Bytes in which zeros, 255 and common beginnings are frequent.
fn tricky() -> impl Strategy<Value = Vec<u8>> + Clone {
    vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..6)
}

fn text() -> impl Strategy<Value = String> + Clone {
    vec(prop_oneof![Just('\0'), Just('a'), any::<char>()], 0..5).prop_map(String::from_iter)
}

fn time() -> impl Strategy<Value = DateTime<Utc>> + Clone {
    (-4_000_000_000_000i64..4_000_000_000_000, 0u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos).unwrap())
}

fn delta() -> impl Strategy<Value = TimeDelta> + Clone {
    any::<i64>().prop_map(TimeDelta::nanoseconds)
}

proptest! {
    #[test]
    fn integers_sort_by_value(a: (i8, i16, i32, i64, i128), b: (i8, i16, i32, i64, i128)) {
        ordered(&a.0, &b.0);
        ordered(&a.1, &b.1);
        ordered(&a.2, &b.2);
        ordered(&a.3, &b.3);
        ordered(&a.4, &b.4);
    }

    #[test]
    fn unsigned_integers_sort_by_value(a: (u8, u16, u32, u64, u128), b: (u8, u16, u32, u64, u128)) {
        ordered(&a.0, &b.0);
        ordered(&a.1, &b.1);
        ordered(&a.2, &b.2);
        ordered(&a.3, &b.3);
        ordered(&a.4, &b.4);
    }

    #[test]
    fn floats_sort_in_total_order(a in proptest::num::f64::ANY, b in proptest::num::f64::ANY, c: u32, d: u32) {
        holds(&a, &b, f64::total_cmp);
        holds(&f32::from_bits(c), &f32::from_bits(d), f32::total_cmp);
    }

    #[test]
    fn text_and_bytes_sort_bytewise(a in tricky(), b in tricky(), c in text(), d in text(), e: [u8; 3], f: [u8; 3]) {
        ordered(&a, &b);
        ordered(&Bytes::from(a), &Bytes::from(b));
        ordered(&c, &d);
        ordered(&e, &f);
    }

    #[test]
    fn small_types_sort_by_value(a: (bool, char), b: (bool, char)) {
        ordered(&a.0, &b.0);
        ordered(&a.1, &b.1);
    }

    #[test]
    fn times_sort_by_time(a in time(), b in time(), c in delta(), d in delta(), e: u64, f: u64) {
        ordered(&a, &b);
        ordered::<NaiveDateTime>(&a.naive_utc(), &b.naive_utc());
        ordered::<NaiveDate>(&a.date_naive(), &b.date_naive());
        ordered::<NaiveTime>(&a.time(), &b.time());
        ordered(&c, &d);
        ordered(&std::time::Duration::from_nanos(e), &std::time::Duration::from_nanos(f));
    }

    #[test]
    fn tuples_sort_element_by_element(
        a in (text(), tricky(), any::<i16>(), text()),
        b in (text(), tricky(), any::<i16>(), text()),
    ) {
        ordered(&(a.0.clone(),), &(b.0.clone(),));
        ordered(&(a.0.clone(), a.1.clone()), &(b.0.clone(), b.1.clone()));
        ordered(&(a.0.clone(), a.2, a.1.clone()), &(b.0.clone(), b.2, b.1.clone()));
        ordered(&a, &b);
    }

    #[test]
    fn a_prefix_finds_exactly_the_keys_that_start_with_it(key in text(), start in text(), rest: i8) {
        let mut prefix = Vec::new();
        Prefix::<String>::encode_prefix(&start, &mut prefix);
        assert_eq!(encode::<String>(&key).starts_with(&prefix), key.starts_with(&start));
        let mut prefix = Vec::new();
        Prefix::<(String, i8)>::encode_prefix(&(start.as_str(),), &mut prefix);
        assert_eq!(encode::<(String, i8)>((&key, rest)).starts_with(&prefix), key == start);
    }

    #[test]
    fn foreign_bytes_are_an_error_or_a_key_and_never_a_panic(bytes in tricky()) {
        let _ = (decode::<String>(&bytes), decode::<(String, char)>(&bytes), decode::<(bool, f32)>(&bytes));
        let _ = (decode::<DateTime<Utc>>(&bytes), decode::<TimeDelta>(&bytes), decode::<(Vec<u8>, i8, bool)>(&bytes));
    }
}

#[test]
fn the_corners_of_b_32_sort() {
    let mut floats = [f64::NAN, 2.5, -0.0, f64::INFINITY, 0.0, -2.5, f64::NEG_INFINITY, 1000.0, -f64::NAN, -300.0];
    floats.sort_by(f64::total_cmp);
    let encoded: Vec<_> = floats.iter().map(encode::<f64>).collect();
    assert!(encoded.is_sorted());
    let integers = [i128::MIN, i128::from(i64::MIN), -300, -1, 0, 1000, i128::from(u64::MAX), i128::MAX];
    assert!(integers.iter().map(encode::<i128>).is_sorted());
    assert!([i64::MIN, -1, 0, i64::MAX].iter().map(encode::<i64>).is_sorted());
}

#[test]
fn a_leap_second_reads_back() {
    let leap = NaiveDate::from_ymd_opt(2016, 12, 31).unwrap().and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap();
    assert_eq!(decode::<NaiveDateTime>(&encode::<NaiveDateTime>(leap)).unwrap(), leap);
}

#[test]
fn a_borrowed_form_has_the_bytes_of_the_owned_one() {
    let mut out = Vec::new();
    AsKey::<(String, Vec<u8>)>::encode_last(&("a", b"\0b"), &mut out);
    assert_eq!(out, encode::<(String, Vec<u8>)>(&("a".to_owned(), b"\0b".to_vec())));
}
