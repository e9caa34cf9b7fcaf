//! Rewinds: what they wait for, what they leave behind, and two checkpoints that rewind one source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use slipstream::checkpoint::Doing;
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::SeekTo;
use slipstream::{Checkpoint, CheckpointHandle, Conf, Dependency, Downtime, SharedStream, StableId};
use tokio::sync::Notify;

use crate::bound::counted;
use crate::joined::{Joined, nothing_more_happens};
use crate::world::{Running, World, collect};

#[tokio::test(start_paused = true)]
async fn a_rewind_waits_for_what_is_in_flight() -> Result<()> {
    let own = Joined::new(World::memory(), &["weather"], 1, |guard| guard.threshold(0));
    let (begun, tell) = collect();
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let running = own.start_as(0, move |n| {
        let (tell, wait) = (tell.clone(), Arc::clone(&wait));
        async move {
            tell(n);
            wait.notified().await;
        }
    });
    until(|| own.checkpoint.status().is_ok()).await;
    own.reaches("weather", 10).await;
    own.send("activity", 20).await;
    until(|| *begun.lock().unwrap() == [20]).await;
    own.reaches("weather", 15).await;
    own.reaches("weather", 30).await;
    own.is(Doing::Recovering).await;
    nothing_more_happens().await;
    assert_eq!(*begun.lock().unwrap(), [20], "it is still in hand");
    assert_eq!((own.checkpoint.status()?.doing, own.checkpoint.status()?.counts.rewinds), (Doing::Recovering, 0));
    go_on.notify_one();
    until(|| *begun.lock().unwrap() == [20, 20]).await;
    go_on.notify_one();
    own.has(2).await;
    assert_eq!(own.rows(), [(20, vec![Some(10)]), (20, vec![Some(15)])]);
    running.stop().await
}

#[tokio::test]
async fn the_place_of_a_rewind_is_kept_before_anything_is_handled_from_there() -> Result<()> {
    let own = Joined::new(World::memory(), &["weather"], 1, |guard| guard.threshold(0));
    let begun = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&begun);
    let running = own.start_as(0, move |n| {
        let mut all = list.lock().unwrap();
        all.push(n);
        let is_again = all.iter().filter(|own| **own == n).count() > 1;
        async move {
            // What comes again is never done.
            if is_again {
                std::future::pending::<()>().await;
            }
        }
    });
    until(|| own.checkpoint.status().is_ok()).await;
    own.reaches("weather", 10).await;
    own.send("activity", 5).await;
    own.send("activity", 20).await;
    own.has(2).await;
    own.is(Doing::Paused).await;
    until(|| own.committed(&running, "activity") == Some(2)).await;
    own.reaches("weather", 30).await;
    until(|| begun.lock().unwrap().len() == 3).await;
    running.crash().await;

    // An app that knows nothing of the checkpoint begins there too.
    let (running, seen) = own.start_plain();
    until(|| !seen.lock().unwrap().is_empty()).await;
    assert_eq!(*seen.lock().unwrap(), [20]);
    running.stop().await
}

#[tokio::test]
async fn after_a_crash_right_behind_the_rewind_what_corrects_still_has_another_id() -> Result<()> {
    let world = World::memory();
    let weather: Topic<i64> = world.topic("weather", 1).broadcast();
    let activity: Topic<i64> = world.topic("activity", 1);
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = Checkpoint::named("ids", move |it| {
        it.dependent(on_activity.clone(), |m| m.value)
            .dependency(Dependency::new("weather", on_weather.clone(), |m| m.value))
            .threshold(0)
    });
    // By where they lie: the crash may make them be read again.
    let ids = Arc::new(Mutex::new(BTreeMap::new()));
    let hangs = Arc::new(Mutex::new(false));
    let start = || {
        let (hang, keep) = (Arc::clone(&hangs), Arc::clone(&ids));
        let join = move |n: i64| {
            let is_hung = *hang.lock().unwrap();
            async move {
                if is_hung {
                    std::future::pending::<()>().await;
                }
                n
            }
        };
        let out: Topic<i64> = world.topic("out", 1).stable_ids();
        let tell = move |message: Message<i64>| {
            let id = StableId::of(&message.headers).unwrap().unwrap();
            keep.lock().unwrap().insert(message.offset, (id.offset, id.outage));
        };
        let app = App::new()
            .handle(weather.clone(), |_: i64| (), ())
            .handle(checkpoint.clone(), join, out.clone())
            .name("join")
            .handle(out, tell, ());
        Running::start(app, world.conf(0))
    };
    let (to_weather, to_activity) = (world.alone::<i64>("weather", 1), world.alone::<i64>("activity", 1));
    let running = start();
    until(|| checkpoint.status().is_ok()).await;
    to_weather.send(10).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.dependencies[0].marker.is_some())).await;
    to_activity.send(20).await?;
    until(|| ids.lock().unwrap().len() == 1).await;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Paused)).await;
    *hangs.lock().unwrap() = true;
    to_weather.send(30).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.counts.rewinds == 1)).await;
    running.crash().await;
    *hangs.lock().unwrap() = false;

    let running = start();
    until(|| ids.lock().unwrap().len() >= 2).await;
    let ids: Vec<_> = ids.lock().unwrap().values().copied().collect();
    // As long as the weather that was read last is not there again, it may come too early once more.
    assert!(ids.iter().zip(0..).all(|(id, outage)| *id == (0, outage)), "{ids:?}");
    running.stop().await
}

