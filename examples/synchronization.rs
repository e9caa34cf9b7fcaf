//! Activities joined to the weather they happened in, while the weather falls behind.
//!
//! After its second message the weather pauses. The activity that comes too early is handled with what is known (the line
//! is wrong and says so), the activities pause, and when the weather is back, the topic goes back and the line comes again,
//! corrected.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipstream::Retention;
use slipstream::prelude::*;

#[derive(Clone, Serialize, Deserialize)]
struct Event {
    time: DateTime<Utc>,
    what: String,
}

static WEATHER: Topic<Event> = Topic::new("weather").partitions(1).broadcast();
static ACTIVITY: Topic<Event> = Topic::new("activity").partitions(1);
static BY_TIME: Cache<DateTime<Utc>, String> = Cache::new("weather").retention(Retention::Keep);

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

fn weather() -> impl Stream<Item = Event> {
    stream! {
        for (hour, what) in [(10, "sun"), (11, "clouds"), (12, "rain"), (13, "storm"), (14, "fog")] {
            tokio::time::sleep(Duration::from_millis(if hour == 12 { 2_000 } else { 100 })).await;
            if let Some(event) = at(hour, 0, what) { yield event; }
        }
    }
}

fn activities() -> impl Stream<Item = Event> {
    stream! {
        for (hour, minute, what) in [(10, 30, "swimming"), (11, 30, "walking home"), (12, 30, "shopping"), (13, 10, "lunch")] {
            tokio::time::sleep(Duration::from_millis(300)).await;
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

#[handle(WEATHER, sink = [BY_TIME])]
fn keep(weather: Event) -> (DateTime<Utc>, String) {
    (weather.time, weather.what)
}

#[handle(CHECKPOINT, sink = [print])]
fn join(activity: Event, downtime: Option<Downtime>) -> Result<String> {
    let Event { time, what } = activity;
    let last = BY_TIME.items().from(time).rev().iter().next().transpose()?;
    let weather = last.map_or_else(|| "nothing known".to_owned(), |(_, weather)| weather);
    let late = downtime.map(|_| " (wrong: the weather is late)").unwrap_or_default();
    Ok(format!("{what}: {weather}{late}"))
}

#[tokio::main]
async fn main() -> Result<()> {
    slipstream::log::init();
    Conf::fallback("broker", "memory:")?;
    Conf::fallback("app.id", "synchronization")?;
    let run = stream();
    let handle = run.handle();
    // Four activities, one of them twice.
    let watch = async move |_stop| {
        while handle.stats().handled("activity") < 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        handle.trigger();
        Ok(())
    };
    run.beside(watch).await
}
