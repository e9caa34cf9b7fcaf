//! A checkpoint without any broker: activities wait for the weather that they happened in.
//!
//! The weather comes later than the activities. `hold()` keeps each activity at the gate until the weather has passed its
//! hour, so that every line is right the first time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use slipstream::prelude::*;

#[derive(Clone, Copy)]
struct Event {
    hour: u32,
    what: &'static str,
}

static SEEN: Mutex<BTreeMap<u32, &'static str>> = Mutex::new(BTreeMap::new());

static WEATHER: SharedStream<Event> =
    SharedStream::new("weather", || late([(10, "sun"), (11, "clouds"), (13, "rain")]));
static ACTIVITY: SharedStream<Event> = SharedStream::new("activity", || {
    stream::iter([(10, "swimming"), (12, "walking"), (13, "reading")].map(event)).boxed()
});

static CHECKPOINT: Checkpoint<Event> = Checkpoint::new("activity", |it| {
    it.dependent(&ACTIVITY, |event| event.hour)
        .dependency(Dependency::new("weather", &WEATHER, |event| event.hour))
        .hold()
});

fn event((hour, what): (u32, &'static str)) -> Event {
    Event { hour, what }
}

fn late<const N: usize>(events: [(u32, &'static str); N]) -> futures::stream::BoxStream<'static, Event> {
    let slowly = stream::iter(events).then(async |known| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        event(known)
    });
    slowly.boxed()
}

#[handle(WEATHER)]
fn keep(weather: Event) {
    if let Ok(mut seen) = SEEN.lock() {
        seen.insert(weather.hour, weather.what);
    }
}

#[handle(CHECKPOINT, sink = [print])]
fn join(activity: Event) -> String {
    let seen = SEEN.lock().map(|seen| seen.range(..=activity.hour).next_back().map(|(_, what)| *what));
    format!("{}: {}", activity.what, seen.ok().flatten().unwrap_or("no weather"))
}

#[tokio::main]
async fn main() -> Result<()> {
    slipstream::log::init();
    stream().await
}
