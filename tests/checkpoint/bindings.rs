//! BD: what the model's suite checks of checkpoints that are bound to handlers; and what handlers can ask for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::checkpoint::{Begin, Doing, Gap, Guard, Lag, Span, Status};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, CheckpointHandle, Conf, Dependency, Downtime};

use crate::world::{Running, collect};

/// Something that happened at a minute of the day.
#[derive(Clone, Debug)]
struct Event {
    minute: i64,
    partition: u32,
}

fn at(hour: i64, minute: i64) -> Event {
    Event { minute: hour * 60 + minute, partition: 0 }
}

fn time(event: &Event) -> DateTime<Utc> {
    DateTime::from_timestamp(event.minute * 60, 0).unwrap()
}

fn text(hour: i64, minute: i64) -> String {
    time(&at(hour, minute)).to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

/// What the handler got: the minute, and what it was told.
type Seen = Arc<Mutex<Vec<(i64, Option<Downtime>)>>>;

struct Pair {
    weather: Proxy<Event>,
    activity: Proxy<Event>,
    checkpoint: Checkpoint<Event>,
    seen: Seen,
    running: Running,
}

/// Weather and activities, bound as the model's suite does it.
fn pair(declare: impl Fn(Guard<Event>, Dependency) -> Guard<Event> + Send + Sync + 'static) -> Pair {
    let (weather, activity) = (Proxy::named("weather").external(), Proxy::<Event>::named("activity").external());
    let (on_weather, on_activity): (Proxy<Event>, _) = (weather.clone(), activity.clone());
    let plan = move |it: Begin| {
        declare(it.dependent(on_activity.clone(), time), Dependency::new("weather", on_weather.clone(), time))
    };
    let checkpoint = Checkpoint::named("activity", plan);
    let (seen, keep) = collect();
    let handler = move |event: Event, downtime: Option<Downtime>| keep((event.minute, downtime));
    let app = App::new().handle(weather.clone(), |_: Event| (), ()).handle(checkpoint.clone(), handler, ());
    let running = Running::start(app, Conf::isolated().with("broker", "memory:"));
    Pair { weather, activity, checkpoint, seen, running }
}

impl Pair {
    fn status(&self) -> Status {
        self.checkpoint.status().unwrap()
    }

    async fn weather(&self, event: Event) {
        until(|| self.running.is_reading()).await;
        self.weather.send(event.clone()).await.unwrap();
        let marker = Some(time(&event).to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true));
        until(|| self.status().dependencies[0].marker >= marker).await;
    }

    async fn activity(&self, event: Event) {
        let before = self.seen.lock().unwrap().len();
        until(|| self.activity.gate().is_open() && self.running.is_reading()).await;
        self.activity.send(event).await.unwrap();
        until(|| self.seen.lock().unwrap().len() > before).await;
    }

    fn last_downtime(&self) -> Option<Downtime> {
        self.seen.lock().unwrap().last().unwrap().1.clone()
    }

    fn paused_by(&self) -> Vec<String> {
        let health = self.running.handle.health();
        health.sources.into_iter().find(|source| source.name == "activity").unwrap().paused_by
    }
}

#[tokio::test]
async fn bd_1_bd_2_both_sides_markers_are_taken_and_the_handler_sees_the_message_once() -> Result<()> {
    let pair = pair(Guard::dependency);
    pair.weather(at(10, 0)).await;
    pair.activity(at(10, 5)).await;
    let status = pair.status();
    assert_eq!((status.marker, &status.dependencies[0].marker), (Some(text(10, 5)), &Some(text(10, 0))));
    assert!(!status.dependencies[0].is_down);
    assert_eq!(pair.seen.lock().unwrap().len(), 1);
    pair.running.stop().await
}

#[tokio::test]
async fn bd_3_bd_10_a_downtime_is_told_to_the_handler_and_pauses_the_dependent() -> Result<()> {
    let pair = pair(Guard::dependency);
    pair.weather(at(10, 0)).await;
    pair.activity(at(11, 0)).await;
    let downtime = pair.last_downtime().unwrap();
    assert_eq!(downtime.get("weather"), Some(Lag::By(Span::from(Duration::from_hours(1)))));
    assert_eq!(downtime.iter().count(), 1);
    let status = pair.status();
    assert!(status.dependencies[0].is_down);
    assert_eq!((status.doing, status.outage), (Doing::Paused, Some(1)));
    assert_eq!(status.next, "waits for weather, then goes on", "a proxy cannot be sent back");
    assert_eq!(pair.paused_by(), ["checkpoint:activity"]);
    pair.activity.send(at(11, 1)).await?;
    pair.weather(at(10, 30)).await;
    assert_eq!(pair.seen.lock().unwrap().len(), 1, "paused, and one message is kept");
    pair.weather(at(11, 2)).await;
    until(|| pair.seen.lock().unwrap().len() == 2).await;
    until(|| pair.paused_by().is_empty()).await;
    assert_eq!(pair.last_downtime(), None);
    pair.running.stop().await
}

