//! Outages on topics: the model's reprocessing (INT-2), its synchronization (S8), rewinds, and restarts in the middle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipstream::checkpoint::{Doing, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::SeekTo;
use slipstream::{Checkpoint, Dependency, Downtime, StableId};

use crate::world::{Running, World, collect};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Event {
    minute: i64,
    what: String,
}

fn event(hour: i64, minute: i64, what: &str) -> Event {
    Event { minute: hour * 60 + minute, what: what.to_owned() }
}

fn time(message: &Message<Event>) -> DateTime<Utc> {
    DateTime::from_timestamp(message.value.minute * 60, 0).unwrap()
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Weather and activities in topics, joined through a map in memory.
struct Synchronized {
    weather: Topic<Event>,
    activity: Topic<Event>,
    checkpoint: Checkpoint<Message<Event>>,
    lines: Lines,
    kept: Arc<Mutex<BTreeMap<i64, String>>>,
}

impl Synchronized {
    fn new(
        world: &World,
        declare: impl Fn(Guard<Message<Event>>) -> Guard<Message<Event>> + Send + Sync + 'static,
    ) -> Self {
        Self::over(world, world.topic("activity", 1), declare)
    }

    fn over(
        world: &World,
        activity: Topic<Event>,
        declare: impl Fn(Guard<Message<Event>>) -> Guard<Message<Event>> + Send + Sync + 'static,
    ) -> Self {
        let weather: Topic<Event> = world.topic("weather", 1).broadcast();
        let checkpoint = Checkpoint::named("activity", move |it| {
            declare(it.dependent(activity.clone(), time).dependency(Dependency::new("weather", weather.clone(), time)))
        });
        let (weather, activity) = (world.alone("weather", 1), world.alone("activity", 1));
        Self { weather, activity, checkpoint, lines: Lines::default(), kept: Arc::default() }
    }

    fn start(&self, world: &World) -> Running {
        let (store, lookup, lines) = (Arc::clone(&self.kept), Arc::clone(&self.kept), Arc::clone(&self.lines));
        let join = move |activity: Event, downtime: Option<Downtime>| {
            let kept = lookup.lock().unwrap();
            let seen = kept.range(..=activity.minute).next_back().map_or("none", |(_, what)| what);
            let late = downtime.map(|downtime| format!(" [{downtime}]")).unwrap_or_default();
            lines.lock().unwrap().push(format!("{}/{seen}{late}", activity.what));
        };
        let weather: Topic<Event> = world.topic("weather", 1).broadcast();
        let keep = move |seen: Event| drop(store.lock().unwrap().insert(seen.minute, seen.what));
        let app = App::new().handle(weather, keep, ()).handle(self.checkpoint.clone(), join, ());
        Running::start(app, world.conf(0))
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    async fn weather(&self, hour: i64, what: &str) {
        self.weather.send(event(hour, 0, what)).await.unwrap();
        let marker =
            DateTime::from_timestamp(hour * 3600, 0).unwrap().to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
        let is_there =
            || self.checkpoint.status().is_ok_and(|status| status.dependencies[0].marker.as_ref() >= Some(&marker));
        until(is_there).await;
    }

    async fn activity(&self, hour: i64, minute: i64, what: &str) {
        self.activity.send(event(hour, minute, what)).await.unwrap();
    }

    async fn has(&self, lines: usize) {
        until(|| self.lines.lock().unwrap().len() >= lines).await;
    }

    fn doing(&self) -> Doing {
        self.checkpoint.status().unwrap().doing
    }
}

/// What is committed of a topic's only partition.
fn committed(running: &Running, topic: &str) -> Option<i64> {
    let health = running.handle.health();
    let own = health.sources.iter().find(|source| source.name.ends_with(topic))?;
    own.lanes.first().and_then(|lane| lane.committed)
}

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn int_2_s_8_with_a_callback_that_seeks_to_the_detecting_message() -> Result<()> {
    let world = World::memory();
    let topic: Topic<Event> = world.topic("activity", 1);
    let own = Synchronized::over(&world, topic.clone(), move |guard| {
        let topic = topic.clone();
        guard.threshold(HOUR).state(|message: &Message<Event>, _: Option<&i64>| message.offset).on_recovery(
            move |outage| {
                let topic = topic.clone();
                async move {
                    // The model's callback gets what the dependent had reached when the outage was detected.
                    topic.seek(SeekTo::Offset(outage.detected.state::<i64>().unwrap())).await
                }
            },
        )
    });
    let running = own.start(&world);
    until(|| own.checkpoint.status().is_ok()).await;
    own.weather(10, "sun").await;
    own.activity(10, 30, "swimming").await;
    own.has(1).await;
    own.weather(11, "clouds").await;
    own.activity(11, 30, "walking home").await;
    own.has(2).await;
    own.activity(12, 30, "shopping").await;
    own.has(3).await;
    own.activity(13, 10, "lunch").await;
    until(|| own.doing() == Doing::Paused).await;
    own.weather(12, "rain").await;
    assert_eq!(own.doing(), Doing::Paused, "late");
    own.weather(13, "storm").await;
    own.has(5).await;
    let shown =
        ["swimming/sun", "walking home/clouds", "shopping/clouds [weather: 5400s]", "shopping/rain", "lunch/storm"];
    assert_eq!(own.lines(), shown);
    assert_eq!(own.checkpoint.status()?.counts.rewinds, 0, "the seek won");
    running.stop().await
}

#[tokio::test]
async fn the_rewind_begins_at_the_first_message_that_was_not_covered() -> Result<()> {
    let world = World::memory();
    let own = Synchronized::new(&world, |guard| guard.threshold(HOUR));
    let running = own.start(&world);
    until(|| own.checkpoint.status().is_ok()).await;
    own.weather(10, "sun").await;
    own.activity(9, 0, "waking").await;
    own.activity(10, 30, "swimming").await; // within the threshold, and not covered
    own.has(2).await;
    own.activity(11, 30, "walking").await;
    own.has(3).await;
    own.activity(13, 0, "lunch").await;
    own.weather(11, "clouds").await;
    own.weather(14, "storm").await;
    own.has(6).await;
    let shown = [
        "waking/none",
        "swimming/sun",
        "walking/sun [weather: 5400s]",
        "swimming/sun",
        "walking/clouds",
        "lunch/clouds",
    ];
    assert_eq!(own.lines(), shown);
    assert_eq!(own.checkpoint.status()?.counts.rewinds, 1);
    running.stop().await
}

#[tokio::test]
async fn what_corrects_an_output_has_another_id_than_it() -> Result<()> {
    for lanes in [1, 3] {
        let world = World::memory();
        let own = Synchronized::new(&world, |guard| guard.threshold(HOUR));
        let (ids, sink) = collect();
        let out: Topic<i64> = world.topic("out", 1).stable_ids();
        let id = |message: Message<i64>| {
            let id = StableId::of(&message.headers).unwrap().unwrap();
            (id.offset, id.outage)
        };
        let weather: Topic<Event> = world.topic("weather", 1).broadcast();
        let app = App::new()
            .handle(weather, |_: Event| {}, ())
            .handle(own.checkpoint.clone(), |activity: Event| activity.minute, out.clone())
            .name("minute")
            .concurrency(lanes)
            .handle(out, id, sink);
        let running = Running::start(app, world.conf(0));
        until(|| own.checkpoint.status().is_ok()).await;
        own.weather(10, "sun").await;
        own.activity(10, 30, "swimming").await;
        own.activity(13, 0, "lunch").await;
        until(|| ids.lock().unwrap().len() == 2).await;
        own.weather(14, "storm").await;
        until(|| ids.lock().unwrap().len() == 4).await;
        assert_eq!(*ids.lock().unwrap(), [(0, 0), (1, 0), (0, 1), (1, 1)], "in {lanes} lanes");
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn b_45_a_restart_in_the_middle_of_an_outage_is_paused_before_its_first_dispatch() -> Result<()> {
    for crash in [true, false] {
        let world = World::memory();
        let own = Synchronized::new(&world, |guard| guard.threshold(Duration::ZERO));
        let running = own.start(&world);
        until(|| own.checkpoint.status().is_ok()).await;
        own.weather(10, "sun").await;
        own.activity(9, 30, "waking").await;
        own.activity(12, 0, "lunch").await;
        own.activity(13, 0, "rest").await;
        own.has(2).await;
        until(|| committed(&running, "activity") == Some(2)).await;
        if crash {
            running.crash().await;
        } else {
            running.stop().await?;
        }

        let running = own.start(&world);
        until(|| own.checkpoint.status().is_ok_and(|status| status.doing == Doing::Paused)).await;
        own.weather(11, "clouds").await;
        assert_eq!(own.lines(), ["waking/none", "lunch/sun [weather: 7200s]"], "nothing was handled");
        own.weather(14, "rain").await;
        own.has(4).await;
        assert_eq!(own.lines()[2..], ["lunch/clouds", "rest/clouds"]);
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn with_pause_dependent_false_it_goes_on_and_is_corrected() -> Result<()> {
    let world = World::memory();
    let own = Synchronized::new(&world, |guard| guard.threshold(Duration::ZERO).pause_dependent(false));
    let running = own.start(&world);
    until(|| own.checkpoint.status().is_ok()).await;
    own.weather(10, "sun").await;
    own.activity(9, 30, "waking").await;
    for (hour, what) in [(11, "walk"), (12, "lunch"), (13, "rest")] {
        own.activity(hour, 30, what).await;
    }
    own.has(4).await;
    own.weather(12, "rain").await;
    own.weather(14, "storm").await;
    own.has(7).await;
    assert_eq!(own.lines()[4..], ["walk/sun", "lunch/rain", "rest/rain"]);
    running.stop().await
}

#[tokio::test]
async fn no_rewind_leaves_what_was_handled_too_early_as_it_is() -> Result<()> {
    let world = World::memory();
    let own = Synchronized::new(&world, |guard| guard.threshold(Duration::ZERO).no_rewind());
    let running = own.start(&world);
    until(|| own.checkpoint.status().is_ok()).await;
    own.weather(10, "sun").await;
    own.activity(12, 0, "lunch").await;
    own.activity(13, 0, "rest").await;
    own.has(1).await;
    own.weather(14, "rain").await;
    own.has(2).await;
    assert_eq!(own.lines(), ["lunch/sun [weather: 7200s]", "rest/sun"]);
    running.stop().await
}

#[tokio::test]
async fn an_output_that_travels_is_done_before_the_rewind_and_none_of_it_comes_after() -> Result<()> {
    let world = World::memory();
    let weather: Topic<u32> = world.topic("weather", 1).broadcast();
    let activity: Topic<u32> = world.topic("activity", 1);
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = Checkpoint::named("hops", move |it| {
        it.dependent(on_activity.clone(), |m| m.value)
            .dependency(Dependency::new("weather", on_weather.clone(), |m| m.value))
            .threshold(0)
    });
    let latest = Arc::new(Mutex::new(0));
    let (store, lookup) = (Arc::clone(&latest), Arc::clone(&latest));
    let hop = Proxy::<(u32, u32)>::named("hop");
    let (seen, keep) = collect();
    let slow = move |pair: (u32, u32)| {
        let keep = keep.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            keep(pair);
        }
    };
    let app = App::new()
        .handle(weather, move |n: u32| *store.lock().unwrap() = n, ())
        .handle(checkpoint.clone(), move |n: u32| (n, *lookup.lock().unwrap()), hop.clone())
        .handle(hop, slow, ());
    let running = Running::start(app, world.conf(0));
    until(|| checkpoint.status().is_ok()).await;
    let (weather, activity) = (world.alone::<u32>("weather", 1), world.alone::<u32>("activity", 1));
    weather.send(1).await?;
    activity.send(5).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Paused)).await;
    weather.send(9).await?;
    until(|| seen.lock().unwrap().len() == 2).await;
    let seen = seen.lock().unwrap().clone();
    assert!(seen[0].1 <= 1 && seen[1] == (5, 9), "{seen:?}");
    running.stop().await
}

#[tokio::test]
async fn floats_dates_and_own_types_are_markers() -> Result<()> {
    use slipstream::checkpoint::{Mark, Marker, Measure};
    #[derive(Clone)]
    struct Version(i16);
    impl Marker for Version {
        const MEASURE: Measure = Measure::Count;
        fn mark(&self) -> Mark {
            self.0.mark()
        }
    }
    async fn joined<K: Marker>(marker: impl Fn(i16) -> K + Clone + Send + Sync + 'static) -> Result<Vec<i16>> {
        let checkpoint = Checkpoint::named("kinds", move |it| {
            let (own, other) = (marker.clone(), marker.clone());
            it.dependent(stream::iter(-2..3_i16), move |n| own(*n))
                .dependency(Dependency::new("it", stream::iter(-3..5_i16), move |n| other(*n)))
                .hold()
        });
        let (seen, keep) = collect();
        Running::start(App::new().handle(checkpoint, keep, ()), slipstream::Conf::isolated()).ended().await?;
        let seen = seen.lock().unwrap().clone();
        Ok(seen)
    }
    let all: Vec<i16> = (-2..3).collect();
    assert_eq!(joined(f64::from).await?, all);
    assert_eq!(joined(Version).await?, all);
    assert_eq!(joined(|n| chrono::NaiveDate::from_num_days_from_ce_opt(i32::from(n) + 700_000).unwrap()).await?, all);
    assert_eq!(joined(|n| chrono::TimeDelta::seconds(i64::from(n))).await?, all);
    Ok(())
}

/// A callback that acts once per number must neither act twice nor miss an outage, whatever restarts come between.
#[cfg(feature = "booblik")]
#[tokio::test]
async fn outages_keep_their_number_and_what_was_known_over_restarts() -> Result<()> {
    for holds in [false, true] {
        let world = World::embedded();
        let (told, tell) = collect();
        let own = Synchronized::new(&world, move |guard| {
            let (down, up) = (tell.clone(), tell.clone());
            let guard = guard
                .threshold(Duration::ZERO)
                .state(|message: &Message<Event>, before: Option<&Vec<i64>>| {
                    let mut all = before.cloned().unwrap_or_default();
                    all.extend((!all.contains(&message.offset)).then_some(message.offset));
                    all
                })
                .on_downtime(move |outage| down(("down", outage.number, outage.healthy.state::<Vec<i64>>())))
                .on_recovery(move |outage| up(("up", outage.number, outage.healthy.state::<Vec<i64>>())));
            if holds { guard.hold() } else { guard }
        });
        let list = &told;
        let is_told = |count: usize| until(move || list.lock().unwrap().len() >= count);
        let running = own.start(&world);
        until(|| own.checkpoint.status().is_ok()).await;
        own.weather(10, "sun").await;
        own.activity(9, 30, "swimming").await;
        own.has(1).await;
        own.weather(10, "sun").await;
        own.weather(11, "sun").await;
        own.activity(12, 0, "walking home").await;
        is_told(1).await;
        // What is read again makes earlier activities wait first.
        until(|| committed(&running, "weather") == Some(3)).await;
        running.crash().await;

        let running = own.start(&world);
        until(|| own.checkpoint.status().is_ok_and(|status| status.outage == Some(1))).await;
        own.weather(13, "rain").await;
        is_told(3).await;
        until(|| own.doing() == Doing::Running).await;
        running.stop().await?;

        let running = own.start(&world);
        until(|| own.checkpoint.status().is_ok()).await;
        own.activity(14, 0, "lunch").await;
        is_told(4).await;
        own.weather(15, "sun").await;
        is_told(5).await;
        until(|| own.doing() == Doing::Running).await;
        running.stop().await?;
        let swum = Some(vec![0]);
        let all = told.lock().unwrap().clone();
        assert_eq!(all[..3], [("down", 1, swum.clone()), ("down", 1, swum.clone()), ("up", 1, swum)], "holds: {holds}");
        let known = Some(vec![0, 1]);
        assert_eq!(all[3..], [("down", 2, known.clone()), ("up", 2, known)], "holds: {holds}");
    }
    Ok(())
}
