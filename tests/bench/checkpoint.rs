//! Handlers behind a checkpoint, kept with positions, against the same handlers without one. The dependency moves all
//! the time: it is paced by how far the dependent is, on both sides of a pair.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use slipstream::checkpoint::{Counts, Doing};
use slipstream::prelude::*;
use slipstream::testing::until;
use tokio::sync::Notify;

use crate::embedded::{conf, fill};
use crate::payments::{Payment, double};
use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled};

/// From one rate to the next, in numbers of payments.
const STEP: u64 = 10;
/// How far a rate may be ahead of the furthest payment: about as much as the four lanes handle in a turn.
const LEAD: u64 = 1000;
/// The furthest payment is told in steps of these.
const TOLD: u64 = 64;
/// How far payments may be ahead of rates in detect mode.
const THRESHOLD: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guarding {
    Detect,
    Hold,
    Off,
}

/// Lets the rates come as they do while both are written: never far ahead.
#[derive(Default)]
struct Pace {
    furthest: AtomicU64,
    told: Notify,
}

impl Pace {
    #[inline]
    fn handled(&self, id: u64) {
        if id >= self.furthest.load(Relaxed) + TOLD {
            self.furthest.fetch_max(id, Relaxed);
            self.told.notify_one();
        }
    }

    async fn come(&self, rate: u64) {
        while self.furthest.load(Relaxed) + LEAD < rate {
            self.told.notified().await;
        }
    }
}

/// What became of the messages of a pass that is not measured.
#[derive(Default)]
struct Tally {
    /// The last rate that was handled, and what it was at the last payment of each partition.
    rate: AtomicU64,
    seen: [AtomicU64; 4],
    /// How often the marker of the next payment of each partition was asked for.
    asked: [AtomicU64; 4],
    handled: AtomicU64,
    held: AtomicU64,
    ahead: AtomicU64,
    moved: AtomicU64,
}

fn partition(payment: &Message<Payment>) -> usize {
    usize::try_from(payment.partition).unwrap()
}

impl Tally {
    fn asked(&self, payment: &Message<Payment>) {
        self.asked[partition(payment)].fetch_add(1, Relaxed);
    }

    fn handled(&self, payment: &Message<Payment>) {
        let (at, rate) = (partition(payment), self.rate.load(Relaxed));
        let count = |counter: &AtomicU64, is_so: bool| counter.fetch_add(u64::from(is_so), Relaxed);
        count(&self.handled, true);
        count(&self.held, self.asked[at].swap(0, Relaxed) > 1);
        count(&self.ahead, payment.value.id >= rate);
        count(&self.moved, self.seen[at].swap(rate, Relaxed) != rate);
    }

    fn print(&self, name: &str) {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        println!(
            "{name:<16} of {} payments in a pass beside: {} held, {} at or beyond the last rate, {} after another rate \
             than the one before in their partition",
            count(&self.handled),
            count(&self.held),
            count(&self.ahead),
            count(&self.moved)
        );
    }
}

struct Passed {
    time: Duration,
    counts: Counts,
    again: u64,
}

pub fn detect() -> Row {
    guarded("checkpoint", Guarding::Detect)
}

pub fn hold() -> Row {
    guarded("checkpoint-hold", Guarding::Hold)
}

fn guarded(name: &str, guarding: Guarding) -> Row {
    let count = scaled(2_000_000);
    let place = tempfile::tempdir().unwrap();
    fill(place.path(), count);
    fill_rates(place.path(), count);
    let lives = Cell::new(0);
    let run = |guarding, tally| {
        lives.set(lives.get() + 1);
        pass(place.path(), lives.get(), count, guarding, tally)
    };
    let tally = Arc::new(Tally::default());
    run(guarding, Some(Arc::clone(&tally)));
    tally.print(name);
    let passes = RefCell::new(Vec::new());
    let ours = || {
        let one = run(guarding, None);
        let time = one.time;
        passes.borrow_mut().push(one);
        time
    };
    let row = compare(name, 0.7, count, ours, || run(Guarding::Off, None).time);
    print_passes(name, &passes.into_inner());
    row
}

