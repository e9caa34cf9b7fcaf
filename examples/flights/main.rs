//! Every flight that left New York in January 2013, joined to the weather it left in.
//!
//! Two files are replayed into the topics `weather` and `flights`. One handler keeps the weather in a cache; another
//! looks up, for each flight that departed, the last observation at its airport not later than its scheduled hour,
//! writes both to the topic `enriched`, and stores one row per flight. The table is folded from those rows.
//!
//! `make demo` runs it; the topics are in a log on disk, in `state/_broker`. Run it again, or kill it at any moment and
//! run it again: it goes on where it was, and the table is the same.
//!
//! With `SLIPSTREAM_BROKER=kafka://host:port make demo` the topics are on your Kafka. With
//! `SLIPSTREAM_BROKER=booblik://host:port` they are on a booblik broker, which has to have them:
//! `slipstream broker serve --topic weather:1 --topic flights:1 --topic enriched:4`.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod records;
mod report;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipstream::keys::Key;
use slipstream::prelude::*;
use slipstream::topic::SeekTo;
use slipstream::{Error, Kind, Retention, RunHandle};

use records::{Flight, Weather, load_flights, load_weather};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A flight that departed, with the last observation at its airport before that.
#[derive(Clone, Serialize, Deserialize)]
struct Departure {
    flight: Flight,
    weather: Option<Weather>,
}

// One partition keeps the order of the file: how long the topic is says how much of the file is in it.
static WEATHER: Topic<Weather> = Topic::new("weather").partitions(1);
static FLIGHTS: Topic<Flight> = Topic::new("flights").partitions(1);
static ENRICHED: Topic<Departure> = Topic::new("enriched").partitions(4);

static OBSERVATIONS: Cache<(String, DateTime<Utc>), Weather> = Cache::new("observations").retention(Retention::Keep);
// Under the flight's identity: to store one twice is to store it once.
static DEPARTURES: Cache<String, Departure> = Cache::new("departures").retention(Retention::Keep);
static CANCELLED: Cache<String, Flight> = Cache::new("cancelled").retention(Retention::Keep);

#[handle(rest_of(&WEATHER, load_weather), sink = [WEATHER])]
fn replay_weather(seen: Weather) -> (String, Weather) {
    (seen.origin.clone(), seen)
}

#[handle(rest_of(&FLIGHTS, load_flights), sink = [FLIGHTS])]
fn replay_flights(flight: Flight) -> (String, Flight) {
    (flight.origin.clone(), flight)
}

#[handle(WEATHER, sink = [OBSERVATIONS])]
fn keep(seen: Weather) -> ((String, DateTime<Utc>), Weather) {
    ((seen.origin.clone(), seen.time_hour), seen)
}

#[handle(FLIGHTS, sink = [ENRICHED.map(by_airport), DEPARTURES.map(by_identity)])]
fn join(flight: Flight) -> Result<Option<Departure>> {
    if !flight.departed() {
        return Ok(None);
    }
    let hour = (flight.origin.as_str(), flight.time_hour);
    let before = OBSERVATIONS.items().prefix((flight.origin.as_str(),)).from(hour).rev();
    let last = before.iter().next().transpose()?;
    Ok(Some(Departure { flight, weather: last.map(|(_, seen)| seen) }))
}

#[handle(FLIGHTS, sink = [CANCELLED])]
fn stayed(flight: Flight) -> Option<(String, Flight)> {
    (!flight.departed()).then(|| (flight.identity(), flight))
}

fn by_airport(departure: Departure) -> (String, Departure) {
    (departure.flight.origin.clone(), departure)
}

fn by_identity(departure: Departure) -> (String, Departure) {
    (departure.flight.identity(), departure)
}

/// The rows of a file that its topic does not have yet; those that an earlier run has written are not written again.
fn rest_of<T>(topic: &'static Topic<T>, load: fn() -> anyhow::Result<Vec<T>>) -> impl Stream<Item = anyhow::Result<T>> {
    try_stream! {
        let found = topic.admin()?.describe().await?;
        let written = found.map_or(0, |topic| topic.partitions.iter().map(|(_, end)| *end).sum());
        for row in load()?.into_iter().skip(usize::try_from(written)?) {
            yield row;
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    slipstream::log::init();
    Conf::fallback("app.id", "flights")?;
    // On Kafka, who starts after a crash takes the place of the one that crashed, without a wait until that one is given
    // up. Elsewhere there are no groups, and this has no effect.
    Conf::fallback("group.instance.id", "flights")?;

    let stored_before = report::begin()?;
    let in_files = (load_weather()?.len(), load_flights()?.len());
    FLIGHTS.pause(); // until the weather is there
    let run = stream();
    let handle = run.handle();
    let watched = handle.clone();
    run.beside(move |stop| async move { stop.run_until_cancelled(watch(&watched, in_files)).await.unwrap_or(Ok(())) })
        .await?;
    report::end(stored_before, &handle.stats())
}

/// Lets the flights go when all of the weather is kept, and ends the run when all flights are stored.
async fn watch(run: &RunHandle, (observations, flights): (usize, usize)) -> Result<()> {
    read_to_the_end(run, &WEATHER, observations, || count(&OBSERVATIONS)).await?;
    FLIGHTS.resume();
    read_to_the_end(run, &FLIGHTS, flights, || Ok(count(&DEPARTURES)? + count(&CANCELLED)?)).await?;
    run.trigger();
    Ok(())
}

/// Waits until everything in `topic` is done, and sees that it is `stored`. It is not if the caches were deleted, or
/// are not those of the group whose position the broker keeps: then the topic is read again from its beginning.
async fn read_to_the_end<T>(
    run: &RunHandle,
    topic: &Topic<T>,
    rows: usize,
    stored: impl Fn() -> Result<usize>,
) -> Result<()> {
    for _ in 0..2 {
        let mut progress = report::Progress::new(topic.name(), rows);
        while progress.show(report::position(run, topic.name())) < rows {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if stored()? == rows {
            return Ok(());
        }
        println!("{:<8} has rows that are not stored here: reading it again", topic.name());
        topic.seek(SeekTo::Beginning).await?;
    }
    Err(Error::new(Kind::Store, "read twice, and still not all of it is stored").at(topic.name()))
}

/// How many rows a cache has.
fn count<K: Key, V>(cache: &Cache<K, V>) -> Result<usize> {
    cache.keys().iter().try_fold(0, |rows, key| key.map(|_| rows + 1))
}
