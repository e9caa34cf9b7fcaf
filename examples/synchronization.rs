//! Activities joined to the weather they happened in, while the weather falls behind.
//!
//! After its second message the weather pauses. The activity that comes too early is handled with what is known (the line
//! is wrong and says so), the activities pause, and when the weather is back, the topic goes back to the first activity
//! that was not covered, and its lines come again, corrected.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipstream::checkpoint::{Doing, Status};
use slipstream::prelude::*;

#[derive(Clone, Serialize, Deserialize)]
struct Event {
    time: DateTime<Utc>,
    what: String,
}

static WEATHER: Topic<Event> = Topic::new("weather").partitions(1).broadcast();
static ACTIVITY: Topic<Event> = Topic::new("activity").partitions(1);
/// Gone when the program ends, as its topics are: a cache on disk would have tomorrow's weather in the next run. Where
/// topics stay, a `Cache` does this.
static BY_TIME: Mutex<BTreeMap<DateTime<Utc>, String>> = Mutex::new(BTreeMap::new());

static CHECKPOINT: Checkpoint<Message<Event>> = Checkpoint::new("activity", |it| {
    it.dependent(&ACTIVITY, |message| message.value.time)
        .dependency(Dependency::new("weather", &WEATHER, |message| message.value.time))
        .threshold(Duration::from_hours(1))
        .on_downtime(|outage| {
            println!("  [paused: {}]", outage.downtime.as_ref().map(ToString::to_string).unwrap_or_default());
        })
        .on_recovery(|outage| println!("  [recovered, back to {:?}]", outage.safe_offsets))
});

fn at(hour: u32, minute: u32, what: &str) -> Option<Event> {
    let time = chrono::NaiveDate::from_ymd_opt(2023, 1, 1)?.and_hms_opt(hour, minute, 0)?.and_utc();
    Some(Event { time, what: what.to_owned() })
}

/// Looks until the checkpoint stands like that.
async fn until(is_meant: impl Fn(&Status) -> bool) {
    while !CHECKPOINT.status().is_ok_and(|status| is_meant(&status)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn weather() -> impl Stream<Item = Event> {
    stream! {
        for (hour, what) in [(10, "sun"), (11, "clouds"), (12, "rain"), (13, "storm"), (14, "fog")] {
            if hour == 12 {
                until(|status| status.doing == Doing::Paused).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            if let Some(event) = at(hour, 0, what) { yield event; }
        }
    }
}

fn activities() -> impl Stream<Item = Event> {
    stream! {
        let begin = at(11, 0, "").map(|event| event.time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
        until(|status| status.dependencies.iter().all(|weather| weather.marker >= begin)).await;
        for (hour, minute, what) in [(10, 30, "swimming"), (11, 30, "walking home"), (12, 30, "shopping"), (13, 10, "lunch")] {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if let Some(event) = at(hour, minute, what) { yield event; }
        }
    }
}

#[handle(weather(), sink = [WEATHER])]
fn bring_weather(event: Event) -> Event {
    event
}

#[handle(activities(), sink = [ACTIVITY])]
fn bring_activity(event: Event) -> Event {
    event
}

#[handle(WEATHER)]
fn keep(weather: Event) {
    BY_TIME.lock().unwrap_or_else(PoisonError::into_inner).insert(weather.time, weather.what);
}

#[handle(CHECKPOINT, sink = [print])]
fn join(activity: Event, downtime: Option<Downtime>) -> String {
    let Event { time, what } = activity;
    let known = BY_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let weather = known.range(..=time).next_back().map_or("nothing known", |(_, weather)| weather);
    let late = downtime.map(|_| " (wrong: the weather is late)").unwrap_or_default();
    format!("{what}: {weather}{late}")
}

#[tokio::main]
async fn main() -> Result<()> {
    slipstream::log::init();
    Conf::fallback("broker", "memory:")?;
    Conf::fallback("app.id", "synchronization")?;
    let run = stream();
    let handle = run.handle();
    // Four activities, and two of them again.
    let watch = async move |_stop| {
        while handle.stats().handled("activity") < 6 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        handle.trigger();
        Ok(())
    };
    run.beside(watch).await
}