#[tokio::test]
async fn bd_4_cp_13_callbacks_are_called_once_sync_or_async() -> Result<()> {
    static DOWN: AtomicU32 = AtomicU32::new(0);
    static BACK: AtomicU32 = AtomicU32::new(0);
    let pair = pair(|guard, weather| {
        guard
            .dependency(weather)
            .on_downtime(|outage| {
                assert_eq!((&*outage.checkpoint, &*outage.dependency, outage.number), ("activity", "weather", 1));
                DOWN.fetch_add(1, Ordering::SeqCst);
            })
            .on_recovery(async |outage| {
                assert!(outage.recovered.is_some());
                tokio::task::yield_now().await;
                BACK.fetch_add(1, Ordering::SeqCst);
                Ok::<_, std::io::Error>(())
            })
    });
    pair.weather(at(10, 0)).await;
    pair.activity(at(11, 0)).await;
    pair.weather(at(11, 1)).await;
    until(|| pair.status().doing == Doing::Running).await;
    assert_eq!((DOWN.load(Ordering::SeqCst), BACK.load(Ordering::SeqCst)), (1, 1));
    assert_eq!((pair.status().counts.downs, pair.status().counts.recoveries), (1, 1));
    pair.running.stop().await
}

#[tokio::test]
async fn an_error_of_a_callback_ends_the_run_and_names_the_checkpoint() {
    let failing = |guard: Guard<Event>, weather| {
        guard.dependency(weather).on_downtime(|_| Err::<(), _>(std::io::Error::other("no pager")))
    };
    let pair = pair(failing);
    pair.weather(at(10, 0)).await;
    pair.activity(at(11, 0)).await;
    let error = pair.running.ended().await.unwrap_err();
    assert!(error.to_string().contains("checkpoint activity: `on_downtime` failed"), "{error}");
}

#[tokio::test]
async fn cp_14_checks_of_ones_own_sync_and_async_decide() -> Result<()> {
    let sync = pair(|guard, weather| {
        let weather = weather.downtime_check(|gap: Gap| gap.marker > gap.dependency_marker);
        guard.dependency(weather.recovery_check(|gap: Gap| gap.marker == gap.dependency_marker))
    });
    sync.weather(at(10, 0)).await;
    sync.activity(at(10, 1)).await;
    assert!(sync.status().dependencies[0].is_down);
    sync.weather(at(10, 1)).await;
    until(|| !sync.status().dependencies[0].is_down).await;
    sync.running.stop().await?;

    let later = pair(|guard, weather| {
        let weather = weather.downtime_check(async |gap: Gap| {
            tokio::task::yield_now().await;
            gap.span().filter(|span| *span > Span::from(Duration::ZERO))
        });
        guard.dependency(weather.recovery_check(async |gap: Gap| gap.marker == gap.dependency_marker))
    });
    later.weather(at(10, 0)).await;
    later.activity(at(10, 1)).await;
    let downtime = later.last_downtime().unwrap();
    assert_eq!(downtime.longest(), Some(Span::from(Duration::from_mins(1))));
    later.weather(at(10, 1)).await;
    until(|| !later.status().dependencies[0].is_down).await;
    later.running.stop().await
}

#[tokio::test]
async fn bd_5_bd_6_bd_7_state_follows_the_dependent_as_the_user_says() -> Result<()> {
    type Latest = BTreeMap<u32, i64>;
    let pair = pair(|guard, _weather| {
        // No dependencies at all: the checkpoint only keeps state.
        guard.state(|event: &Event, before: Option<&Latest>| {
            let mut next = before.cloned().unwrap_or_default();
            next.insert(event.partition, event.minute);
            next.retain(|partition, _| *partition < 2);
            next
        })
    });
    for (minute, partition) in [(10, 0), (20, 1), (30, 2)] {
        pair.activity(Event { minute, partition }).await;
    }
    let state = pair.checkpoint.handle()?.state::<Latest>();
    assert_eq!(state, Some(BTreeMap::from([(0, 10), (1, 20)])));
    assert_eq!(pair.checkpoint.handle()?.state::<String>(), None, "of another type");
    pair.running.stop().await
}

