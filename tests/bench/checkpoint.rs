//! Handlers behind a checkpoint, kept with positions, against the same handlers without one.

use std::path::Path;
use std::time::Duration;

use slipstream::prelude::*;

use crate::embedded::{conf, fill};
use crate::payments::{self, Payment, double};
use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled};

const HEARTBEATS: u64 = 10_000;

#[derive(Clone, Copy)]
enum Guarding {
    Hold,
    Off,
}

pub fn guarded() -> Row {
    let count = scaled(1_000_000);
    let place = tempfile::tempdir().unwrap();
    fill(place.path(), count);
    fill_rates(place.path(), count);
    let lives = std::cell::Cell::new(0);
    let run = |guarding| {
        lives.set(lives.get() + 1);
        pass(place.path(), lives.get(), count, guarding)
    };
    compare("checkpoint", 0.7, count, || run(Guarding::Hold), || run(Guarding::Off))
}

/// Numbers that rise beyond those of all payments.
fn fill_rates(place: &Path, count: u64) {
    two_workers().block_on(async {
        let rates: Topic<u64> = Topic::new("rates").partitions(1);
        let step = count / HEARTBEATS + 1;
        let numbers = stream::iter((1..=HEARTBEATS).map(move |beat| beat * step));
        App::new().handle(numbers, |n: u64| n, rates).conf(conf(place, "fill-rates")).run().await.unwrap();
    });
}

fn pass(place: &Path, life: u32, count: u64, guarding: Guarding) -> Duration {
    two_workers().block_on(async {
        let payments: Topic<Payment> = Topic::new("payments");
        let rates: Topic<u64> = Topic::new("rates").partitions(1);
        let doubled: Topic<Payment> = Topic::named(format!("guarded-{life}"));
        let app = App::new().conf(conf(place, &format!("guarded-{life}"))).handle(rates.clone(), |_: u64| (), ());
        let (dependent, dependency) = (payments.clone(), rates);
        let checkpoint = Checkpoint::named("payments", move |it| {
            it.dependent(dependent.clone(), |payment| payment.value.id)
                .dependency(Dependency::new("rates", dependency.clone(), |rate| rate.value))
                .hold()
        });
        let run = match guarding {
            Guarding::Hold => app.handle(checkpoint, double, doubled).run(),
            Guarding::Off => app.handle(payments, double, doubled).run(),
        };
        let (time, _) = payments::pass(run, "payments", count).await;
        for partition in 0..4 {
            std::fs::remove_dir_all(place.join(format!("log/guarded-{life}-{partition}"))).unwrap();
        }
        time
    })
}
