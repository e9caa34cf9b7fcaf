//! What happens to the weather on its way, and what the program tells of it while it runs.

use std::fmt::Arguments;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, bail};
use chrono::{DateTime, TimeDelta, Utc};
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use slipstream::checkpoint::{Downtime, Mark, Outage, Status};
use slipstream::try_stream;

use crate::records::{Band, Weather, load_weather};
use crate::{CHECKPOINT, Departure, LOOK_EVERY, WEATHER, rest_of};

/// With `--outage` nothing later than this arrives until the flights have noticed. It is night; the next flight leaves
/// five hours later, and by then the rain at Newark is over.
const LAST_BEFORE_OUTAGE: &str = "2013-01-15T05:00:00Z";
/// How long the weather stays away after the flights have noticed.
const AWAY: Duration = Duration::from_millis(800);
/// How long it waits for that: they do not notice if they need none of what is to come.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// What the arguments ask for.
#[derive(Clone, Copy, Default)]
pub struct Mode {
    /// `--hold`: a flight that comes too early waits.
    pub is_hold: bool,
    /// `--outage`: the weather also stops in the middle.
    pub has_outage: bool,
}

impl Mode {
    pub fn of_this_program() -> Result<Self> {
        let mut mode = Self::default();
        for argument in std::env::args().skip(1) {
            match argument.as_str() {
                "--hold" => mode.is_hold = true,
                "--outage" => mode.has_outage = true,
                other => bail!("{other} is unknown: there are --hold and --outage"),
            }
        }
        Ok(mode)
    }

    /// The same where `main` has looked at them.
    pub fn of_this_run() -> Self {
        Self::of_this_program().unwrap_or_default()
    }

    pub fn explain(self) {
        let stops = if self.has_outage { " and stops in the middle of the month" } else { "" };
        let then = if self.is_hold { "wait for it" } else { "pause, go back, and correct what was too early" };
        println!("The weather begins late{stops}; the flights {then}.");
    }
}

/// A message of the topic `weather`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bulletin {
    /// Everything before this hour has been said.
    pub time_hour: DateTime<Utc>,
    /// What was observed then; nothing in the closing message, without which the flights of the last hour would wait for
    /// ever.
    pub seen: Option<Weather>,
}

/// All airports hour by hour, and the closing message.
fn bulletins() -> Result<Vec<Bulletin>> {
    let observed = load_weather()?.into_iter();
    let mut all: Vec<_> = observed.map(|seen| Bulletin { time_hour: seen.time_hour, seen: Some(seen) }).collect();
    all.sort_by_key(|bulletin| bulletin.time_hour);
    let closing = all.last().map(|last| last.time_hour + TimeDelta::hours(1));
    all.extend(closing.map(|time_hour| Bulletin { time_hour, seen: None }));
    Ok(all)
}

/// The bulletins that the topic does not have yet. They begin late and, with `--outage`, stop for a while.
pub fn weather() -> impl Stream<Item = Result<Bulletin>> {
    try_stream! {
        let last_before: DateTime<Utc> = LAST_BEFORE_OUTAGE.parse()?;
        let has_outage = Mode::of_this_run().has_outage;
        let mut rest = pin!(rest_of(&WEATHER, bulletins));
        let (mut last, mut outage) = (None, None);
        while let Some(bulletin) = rest.next().await.transpose()? {
            let begins = last.is_none();
            let stops = has_outage && last <= Some(last_before) && bulletin.time_hour > last_before;
            if begins || stops {
                outage = stay_away(outage).await;
            }
            last = Some(bulletin.time_hour);
            yield bulletin;
        }
    }
}

/// Until the flights have noticed, which is an outage after the one before, and somewhat longer.
async fn stay_away(before: Option<u64>) -> Option<u64> {
    let present = || CHECKPOINT.status().ok().and_then(|status| status.outage);
    let noticed = async {
        while present() <= before {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let _ = tokio::time::timeout(NOTICED_WITHIN, noticed).await;
    tokio::time::sleep(AWAY).await;
    present().max(before)
}

// ---- what is told -------------------------------------------------------------------------------------------------

/// The weather is behind.
pub fn down(outage: &Outage) {
    let what = if Mode::of_this_run().is_hold { "held" } else { "paused" };
    let (flights, weather) = (outage.detected.marker(), outage.detected.dependency("weather"));
    let (number, flights, weather) = (outage.number, marker(flights), marker(weather));
    tell(what, format_args!("outage {number}: flights at {flights}, weather at {weather}"));
}

/// The weather is back.
pub fn back(outage: &Outage) {
    let weather = outage.recovered.as_ref().and_then(|recovered| recovered.dependency("weather"));
    let (number, weather) = (outage.number, marker(weather));
    match outage.safe_offsets.first() {
        Some((_, flight)) => {
            tell("rewound", format_args!("outage {number}: weather at {weather}, back to flight {flight}"));
        }
        None => tell("released", format_args!("outage {number}: weather at {weather}")),
    }
}

/// A row is about to be written, for the first time or over another.
pub fn joined(identity: &str, departure: &Departure, before: Option<&Departure>, downtime: Option<Downtime>) {
    let band = Band::of(departure.weather.as_ref());
    if let Some(downtime) = downtime {
        return tell("too early", format_args!("{identity}: {band}, as far as is known ({downtime})"));
    }
    if let Some(before) = before.filter(|before| before.weather != departure.weather) {
        let was = Band::of(before.weather.as_ref());
        tell("corrected", format_args!("{identity}: {band} instead of {was}"));
    }
}

pub fn sum_up(status: &Status) {
    let counts = status.counts;
    println!("\nOutages of the weather: {}; the flights were sent back: {}.", counts.downs, counts.rewinds);
}

fn tell(what: &str, more: Arguments<'_>) {
    println!("  {what:<11}{more}");
}

fn marker(mark: Option<Mark>) -> String {
    mark.map_or_else(|| "its beginning".to_owned(), |mark| mark.to_string())
}
