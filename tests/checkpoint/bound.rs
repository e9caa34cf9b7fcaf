//! A handler that is bound to a checkpoint, with one or two dependencies that a test moves as it likes.

use std::sync::{Arc, Mutex};

use slipstream::checkpoint::{Begin, Doing, Guard, Marker, Status};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Conf, Dependency, Downtime};

use crate::world::{Running, collect};

/// What the handler got: the message, and what it was told.
pub type Seen = Arc<Mutex<Vec<(i64, Option<Downtime>)>>>;

pub struct Bound {
    activity: Proxy<i64>,
    dependencies: [(&'static str, Proxy<i64>); 2],
    text: fn(&i64) -> String,
    pub checkpoint: Checkpoint<i64>,
    pub seen: Seen,
    pub running: Running,
}

/// A second of the day.
pub fn at(hour: i64, minute: i64) -> i64 {
    (hour * 60 + minute) * 60
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "a marker is taken of a message")]
pub fn time(second: &i64) -> DateTime<Utc> {
    DateTime::from_timestamp(*second, 0).unwrap()
}

/// By the time of day.
pub fn bound(declare: impl Fn(Guard<i64>, [Dependency; 2]) -> Guard<i64> + Send + Sync + 'static) -> Bound {
    make(time, |second| time(second).mark().to_string(), Conf::isolated(), declare)
}

/// By whole numbers.
pub fn counted(declare: impl Fn(Guard<i64>, [Dependency; 2]) -> Guard<i64> + Send + Sync + 'static) -> Bound {
    make(|n| *n, |n| n.mark().to_string(), Conf::isolated(), declare)
}

/// The same with more configuration.
pub fn counted_with(
    conf: Conf,
    declare: impl Fn(Guard<i64>, [Dependency; 2]) -> Guard<i64> + Send + Sync + 'static,
) -> Bound {
    make(|n| *n, |n| n.mark().to_string(), conf, declare)
}

fn make<K: Marker>(
    marker: fn(&i64) -> K,
    text: fn(&i64) -> String,
    conf: Conf,
    declare: impl Fn(Guard<i64>, [Dependency; 2]) -> Guard<i64> + Send + Sync + 'static,
) -> Bound {
    let activity = Proxy::<i64>::named("activity").external();
    let dependencies = ["first", "second"].map(|name| (name, Proxy::<i64>::named(name).external()));
    let (on, all) = (activity.clone(), dependencies.clone());
    let checkpoint = Checkpoint::named("activity", move |it: Begin| {
        let all = all.clone().map(|(name, one)| Dependency::new(name, one, marker));
        declare(it.dependent(on.clone(), marker), all)
    });
    let (seen, keep) = collect();
    let handler = move |n: i64, downtime: Option<Downtime>| keep((n, downtime));
    let app = dependencies.iter().fold(App::new(), |app, (_, one)| app.handle(one.clone(), |_: i64| (), ()));
    let running = Running::start(app.handle(checkpoint.clone(), handler, ()), conf);
    Bound { activity, dependencies, text, checkpoint, seen, running }
}

impl Bound {
    pub fn status(&self) -> Status {
        self.checkpoint.status().unwrap()
    }

    pub fn doing(&self) -> Doing {
        self.status().doing
    }

    /// By name: `first` or `second`.
    pub fn is_down(&self, name: &str) -> bool {
        self.status().dependencies.into_iter().find(|own| own.name == name).unwrap().is_down
    }

    pub fn marker(&self, name: &str) -> Option<String> {
        self.status().dependencies.into_iter().find(|own| own.name == name).unwrap().marker
    }

    pub fn behind(&self, name: &str) -> Option<String> {
        self.status().dependencies.into_iter().find(|own| own.name == name).unwrap().behind
    }

    /// A marker, as a status shows it.
    pub fn text(&self, n: i64) -> String {
        (self.text)(&n)
    }

    /// Brings a message to a dependency, done or not.
    pub async fn bring(&self, name: &str, n: i64) {
        until(|| self.running.is_reading()).await;
        let (_, one) = self.dependencies.iter().find(|(own, _)| *own == name).unwrap();
        one.send(n).await.unwrap();
    }

    /// Brings a dependency there.
    pub async fn reaches(&self, name: &str, n: i64) {
        self.bring(name, n).await;
        until(|| self.marker(name).is_some_and(|marker| marker == self.text(n))).await;
    }

    pub async fn send(&self, n: i64) {
        until(|| self.running.is_reading()).await;
        self.activity.send(n).await.unwrap();
    }

    /// A message of the dependent that is handled, with what the handler is told.
    pub async fn pulse(&self, n: i64) -> Option<Downtime> {
        let before = self.seen.lock().unwrap().len();
        until(|| self.running.is_reading() && self.activity.gate().is_open()).await;
        self.send(n).await;
        until(|| self.seen.lock().unwrap().len() > before).await;
        self.seen.lock().unwrap().last().unwrap().1.clone()
    }

    /// What was handled.
    pub fn handled(&self) -> Vec<i64> {
        self.seen.lock().unwrap().iter().map(|(n, _)| *n).collect()
    }

    /// Who pauses the dependent.
    pub fn paused_by(&self) -> Vec<String> {
        let health = self.running.handle.health();
        health.sources.into_iter().find(|source| source.name == "activity").unwrap().paused_by
    }

    pub async fn is(&self, doing: Doing) {
        until(|| self.checkpoint.status().is_ok_and(|status| status.doing == doing)).await;
    }

    pub fn resume_anyway(&self) -> bool {
        self.checkpoint.handle().unwrap().resume_anyway()
    }
}

/// What pauses the dependent of [`Bound`].
pub const PAUSED: [&str; 1] = ["checkpoint:activity"];