#[tokio::test]
async fn bd_9_only_messages_of_the_dependent_come_with_the_checkpoint() -> Result<()> {
    let (activity, traffic) = (stream::iter([at(10, 0)]), stream::iter([at(11, 0)]));
    let checkpoint = Checkpoint::named("activity", move |it| it.dependent(activity.clone(), time));
    let (seen, keep) = collect();
    let handler = move |event: Event, handle: Option<CheckpointHandle>| {
        keep((event.minute, handle.map(|handle| handle.name().to_owned())));
    };
    let other = handler.clone();
    App::new().handle(checkpoint, handler, ()).handle(traffic, other, ()).run().conf(Conf::isolated()).await?;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, [(600, Some("activity".to_owned())), (660, None)]);
    Ok(())
}

#[tokio::test]
async fn the_gate_belongs_to_the_source_every_handler_waits() -> Result<()> {
    let (weather, activity) = (Proxy::<u32>::named("weather").external(), Proxy::<u32>::named("activity").external());
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = Checkpoint::named("held", move |it| {
        it.dependent(on_activity.clone(), |n| *n)
            .dependency(Dependency::new("weather", on_weather.clone(), |n| *n))
            .hold()
    });
    let (seen, keep) = collect();
    let other = keep.clone();
    let app = App::new().handle(activity.clone(), move |n: u32| other(("unbound", n)), ()).handle(
        checkpoint.clone(),
        move |n: u32| keep(("bound", n)),
        (),
    );
    let running = Running::start(app, Conf::isolated());
    until(|| running.is_reading()).await;
    activity.send(1).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.held_lanes == 1)).await;
    assert_eq!(checkpoint.status()?.next, "waits for weather, then goes on");
    assert!(seen.lock().unwrap().is_empty());
    weather.send(2).await?;
    until(|| seen.lock().unwrap().len() == 2).await;
    assert_eq!(*seen.lock().unwrap(), [("unbound", 1), ("bound", 1)]);
    running.stop().await
}

#[tokio::test]
async fn resume_anyway_lets_the_dependent_go_on_with_what_it_is_told() -> Result<()> {
    let pair = pair(|guard, weather| guard.dependency(weather).hold());
    pair.weather(at(10, 0)).await;
    pair.activity.send(at(10, 30)).await?;
    until(|| pair.status().doing == Doing::Holding).await;
    assert!(pair.checkpoint.handle()?.resume_anyway());
    until(|| pair.seen.lock().unwrap().len() == 1).await;
    assert_eq!(pair.last_downtime().unwrap().longest(), Some(Span::from(Duration::from_mins(30))));
    assert_eq!((pair.status().doing, pair.status().counts.overrides), (Doing::Overridden, 1));
    pair.weather(at(11, 0)).await;
    until(|| pair.status().doing == Doing::Running).await;
    assert!(!pair.checkpoint.handle()?.resume_anyway(), "nothing to end");
    pair.running.stop().await
}

#[tokio::test]
async fn d_10_of_two_checkpoints_on_one_dependent_each_has_its_own_reason() -> Result<()> {
    let proxy = |name: &'static str| Proxy::<u32>::named(name).external();
    let (a, b, dependent) = (proxy("a"), proxy("b"), proxy("dependent"));
    let on = |name: &'static str, dependency: &Proxy<u32>| {
        let (dependent, dependency) = (dependent.clone(), dependency.clone());
        Checkpoint::named(format!("on-{name}"), move |it| {
            it.dependent(dependent.clone(), |n| *n).dependency(Dependency::new("it", dependency.clone(), |n| *n)).hold()
        })
    };
    let (first, second) = (on("a", &a), on("b", &b));
    let (seen, keep) = collect::<u32>();
    let app = App::new().handle(first.clone(), keep, ()).handle(second.clone(), |_: u32| (), ());
    let running = Running::start(app, Conf::isolated());
    until(|| running.is_reading()).await;
    dependent.send(5).await?;
    until(|| first.status().is_ok_and(|status| status.held_lanes == 1)).await;
    a.send(6).await?;
    until(|| second.status().is_ok_and(|status| status.held_lanes == 1)).await;
    assert!(seen.lock().unwrap().is_empty(), "the other dependency is still down");
    b.send(6).await?;
    until(|| *seen.lock().unwrap() == [5]).await;
    running.stop().await
}
