//! What the example prints, and where it finds the numbers.

use std::fmt::Display;
use std::time::{Duration, Instant};

use slipstream::app::Stats;
use slipstream::{Result, RunHandle};

use crate::records::{Band, Figures};
use crate::{CANCELLED, DEPARTURES, FLIGHTS, OBSERVATIONS, WEATHER, count};

const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Says where the run starts; returns how many departures are stored already.
pub fn begin() -> Result<usize> {
    let stored = count(&DEPARTURES)?;
    match stored {
        0 => println!("Nothing is stored yet."),
        _ => println!("An earlier run has stored {} departures: going on from there.", grouped(stored)),
    }
    Ok(stored)
}

/// Up to which record everything in a topic is done.
pub fn position(run: &RunHandle, topic: &str) -> usize {
    let sources = run.health().sources;
    let lanes = sources.iter().filter(|source| source.name == topic).flat_map(|source| &source.lanes);
    lanes.filter_map(|lane| usize::try_from(lane.position?).ok()).sum()
}

/// A line per second on how far a topic is read.
pub struct Progress<'a> {
    topic: &'a str,
    rows: usize,
    shown: Instant,
}

impl<'a> Progress<'a> {
    pub fn new(topic: &'a str, rows: usize) -> Self {
        Self { topic, rows, shown: Instant::now() }
    }

    /// Returns what it was given.
    pub fn show(&mut self, position: usize) -> usize {
        if position >= self.rows || self.shown.elapsed() >= SHOW_EVERY {
            self.shown = Instant::now();
            println!("{:<8} {:>6} of {}", self.topic, grouped(position), grouped(self.rows));
        }
        position
    }
}

/// The table, folded from the rows, and how many records came from where.
pub fn end(stored_before: usize, stats: &Stats) -> anyhow::Result<()> {
    let mut figures = Figures::new();
    for departure in DEPARTURES.values() {
        let departure = departure?;
        let band = Band::of(departure.weather.as_ref());
        let (departures, minutes) = figures.entry((departure.flight.origin, band)).or_default();
        *departures += 1;
        *minutes += i64::from(departure.flight.dep_delay.unwrap_or_default());
    }
    print_figures(&figures);
    let (weather, departed, cancelled) = (count(&OBSERVATIONS)?, count(&DEPARTURES)?, count(&CANCELLED)?);
    println!("\n{:<24}{:>12}{:>15}", "records", "stored", "read just now");
    for (topic, stored) in [(WEATHER.name(), weather), (FLIGHTS.name(), departed + cancelled)] {
        println!("topic {topic:<18}{:>12}{:>15}", grouped(stored), grouped(stats.handled(topic)));
    }
    println!("  departed              {:>12}\n  cancelled             {:>12}", grouped(departed), grouped(cancelled));
    println!("\n{} new departures, {} were there already.", grouped(departed - stored_before), grouped(stored_before));
    Ok(())
}

fn print_figures(figures: &Figures) {
    println!("\n{:<9}{:<15}{:>12}{:>15}{:>12}", "airport", "weather", "departures", "minutes late", "mean delay");
    for ((airport, band), (departures, minutes)) in figures {
        let (late, mean) = (grouped(*minutes), mean(*minutes, *departures));
        println!("{airport:<9}{band:<15}{:>12}{late:>15}{mean:>12.2}", grouped(*departures));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a month of minutes is exact in 53 bits")]
fn mean(minutes: i64, departures: u64) -> f64 {
    minutes as f64 / departures as f64
}

/// A number with a comma between thousands.
pub fn grouped(number: impl Display) -> String {
    let digits = format!("{number}");
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && digit.is_ascii_digit() && (digits.len() - at).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
