//! The figures of the example computed in the plainest way: everything in memory, no streams. What the streaming
//! program prints has to equal this.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

pub use super::records::Figures;
use super::records::{Band, Flight, Weather};

/// The observations of each airport by time.
pub struct Observations<'a>(BTreeMap<(&'a str, DateTime<Utc>), &'a Weather>);

impl<'a> Observations<'a> {
    pub fn new(weather: &'a [Weather]) -> Self {
        Self(weather.iter().map(|w| ((w.origin.as_str(), w.time_hour), w)).collect())
    }

    /// The last observation at the flight's airport that is not later than its scheduled hour.
    pub fn before(&self, flight: &Flight) -> Option<&'a Weather> {
        let origin = flight.origin.as_str();
        let earliest = (origin, DateTime::<Utc>::MIN_UTC);
        self.0.range(earliest..=(origin, flight.time_hour)).next_back().map(|(_, weather)| *weather)
    }
}

/// Joins each flight that departed to its weather and adds up.
pub fn figures(flights: &[Flight], weather: &[Weather]) -> Figures {
    let observations = Observations::new(weather);
    let mut figures = Figures::new();
    for flight in flights {
        let Some(delay_minutes) = flight.dep_delay else { continue };
        let band = Band::of(observations.before(flight));
        let (departures, total_minutes) = figures.entry((flight.origin.clone(), band)).or_default();
        *departures += 1;
        *total_minutes += i64::from(delay_minutes);
    }
    figures
}