#[tokio::test(start_paused = true)]
async fn while_it_is_paused_what_is_covered_waits_too_in_every_lane() -> Result<()> {
    let own = Joined::new(World::memory(), &["weather"], 2, |guard| guard.threshold(0));
    let running = own.start();
    until(|| own.checkpoint.status().is_ok()).await;
    own.reaches("weather", 10).await;
    for partition in [0, 1] {
        own.send_to(partition, 5).await;
    }
    own.has(2).await;
    own.send_to(0, 20).await;
    own.is(Doing::Paused).await;
    own.has(3).await;
    for partition in [0, 1] {
        own.send_to(partition, 6).await;
    }
    nothing_more_happens().await;
    assert_eq!(own.numbers(), [5, 5, 20]);
    own.reaches("weather", 30).await;
    own.has(6).await;
    let mut rest = own.numbers().split_off(3);
    rest.sort_unstable();
    assert_eq!(rest, [6, 6, 20]);
    running.stop().await
}

#[tokio::test]
async fn the_slower_of_two_dependencies_decides() -> Result<()> {
    for (slow, fast) in [("first", "second"), ("second", "first")] {
        let own = counted(|guard, [first, second]| guard.dependency(first).dependency(second).threshold(0));
        own.reaches(slow, 10).await;
        own.reaches(fast, 100).await;
        // The second of them needs no look at the checkpoint.
        assert_eq!((own.pulse(5).await, own.pulse(6).await), (None, None));
        let downtime = own.pulse(50).await.unwrap();
        assert_eq!(downtime.to_string(), format!("{slow}: 40"));
        own.running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_lane_that_goes_to_another_member_takes_the_message_at_its_gate_along() -> Result<()> {
    let world = World::memory();
    let member = |index| {
        let (weather, activity): (Topic<i64>, Topic<i64>) =
            (world.topic("weather", 1).broadcast(), world.topic("activity", 2));
        let checkpoint = Checkpoint::named("gate", move |it| {
            it.dependent(activity.clone(), |m| m.value)
                .dependency(Dependency::new("weather", weather.clone(), |m| m.value))
                .hold()
        });
        let (seen, keep) = collect::<i64>();
        let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), world.conf(index));
        (checkpoint, running, seen)
    };
    let held = |checkpoint: &Checkpoint<Message<i64>>, lanes| {
        checkpoint.status().is_ok_and(|status| status.held_lanes == lanes)
    };
    let (first, running, seen) = member(0);
    let activity = world.alone::<i64>("activity", 2);
    let mut written = BTreeMap::new();
    for n in 0.. {
        let receipt = activity.send((format!("{n}"), 20)).await?;
        *written.entry(receipt.partition).or_insert(0) += 1;
        if written.len() == 2 {
            break;
        }
    }
    until(|| held(&first, 2)).await;
    let (second, other, by_other) = member(1);
    until(|| held(&first, 1) && held(&second, 1)).await;
    other.stop().await?;
    until(|| held(&first, 2)).await;
    world.alone::<i64>("weather", 1).send(30).await?;
    let all: usize = written.values().sum();
    until(|| seen.lock().unwrap().len() == all).await;
    until(|| held(&first, 0) && first.status().is_ok_and(|status| status.doing == Doing::Running)).await;
    assert!(by_other.lock().unwrap().is_empty());
    running.stop().await
}

