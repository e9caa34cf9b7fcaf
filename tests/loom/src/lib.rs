//! The ack ring under loom: every interleaving of a lane with the sinks that acknowledge to it, up to a bound. The
//! ring's source is included by path, with loom's primitives in the place of the real ones.
#![cfg(test)]

#[path = "../../../src/error.rs"]
#[allow(dead_code, clippy::allow_attributes, reason = "the ring uses a part of it")]
mod error;

mod primitives {
    /// Loom's, with the names of the one from `futures`.
    pub(super) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(super) fn new() -> Self {
            Self(loom::future::AtomicWaker::new())
        }

        pub(super) fn register(&self, waker: &std::task::Waker) {
            self.0.register_by_ref(waker);
        }

        pub(super) fn wake(&self) {
            self.0.wake();
        }

        pub(super) fn take(&self) {
            drop(self.0.take_waker());
        }
    }

    pub(super) use loom::sync::Mutex;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

    /// The model knows nothing of processors: always a fence.
    pub(super) fn fence_after_rmw() {
        fence(Ordering::SeqCst);
    }
}

/// A ring of its own for each execution.
mod pool {
    use super::ring::{NONE, Ring};

    pub(super) fn take(len: u32) -> &'static Ring {
        Box::leak(Box::new(Ring::new(len, NONE)))
    }

    /// Lets go of the waker; the ring itself is leaked, as it is in the pool.
    pub(super) fn give_back(_len: u32, ring: &'static Ring) {
        ring.reset();
    }

    pub(super) fn by_id(_id: u32) -> Option<&'static Ring> {
        None
    }
}

#[path = "../../../src/flow/ring.rs"]
#[allow(dead_code, unfulfilled_lint_expectations, clippy::allow_attributes, reason = "a part of it, in a test")]
mod ring;

use std::future::poll_fn;
use std::task::Poll;

use error::{Error, Kind};
use ring::{Guard, Tracker};

fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Two units, held open once or twice.
fn two_units(tracker: &mut Tracker) -> (Vec<Guard>, Vec<Guard>) {
    let first = tracker.guard();
    let clone = first.clone();
    tracker.end_unit();
    let second = tracker.guard();
    tracker.end_unit();
    (vec![first, second], vec![clone])
}

#[test]
fn a_lane_that_waits_for_its_last_unit_is_always_woken() {
    model(|| {
        let mut tracker = Tracker::new(2);
        let (some, others) = two_units(&mut tracker);
        let sinks = [some, others].map(|guards| loom::thread::spawn(move || guards.into_iter().for_each(Guard::ok)));
        assert!(loom::future::block_on(poll_fn(|cx| tracker.poll_done(cx))).is_ok());
        assert_eq!(tracker.scan(), 2);
        sinks.into_iter().for_each(|sink| drop(sink.join()));
    });
}

#[test]
fn a_lane_that_waits_for_room_is_always_woken() {
    model(|| {
        let mut tracker = Tracker::new(2);
        let (some, others) = two_units(&mut tracker);
        let sinks = [some, others].map(|guards| loom::thread::spawn(move || guards.into_iter().for_each(Guard::ok)));
        loom::future::block_on(poll_fn(|cx| {
            while !tracker.has_room() {
                if tracker.watch(cx, false) {
                    return Poll::Pending;
                }
            }
            Poll::Ready(())
        }));
        sinks.into_iter().for_each(|sink| drop(sink.join()));
    });
}

#[test]
fn the_watermark_never_passes_a_unit_that_is_open() {
    model(|| {
        let mut tracker = Tracker::new(2);
        let (some, others) = two_units(&mut tracker);
        let sink = loom::thread::spawn(move || some.into_iter().for_each(Guard::ok));
        assert_eq!(tracker.scan(), 0, "the clone still holds the first unit");
        drop(sink.join());
        assert_eq!(tracker.scan(), 0);
        others.into_iter().for_each(Guard::ok);
        assert_eq!(tracker.scan(), 2);
    });
}

#[test]
fn a_failure_is_seen_whatever_else_happens() {
    model(|| {
        let mut tracker = Tracker::new(2);
        let (some, others) = two_units(&mut tracker);
        let ok = loom::thread::spawn(move || some.into_iter().for_each(Guard::ok));
        let fails = loom::thread::spawn(move || {
            others.into_iter().for_each(|guard| guard.fail(Error::new(Kind::Sink, "refused")));
        });
        let done = loom::future::block_on(poll_fn(|cx| tracker.poll_done(cx)));
        assert_eq!(done.map_err(|error| error.kind()), Err(Kind::Sink));
        assert_eq!(tracker.scan(), 0);
        drop((ok.join(), fails.join()));
    });
}
