//! Every flight that left New York in January 2013, joined to the weather it left in, although the weather is late.
//!
//! Two files are replayed into the topics `weather` and `flights`. One handler keeps the weather in a cache; another
//! looks up, for each flight that departed, the last observation at its airport not later than its scheduled hour,
//! writes both to the topic `enriched`, and stores one row per flight. The table is folded from those rows.
//!
//! The weather begins after the flights do, and with `--outage` it also stops in a night in the middle of the month. A
//! checkpoint notices: the flight that came too early is joined to what is known, the flights pause, and when the weather
//! is back they go back, so that its row is written again, corrected. With `--hold` the flight waits instead, and no row
//! is ever wrong. The table is the same.
//!
//! `make demo` runs it, `make demo ARGS="--outage --hold"` with these arguments; the topics are in a log on disk, in
//! `state/_broker`. Run it again, or kill it at any moment and run it again: it goes on where it was, and the table is the
//! same. `make demo-reset` lets it begin anew.
//!
//! With `SLIPSTREAM_BROKER=kafka://host:port make demo` the topics are on your Kafka. With
//! `SLIPSTREAM_BROKER=booblik://host:port` they are on a booblik broker, which has to have them:
//! `slipstream broker serve --topic weather:1 --topic flights:1 --topic enriched:4`.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod records;
mod report;
mod story;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipstream::checkpoint::Doing;
use slipstream::keys::Key;
use slipstream::prelude::*;
use slipstream::topic::SeekTo;
use slipstream::{Error, Kind, Retention, RunHandle};

use records::{Flight, Weather, load_flights, load_weather};
use story::{Bulletin, Mode};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A flight that departed, with the last observation at its airport before that.
#[derive(Clone, Serialize, Deserialize)]
struct Departure {
    flight: Flight,
    weather: Option<Weather>,
}

// One partition keeps the order: how long the topic is says how much of the file is in it. Everyone needs all of the
// weather, so on Kafka it is not shared between members.
static WEATHER: Topic<Bulletin> = Topic::new("weather").partitions(1).broadcast();
static FLIGHTS: Topic<Flight> = Topic::new("flights").partitions(1);
static ENRICHED: Topic<Departure> = Topic::new("enriched").partitions(4);

static OBSERVATIONS: Cache<(String, DateTime<Utc>), Weather> = Cache::new("observations").retention(Retention::Keep);
// Under the flight's identity: what is written again, corrected, takes the place of what was there.
static DEPARTURES: Cache<String, Departure> = Cache::new("departures").retention(Retention::Keep);
static CANCELLED: Cache<String, Flight> = Cache::new("cancelled").retention(Retention::Keep);

// A flight needs all weather up to its hour. Once something later has been observed, that is there.
static CHECKPOINT: Checkpoint<Message<Flight>> = Checkpoint::new("flights", |it| {
    let guard = it
        .dependent(&FLIGHTS, |flight| flight.value.time_hour)
        .dependency(Dependency::new("weather", &WEATHER, |bulletin| bulletin.value.time_hour))
        .threshold(Duration::ZERO)
        .on_downtime(|outage| story::down(&outage))
        .on_recovery(|outage| story::back(&outage));
    if Mode::of_this_run().is_hold { guard.hold() } else { guard }
});

#[handle(story::weather(), sink = [WEATHER])]
fn replay_weather(bulletin: Bulletin) -> Bulletin {
    bulletin
}

#[handle(rest_of(&FLIGHTS, load_flights), sink = [FLIGHTS])]
fn replay_flights(flight: Flight) -> (String, Flight) {
    (flight.origin.clone(), flight)
}

#[handle(WEATHER, sink = [OBSERVATIONS])]
fn keep(bulletin: Bulletin) -> Option<((String, DateTime<Utc>), Weather)> {
    let seen = bulletin.seen?;
    Some(((seen.origin.clone(), seen.time_hour), seen))
}

#[handle(CHECKPOINT, sink = [ENRICHED, DEPARTURES])]
fn join(flight: Flight, downtime: Option<Downtime>) -> Result<Option<(String, Departure)>> {
    if !flight.departed() {
        return Ok(None);
    }
    let identity = flight.identity();
    let departure = Departure { weather: last_observation(&flight)?, flight };
    story::joined(&identity, &departure, DEPARTURES.get(&identity)?.as_ref(), downtime);
    Ok(Some((identity, departure)))
}

#[handle(CHECKPOINT, sink = [CANCELLED])]
fn stayed(flight: Flight) -> Option<(String, Flight)> {
    (!flight.departed()).then(|| (flight.identity(), flight))
}

/// The last one at the flight's airport that is not later than its scheduled hour.
fn last_observation(flight: &Flight) -> Result<Option<Weather>> {
    let hour = (flight.origin.as_str(), flight.time_hour);
    let before = OBSERVATIONS.items().prefix((flight.origin.as_str(),)).from(hour).rev();
    let last = before.iter().next().transpose()?;
    Ok(last.map(|(_, seen)| seen))
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

    Mode::of_this_program()?.explain();
    let stored_before = report::begin()?;
    let in_files = (load_weather()?.len(), load_flights()?.len());
    let run = stream();
    let handle = run.handle();
    let watched = handle.clone();
    run.beside(move |stop| async move { stop.run_until_cancelled(watch(&watched, in_files)).await.unwrap_or(Ok(())) })
        .await?;
    report::end(stored_before, &handle.stats())
}

/// Ends the run when all weather is kept, nothing is left to be corrected, and all flights are stored.
async fn watch(run: &RunHandle, (observations, flights): (usize, usize)) -> Result<()> {
    let kept = || Ok(count(&OBSERVATIONS)? == observations);
    read_to_the_end(run, &WEATHER, observations + 1, kept).await?; // and the closing message
    let stored = || Ok(count(&DEPARTURES)? + count(&CANCELLED)? == flights);
    read_to_the_end(run, &FLIGHTS, flights, stored).await?;
    story::sum_up(&CHECKPOINT.status()?);
    run.trigger();
    Ok(())
}

/// Waits until everything in `topic` is done, and sees that it is stored. It is not if the caches were deleted, or
/// are not those of the group whose position the broker keeps: then the topic is read again from its beginning.
async fn read_to_the_end<T>(
    run: &RunHandle,
    topic: &Topic<T>,
    rows: usize,
    is_stored: impl Fn() -> Result<bool>,
) -> Result<()> {
    for _ in 0..2 {
        let mut progress = report::Progress::new(topic.name(), rows);
        loop {
            // Looked at first: once it runs with all weather there, nothing goes back any more.
            let is_running = CHECKPOINT.status()?.doing == Doing::Running;
            if progress.show(report::position(run, topic.name())) >= rows && is_running {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if is_stored()? {
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