fn print_passes(name: &str, passes: &[Passed]) {
    let of = |what: fn(&Passed) -> u64| passes.iter().map(what).collect::<Vec<_>>();
    let outages = of(|passed| passed.counts.downs);
    let (rewinds, again) = (of(|passed| passed.counts.rewinds), of(|passed| passed.again));
    println!("{name:<16} outages {outages:?}, partitions sent back {rewinds:?}, payments handled again {again:?}");
}

/// As many as make numbers beyond those of all payments.
fn rates(count: u64) -> u64 {
    count / STEP + 1
}

fn fill_rates(place: &Path, count: u64) {
    two_workers().block_on(async {
        let topic: Topic<u64> = Topic::new("rates").partitions(1);
        let numbers = stream::iter((1..=rates(count)).map(|beat| beat * STEP));
        App::new().handle(numbers, |n: u64| n, topic).conf(conf(place, "fill-rates")).run().await.unwrap();
    });
}

fn checkpoint(guarding: Guarding, tally: Option<Arc<Tally>>) -> Checkpoint<Message<Payment>> {
    Checkpoint::named("payments", move |it| {
        let tally = tally.clone();
        let number = move |payment: &Message<Payment>| {
            if let Some(tally) = &tally {
                tally.asked(payment);
            }
            payment.value.id
        };
        let dependency = Topic::<u64>::new("rates").partitions(1);
        let it = it.dependent(Topic::<Payment>::new("payments"), number).dependency(Dependency::new(
            "rates",
            dependency,
            |rate| rate.value,
        ));
        if guarding == Guarding::Hold { it.hold() } else { it.threshold(THRESHOLD) }
    })
}

/// The time from the start of an app without positions until everything is handled and the app has closed, with its last
/// positions.
fn pass(folder: &Path, life: u32, count: u64, guarding: Guarding, tally: Option<Arc<Tally>>) -> Passed {
    let checkpoint = checkpoint(guarding, tally.clone());
    let watched = checkpoint.clone();
    let pace = Arc::new(Pace::default());
    let (ahead, rated) = (Arc::clone(&pace), tally.clone());
    let keep = move |rate: u64| {
        let (ahead, rated) = (Arc::clone(&ahead), rated.clone());
        async move {
            ahead.come(rate).await;
            if let Some(tally) = rated {
                tally.rate.store(rate, Relaxed);
            }
        }
    };
    let handle = move |payment: Message<Payment>| {
        if let Some(tally) = &tally {
            tally.handled(&payment);
        }
        pace.handled(payment.value.id);
        double(payment)
    };
    let passed = two_workers().block_on(async {
        let doubled: Topic<Payment> = Topic::named(format!("guarded-{life}"));
        let dependency = Topic::<u64>::new("rates").partitions(1);
        let app = App::new().conf(conf(folder, &format!("guarded-{life}"))).handle(dependency, keep, ());
        let run = match guarding {
            Guarding::Off => app.handle(Topic::<Payment>::new("payments"), handle, doubled).run(),
            Guarding::Detect | Guarding::Hold => app.handle(checkpoint, handle, doubled).run(),
        };
        let running = run.handle();
        // Positions go back when messages are to be handled again, the count of messages does not.
        let is_done = |source: &str, records: u64| {
            let sources = running.stats().sources.into_iter().filter(|totals| totals.name == source);
            let positions = sources.flat_map(|totals| totals.lanes).filter_map(|lane| lane.position);
            positions.sum::<i64>() == i64::try_from(records).unwrap()
        };
        let is_calm = || guarding == Guarding::Off || watched.status().unwrap().doing == Doing::Running;
        let began = Instant::now();
        let task = tokio::spawn(run.into_future());
        until(|| is_done("rates", rates(count)) && is_calm() && is_done("payments", count)).await;
        let counts = watched.status().map(|status| status.counts).unwrap_or_default();
        let again = running.stats().handled("payments") - count;
        running.trigger();
        task.await.unwrap().unwrap();
        Passed { time: began.elapsed(), counts, again }
    });
    for partition in 0..4 {
        std::fs::remove_dir_all(folder.join(format!("log/guarded-{life}-{partition}"))).unwrap();
    }
    passed
}
