//! The ring with its real primitives; `tests/loom` has it under a model checker.

use super::ring::{Guard, Tracker};
use crate::error::Kind;

#[test]
fn a_unit_that_nobody_holds_is_done_when_it_ends() {
    let mut tracker = Tracker::new(4);
    tracker.end_unit();
    tracker.end_unit();
    assert_eq!(tracker.scan(), 2);
}

#[test]
fn the_watermark_never_passes_an_open_unit() {
    let mut tracker = Tracker::new(4);
    let guards: Vec<_> = (0..3)
        .map(|_| {
            let guard = tracker.guard();
            tracker.end_unit();
            guard
        })
        .collect();
    let mut guards = guards.into_iter();
    let first = guards.next();
    guards.for_each(Guard::ok);
    assert_eq!(tracker.scan(), 0);
    first.into_iter().for_each(Guard::ok);
    assert_eq!(tracker.scan(), 3);
}

#[test]
fn a_full_ring_has_no_room_until_the_oldest_is_done() {
    let mut tracker = Tracker::new(2);
    let first = tracker.guard();
    tracker.end_unit();
    tracker.end_unit();
    assert!(!tracker.has_room());
    first.ok();
    assert!(tracker.has_room());
}

#[test]
fn a_dropped_guard_is_a_failure_and_holds_the_watermark() {
    let mut tracker = Tracker::new(2);
    drop(tracker.guard());
    tracker.end_unit();
    assert_eq!(tracker.scan(), 0);
    assert_eq!(tracker.take_failure().map(|error| error.kind()), Some(Kind::Abandoned));
}

#[test]
fn an_ack_that_comes_after_its_lane_has_gone_does_not_touch_another() {
    let mut old = Tracker::new(64);
    let late = old.guard();
    old.end_unit();
    drop(old);
    let mut new = Tracker::new(64);
    let held = new.guard();
    new.end_unit();
    late.ok();
    assert_eq!(new.scan(), 0);
    held.ok();
    assert_eq!(new.scan(), 1);
}

/// Random schedules against a model that keeps a count per unit: the watermark is always the first unit that is open.
#[test]
fn the_watermark_equals_that_of_a_model_over_random_schedules() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..2_000 {
        let mut tracker = Tracker::new(8);
        let mut open: Vec<(u64, Guard)> = Vec::new();
        let mut begun = 0_u64;
        for _ in 0..200 {
            match next(4) {
                0 | 1 if tracker.has_room() => {
                    for _ in 0..next(3) {
                        open.push((begun, tracker.guard()));
                    }
                    tracker.end_unit();
                    begun += 1;
                }
                2 if !open.is_empty() => {
                    let at = usize::try_from(next(open.len() as u64)).unwrap();
                    let (unit, guard) = open[at].clone();
                    open.push((unit, guard));
                }
                _ if !open.is_empty() => {
                    let at = usize::try_from(next(open.len() as u64)).unwrap();
                    open.swap_remove(at).1.ok();
                }
                _ => {}
            }
            let expected = open.iter().map(|(unit, _)| *unit).min().unwrap_or(begun);
            assert_eq!(tracker.scan(), expected);
        }
        open.into_iter().for_each(|(_, guard)| guard.ok());
        assert_eq!(tracker.scan(), begun);
    }
}
