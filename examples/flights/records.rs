//! The two data sets of the example as Rust values, and the weather bands that its figures are grouped by.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use csv::StringRecord;
use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};

/// Below this the observation counts as low visibility: the limit for flying by instruments only.
const LOW_VISIBILITY_MILES: f64 = 3.0;

/// How the data set writes a value that nobody knows.
const MISSING: &str = "NA";

/// One flight that was to leave New York.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    /// Airport of departure: `EWR`, `JFK` or `LGA`.
    pub origin: String,
    pub dest: String,
    /// Two-letter code of the airline.
    pub carrier: String,
    /// Flight number; with the airline, the airport and the hour it is unique.
    pub number: u32,
    /// Registration of the aircraft.
    pub tailnum: Option<String>,
    /// The scheduled hour of departure, UTC, minutes cut off.
    pub time_hour: DateTime<Utc>,
    /// Minutes after (or, negative, before) schedule; `None` if it never departed.
    pub dep_delay: Option<i32>,
}

impl Flight {
    /// What tells this flight from every other, the same in every run.
    pub fn identity(&self) -> String {
        format!("{}/{}{}/{}", self.origin, self.carrier, self.number, self.time_hour.format("%Y-%m-%dT%H"))
    }

    pub fn departed(&self) -> bool {
        self.dep_delay.is_some()
    }
}

/// One hourly observation at one of the three airports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weather {
    pub origin: String,
    /// The hour of the observation, UTC.
    pub time_hour: DateTime<Utc>,
    /// Degrees Fahrenheit.
    pub temp: f64,
    /// Miles per hour.
    pub wind_speed: f64,
    /// Rain or melted snow in inches.
    pub precip: f64,
    /// Miles; 10 stands for "10 or more".
    pub visib: f64,
}

/// What the weather was like, in the order in which a table should show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Band {
    Clear,
    /// Rain or snow with sight enough.
    Rain,
    /// Fog, or rain and snow too thick to see through.
    LowVisibility,
    /// No observation at the airport yet.
    Unknown,
}

impl Band {
    pub fn of(weather: Option<&Weather>) -> Self {
        match weather {
            None => Self::Unknown,
            Some(w) if w.visib < LOW_VISIBILITY_MILES => Self::LowVisibility,
            Some(w) if w.precip > 0.0 => Self::Rain,
            Some(_) => Self::Clear,
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Clear => "clear",
            Self::Rain => "rain",
            Self::LowVisibility => "low visibility",
            Self::Unknown => "unknown",
        })
    }
}

/// For each airport and weather band: departures, and the sum of their delays in minutes. Sums of integers, so that
/// two computations can be compared exactly; the mean is a quotient of the two.
pub type Figures = BTreeMap<(String, Band), (u64, i64)>;

/// The 27,004 flights of January 2013 in the order of the file, which is not that of `time_hour`.
pub fn load_flights() -> Result<Vec<Flight>> {
    load("flights-2013-01.csv.gz", |row| {
        Ok(Flight {
            origin: row.required("origin")?,
            dest: row.required("dest")?,
            carrier: row.required("carrier")?,
            number: row.required("flight")?,
            tailnum: row.optional("tailnum")?,
            time_hour: row.required("time_hour")?,
            dep_delay: row.optional("dep_delay")?,
        })
    })
}

/// The 2,226 observations, grouped by airport and ordered by time within each.
pub fn load_weather() -> Result<Vec<Weather>> {
    load("weather-2013-01.csv.gz", |row| {
        Ok(Weather {
            origin: row.required("origin")?,
            time_hour: row.required("time_hour")?,
            temp: row.required("temp")?,
            wind_speed: row.required("wind_speed")?,
            precip: row.required("precip")?,
            visib: row.required("visib")?,
        })
    })
}

fn load<T>(file: &str, read: impl Fn(&Row) -> Result<T>) -> Result<Vec<T>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/flights/data").join(file);
    let compressed = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut reader = csv::Reader::from_reader(GzDecoder::new(compressed));
    let columns = reader.headers()?.clone();
    reader
        .records()
        .enumerate()
        .map(|(n, values)| {
            read(&Row { columns: &columns, values: &values? }).with_context(|| format!("{file}, row {n}"))
        })
        .collect()
}

/// One line of a file with the names of its columns.
struct Row<'a> {
    columns: &'a StringRecord,
    values: &'a StringRecord,
}

impl Row<'_> {
    fn required<T>(&self, column: &str) -> Result<T>
    where
        T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        self.optional(column)?.with_context(|| format!("{column} is missing"))
    }

    fn optional<T>(&self, column: &str) -> Result<Option<T>>
    where
        T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        let index = self.columns.iter().position(|name| name == column);
        let text = index.and_then(|i| self.values.get(i)).with_context(|| format!("there is no column {column}"))?;
        if text == MISSING {
            return Ok(None);
        }
        text.parse().map(Some).with_context(|| format!("{column} is {text:?}"))
    }
}