/// Its outputs travel: one after the other is done when the stream has long ended.
#[tokio::test(start_paused = true)]
async fn a_dependency_that_ends_is_there_when_its_last_message_is_done() -> Result<()> {
    let short = SharedStream::new("short", || stream::iter([3_i64, 4]).boxed());
    let hop = Proxy::<i64>::named("hop");
    let dependency = short.clone();
    let checkpoint = Checkpoint::named("ends", move |it| {
        it.dependent(stream::iter([2_i64, 100]), |n| *n)
            .dependency(Dependency::new("short", dependency.clone(), |n| *n))
            .hold()
    });
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let slow = move |_: i64| {
        let wait = Arc::clone(&wait);
        async move { wait.notified().await }
    };
    let (seen, keep) = collect::<i64>();
    let app =
        App::new().handle(short, |n: i64| n, hop.clone()).handle(hop, slow, ()).handle(checkpoint.clone(), keep, ());
    let running = Running::start(app, Conf::isolated());
    until(|| checkpoint.status().is_ok_and(|status| status.held_lanes == 1)).await;
    nothing_more_happens().await;
    assert!(seen.lock().unwrap().is_empty(), "all that it brought is still in hand");
    go_on.notify_one();
    until(|| *seen.lock().unwrap() == [2]).await;
    nothing_more_happens().await;
    assert_eq!(*seen.lock().unwrap(), [2], "the last is still in hand");
    assert!(!checkpoint.status()?.dependencies[0].has_ended);
    go_on.notify_one();
    running.ended().await?;
    assert_eq!(*seen.lock().unwrap(), [2, 100]);
    Ok(())
}

/// Someone seeks while a rewind waits for what is in flight: the rewind leaves that lane alone.
#[tokio::test(start_paused = true)]
async fn a_seek_during_a_rewind_wins() -> Result<()> {
    let world = World::memory();
    let (weather, activity): (Topic<i64>, Topic<i64>) =
        (world.topic("weather", 1).broadcast(), world.topic("activity", 1));
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = Checkpoint::named("sought", move |it| {
        it.dependent(on_activity.clone(), |m| m.value)
            .dependency(Dependency::new("weather", on_weather.clone(), |m| m.value))
            .threshold(0)
    });
    let (begun, tell) = collect();
    let join = move |n: i64| {
        tell(n);
        let is_first = n == 20;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
        }
    };
    let app = App::new().handle(weather, |_: i64| (), ()).handle(checkpoint.clone(), join, ());
    let running = Running::start(app, world.conf(0));
    until(|| checkpoint.status().is_ok()).await;
    let (to_weather, to_activity) = (world.alone::<i64>("weather", 1), world.alone::<i64>("activity", 1));
    for n in [1, 2] {
        to_activity.send(n).await?;
    }
    to_weather.send(10).await?;
    until(|| begun.lock().unwrap().len() >= 2).await;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Running)).await;
    let before = begun.lock().unwrap().len();
    to_activity.send(20).await?;
    until(|| begun.lock().unwrap().len() == before + 1).await;
    to_activity.send(3).await?;
    to_weather.send(30).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Recovering)).await;
    nothing_more_happens().await;
    activity.seek(SeekTo::Offset(3)).await?;
    until(|| *begun.lock().unwrap().last().unwrap() == 3).await;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Running)).await;
    nothing_more_happens().await;
    assert_eq!(begun.lock().unwrap()[before..], [20, 3]);
    running.crash().await;
    Ok(())
}

/// What a handler that is bound to one of two checkpoints got: whose it is, the number, what was found for it, and what it
/// was told: how far behind, by which checkpoint.
type Told = (&'static str, i64, Option<i64>, Option<String>, Option<String>);

/// Two checkpoints on one dependent, each of which depends on a topic of its own. Neither pauses.
struct Two {
    world: World,
    checkpoints: BTreeMap<&'static str, Checkpoint<Message<i64>>>,
    known: Arc<Mutex<BTreeMap<&'static str, BTreeSet<i64>>>>,
    told: Arc<Mutex<Vec<Told>>>,
}

const BOTH: [&str; 2] = ["a", "b"];

impl Two {
    fn new() -> Self {
        let world = World::memory();
        let one = |name: &'static str| {
            let (dependency, activity): (Topic<i64>, Topic<i64>) =
                (world.topic(name, 1).broadcast(), world.topic("activity", 1));
            let checkpoint = Checkpoint::named(name, move |it| {
                it.dependent(activity.clone(), |m| m.value)
                    .dependency(Dependency::new("it", dependency.clone(), |m| m.value))
                    .threshold(0)
                    .pause_dependent(false)
            });
            (name, checkpoint)
        };
        let checkpoints = BOTH.map(one).into();
        Self { world, checkpoints, known: Arc::default(), told: Arc::default() }
    }

    fn start(&self) -> Running {
        let app = BOTH.into_iter().fold(App::new(), |app, name| {
            let (store, lookup, told) = (Arc::clone(&self.known), Arc::clone(&self.known), Arc::clone(&self.told));
            let keep = move |n: i64| {
                store.lock().unwrap().entry(name).or_default().insert(n);
            };
            let join = move |n: i64, downtime: Option<Downtime>, handle: Option<CheckpointHandle>| {
                let known = lookup.lock().unwrap();
                let found = known.get(name).and_then(|all| all.range(..=n).next_back().copied());
                let behind = downtime.map(|downtime| downtime.to_string());
                told.lock().unwrap().push((name, n, found, behind, handle.map(|handle| handle.name().to_owned())));
            };
            let topic: Topic<i64> = self.world.topic(name, 1).broadcast();
            app.handle(topic, keep, ()).handle(self.checkpoints[name].clone(), join, ())
        });
        Running::start(app, self.world.conf(0))
    }

    async fn is_there(&self) {
        until(|| self.checkpoints.values().all(|checkpoint| checkpoint.status().is_ok())).await;
    }

    async fn reaches(&self, name: &str, n: i64) {
        self.world.alone::<i64>(name, 1).send(n).await.unwrap();
        let marker = Some(n.to_string());
        until(|| self.checkpoints[name].status().is_ok_and(|status| status.dependencies[0].marker == marker)).await;
    }

    /// A message of the dependent, that both handlers get.
    async fn pulse(&self, n: i64) {
        let before = self.told.lock().unwrap().len();
        self.world.alone::<i64>("activity", 1).send(n).await.unwrap();
        until(|| self.told.lock().unwrap().len() == before + 2).await;
    }

    async fn runs(&self, name: &str) {
        until(|| self.checkpoints[name].status().is_ok_and(|status| status.doing == Doing::Running)).await;
    }

    fn rewinds(&self, name: &str) -> u64 {
        self.checkpoints[name].status().unwrap().counts.rewinds
    }

    /// The last that was found for each number by the handlers of each.
    fn last(&self) -> BTreeMap<(&'static str, i64), Option<i64>> {
        self.told.lock().unwrap().iter().map(|(name, n, found, ..)| ((*name, *n), *found)).collect()
    }

    /// 20 is ahead of `a` only, 40 of `b` only, and 60, between them, of both.
    async fn both_down(&self) {
        self.is_there().await;
        self.reaches("a", 10).await;
        self.reaches("b", 35).await;
        self.pulse(20).await;
        self.pulse(60).await;
        self.reaches("a", 15).await;
        self.reaches("a", 50).await;
        self.pulse(40).await;
    }

    async fn recovers(&self, name: &str) {
        let (early, late) = if name == "a" { (52, 55) } else { (38, 57) };
        for n in [early, late, 70] {
            self.reaches(name, n).await;
        }
        self.runs(name).await;
    }

    fn expected() -> BTreeMap<(&'static str, i64), Option<i64>> {
        let a = [(("a", 20), Some(15)), (("a", 60), Some(55)), (("a", 40), Some(15))];
        let b = [(("b", 20), None), (("b", 60), Some(57)), (("b", 40), Some(38))];
        a.into_iter().chain(b).collect()
    }
}

#[tokio::test]
async fn d_10_two_checkpoints_on_one_dependent_each_correct_what_they_have_to() -> Result<()> {
    for order in [["a", "b"], ["b", "a"]] {
        let own = Two::new();
        let running = own.start();
        own.both_down().await;
        let mut told = own.told.lock().unwrap().clone();
        // Of one message either handler may be the first.
        told.sort_by_key(|told| (told.0, [20, 60, 40].iter().position(|n| *n == told.1)));
        let row = |name: &'static str, n, found, behind: Option<&str>| {
            (name, n, found, behind.map(str::to_owned), Some(name.to_owned()))
        };
        let shown = [
            row("a", 20, Some(10), Some("it: 10")),
            row("a", 60, Some(10), Some("it: 50")),
            row("a", 40, Some(15), Some("it: recovering")),
            row("b", 20, None, None),
            row("b", 60, Some(35), Some("it: 25")),
            row("b", 40, Some(35), Some("it: 5")),
        ];
        assert_eq!(told, shown);
        for name in order {
            own.recovers(name).await;
        }
        until(|| own.last() == Two::expected()).await;
        assert_eq!((own.rewinds("a"), own.rewinds("b")), (1, 1));
        running.stop().await?;
        assert_eq!(own.last(), Two::expected());
    }
    Ok(())
}

#[tokio::test]
async fn d_10_two_checkpoints_on_one_dependent_each_correct_what_they_have_to_after_a_crash() -> Result<()> {
    for order in [["a", "b"], ["b", "a"]] {
        let own = Two::new();
        let running = own.start();
        own.both_down().await;
        let committed = || {
            let health = running.handle.health();
            let own = health.sources.iter().find(|source| source.name.ends_with("activity"));
            own.and_then(|own| own.lanes.first()).and_then(|lane| lane.committed) == Some(3)
        };
        until(committed).await;
        running.crash().await;
        let running = own.start();
        own.is_there().await;
        for name in order {
            own.recovers(name).await;
        }
        until(|| own.last() == Two::expected()).await;
        running.stop().await?;
        assert_eq!(own.last(), Two::expected());
    }
    Ok(())
}
