//! The framework's own keys, their defaults, and their values once read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::broker::BrokerUrl;
use super::entry::Entry;
use super::key::{KeyInfo, Scope, alias, key};
use super::name::check_name;
use super::units;
use crate::{Error, Kind, Result};

const PLAIN: bool = false;

/// The framework's keys. They win over librdkafka's of the same name.
pub(super) static FRAMEWORK: &[KeyInfo] = &[
    key("app.id", Scope::App, PLAIN),
    key("auto.offset.reset", Scope::Topic, PLAIN),
    key("broker", Scope::Topic, PLAIN),
    key("commit.interval", Scope::App, PLAIN),
    // It would set what `commit.interval` sets here, and librdkafka's own has no effect while its auto-commit is off.
    alias("auto.commit.interval.ms", "commit.interval", Scope::App, PLAIN),
    key("drain.timeout", Scope::App, PLAIN),
    key("durability", Scope::Topic, PLAIN),
    key("embedded.partitions", Scope::App, PLAIN),
    key("embedded.retention.age", Scope::App, PLAIN),
    key("embedded.retention.bytes", Scope::App, PLAIN),
    key("encoding", Scope::Topic, PLAIN),
    key("max.in.flight", Scope::App, PLAIN),
    key("max.in.flight.bytes", Scope::App, PLAIN),
    key("name", Scope::OneTopic, PLAIN),
    key("partitions", Scope::OneTopic, PLAIN),
    key("revoke.timeout", Scope::App, PLAIN),
    key("state.dir", Scope::App, PLAIN),
    key("table.generation.bytes", Scope::App, PLAIN),
    key("table.generation.time", Scope::App, PLAIN),
    key("table.generation.units", Scope::App, PLAIN),
    key("table.hot.bytes", Scope::App, PLAIN),
    key("watchdog.timeout", Scope::App, PLAIN),
];

/// Defaults other than `app.id`, which is the program's name.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("commit.interval", "1s"),
    ("drain.timeout", "30s"),
    ("durability", "written"),
    ("embedded.partitions", "4"),
    ("max.in.flight", "8192"),
    ("max.in.flight.bytes", "64MiB"),
    ("revoke.timeout", "10s"),
    ("state.dir", "state"),
    ("table.generation.bytes", "16MiB"),
    ("table.generation.time", "200ms"),
    ("table.generation.units", "65536"),
    ("table.hot.bytes", "64MiB"),
    ("watchdog.timeout", "60s"),
];

/// The most messages that may be in flight: each takes a slot of every partition's ring.
const IN_FLIGHT_LIMIT: u64 = 1 << 20;
/// The most messages that a table's rows may be ahead of its store.
const GENERATION_UNITS_LIMIT: u64 = 1 << 30;
/// The longest topic name and the most partitions that Kafka takes.
const TOPIC_NAME_LIMIT_BYTES: usize = 249;
const PARTITIONS_LIMIT: u64 = 200_000;
/// The most that a topic on `embedded:` has.
const EMBEDDED_PARTITIONS_LIMIT: u64 = 10_000;

/// Where a topic is read from when nobody read it before: the key `auto.offset.reset`.
///
/// ```
/// use slipstream::Conf;
/// use slipstream::conf::OffsetReset;
///
/// let settings = Conf::isolated().with("auto_offset_reset", "latest").settings()?;
/// assert_eq!(settings.offset_reset(), Some(OffsetReset::Latest));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffsetReset {
    /// From the oldest record: `earliest`, `smallest`, `beginning`.
    Earliest,
    /// Only records written from now on: `latest`, `largest`, `end`.
    Latest,
    /// Not at all: `error`, `none`.
    Error,
}

/// What a record has to survive before it counts as written to `embedded:` or `booblik://`: the key `durability`.
///
/// ```
/// use slipstream::Conf;
/// use slipstream::conf::Durability;
///
/// let settings = Conf::isolated().with("durability", "forced").settings()?;
/// assert_eq!(settings.durability(), Durability::Forced);
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The end of the process, however it comes: `written`.
    #[default]
    Written,
    /// The loss of power as well: `forced`. Each group of records waits for the disk.
    Forced,
}

/// How records look on `embedded:` and `booblik://`: the key `encoding`.
///
/// ```
/// use slipstream::Conf;
/// use slipstream::conf::Encoding;
///
/// let settings = Conf::isolated().with("encoding", "plain").settings()?;
/// assert_eq!(settings.encoding(), Some(Encoding::Plain));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// With key, headers and timestamp: `envelope`.
    Envelope,
    /// The value alone, as clients in other languages write and read it: `plain`. The key only chooses the partition.
    Plain,
}

/// The values of the framework's keys, read.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) app_id: String,
    pub(super) broker: Option<BrokerUrl>,
    pub(super) commit_interval: Duration,
    pub(super) drain_timeout: Duration,
    pub(super) durability: Durability,
    pub(super) embedded_partitions: u32,
    pub(super) embedded_retention_age: Option<Duration>,
    pub(super) embedded_retention_bytes: Option<u64>,
    pub(super) encoding: Option<Encoding>,
    pub(super) max_in_flight: usize,
    pub(super) max_in_flight_bytes: u64,
    pub(super) offset_reset: Option<OffsetReset>,
    pub(super) partitions: Option<u32>,
    pub(super) revoke_timeout: Duration,
    pub(super) state_dir: PathBuf,
    pub(super) table_generation_bytes: u64,
    pub(super) table_generation_time: Duration,
    pub(super) table_generation_units: u64,
    pub(super) table_hot_bytes: u64,
    pub(super) watchdog_timeout: Duration,
}

impl Typed {
    /// Reads the merged values, which hold every key that has a default.
    pub(super) fn read(values: &BTreeMap<&'static str, Entry>) -> Result<Self> {
        let text = |name: &str| values.get(name).map(|entry| entry.value.as_str());
        let must = |name: &str| text(name).unwrap_or_default();
        Ok(Self {
            app_id: must("app.id").to_owned(),
            broker: text("broker").map(str::parse).transpose()?,
            commit_interval: period(must("commit.interval"))?,
            drain_timeout: wait(must("drain.timeout"))?,
            durability: durability(must("durability"))?,
            embedded_partitions: count(must("embedded.partitions"), EMBEDDED_PARTITIONS_LIMIT)?,
            embedded_retention_age: text("embedded.retention.age").map(period).transpose()?,
            embedded_retention_bytes: text("embedded.retention.bytes").map(size).transpose()?,
            encoding: text("encoding").map(encoding).transpose()?,
            max_in_flight: count(must("max.in.flight"), IN_FLIGHT_LIMIT)?,
            max_in_flight_bytes: size(must("max.in.flight.bytes"))?,
            offset_reset: text("auto.offset.reset").map(offset_reset).transpose()?,
            partitions: text("partitions").map(|text| count(text, PARTITIONS_LIMIT)).transpose()?,
            revoke_timeout: wait(must("revoke.timeout"))?,
            state_dir: PathBuf::from(must("state.dir")),
            table_generation_bytes: size(must("table.generation.bytes"))?,
            table_generation_time: period(must("table.generation.time"))?,
            table_generation_units: count(must("table.generation.units"), GENERATION_UNITS_LIMIT)?,
            table_hot_bytes: size(must("table.hot.bytes"))?,
            watchdog_timeout: period(must("watchdog.timeout"))?,
        })
    }
}

/// Checks the value of one of the framework's keys.
pub(super) fn check(name: &str, value: &str) -> Result<()> {
    match name {
        "app.id" => check_name("the app id", value),
        "auto.offset.reset" => offset_reset(value).map(drop),
        "broker" => value.parse::<BrokerUrl>().map(drop),
        "commit.interval" | "embedded.retention.age" | "table.generation.time" | "watchdog.timeout" => {
            period(value).map(drop)
        }
        "drain.timeout" | "revoke.timeout" => wait(value).map(drop),
        "durability" => durability(value).map(drop),
        "embedded.partitions" => count::<u32>(value, EMBEDDED_PARTITIONS_LIMIT).map(drop),
        "encoding" => encoding(value).map(drop),
        "max.in.flight" => count::<usize>(value, IN_FLIGHT_LIMIT).map(drop),
        "embedded.retention.bytes" | "max.in.flight.bytes" | "table.generation.bytes" | "table.hot.bytes" => {
            size(value).map(drop)
        }
        "table.generation.units" => count::<u64>(value, GENERATION_UNITS_LIMIT).map(drop),
        "name" => topic_name(value),
        "partitions" => count::<u32>(value, PARTITIONS_LIMIT).map(drop),
        "state.dir" if value.trim().is_empty() => Err(wrong("a directory")),
        _ => Ok(()),
    }
}

fn wrong(expected: &str) -> Error {
    Error::new(Kind::Config, format!("must be {expected}"))
}

fn wait(text: &str) -> Result<Duration> {
    units::duration(text).ok_or_else(|| wrong("a duration such as `5s`, `250ms` or a number of milliseconds"))
}

fn period(text: &str) -> Result<Duration> {
    let duration = wait(text)?;
    if duration.is_zero() { Err(wrong("longer than 0 ms")) } else { Ok(duration) }
}

fn size(text: &str) -> Result<u64> {
    let size = units::bytes(text).filter(|size| *size > 0);
    size.ok_or_else(|| wrong("a size such as `64MiB` or a number of bytes, at least 1"))
}

fn count<N: TryFrom<u64>>(text: &str, limit: u64) -> Result<N> {
    let count = text.trim().parse::<u64>().ok().filter(|count| (1..=limit).contains(count));
    let count = count.and_then(|count| N::try_from(count).ok());
    count.ok_or_else(|| wrong(&format!("a whole number between 1 and {limit}")))
}

fn offset_reset(text: &str) -> Result<OffsetReset> {
    match text.trim().to_ascii_lowercase().as_str() {
        "earliest" | "smallest" | "beginning" => Ok(OffsetReset::Earliest),
        "latest" | "largest" | "end" => Ok(OffsetReset::Latest),
        "error" | "none" => Ok(OffsetReset::Error),
        _ => Err(wrong("`earliest`, `latest` or `error`")),
    }
}

fn durability(text: &str) -> Result<Durability> {
    match text.trim().to_ascii_lowercase().as_str() {
        "written" => Ok(Durability::Written),
        "forced" => Ok(Durability::Forced),
        _ => Err(wrong("`written` or `forced`")),
    }
}

fn encoding(text: &str) -> Result<Encoding> {
    match text.trim().to_ascii_lowercase().as_str() {
        "envelope" => Ok(Encoding::Envelope),
        "plain" => Ok(Encoding::Plain),
        _ => Err(wrong("`envelope` or `plain`")),
    }
}

fn topic_name(text: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let dots = text == "." || text == "..";
    if !text.is_empty() && text.len() <= TOPIC_NAME_LIMIT_BYTES && text.chars().all(allowed) && !dots {
        return Ok(());
    }
    Err(wrong("a topic's name: up to 249 ASCII letters, digits, `.`, `_` and `-`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_valid_value_of_its_key() {
        for (name, value) in DEFAULTS {
            assert!(check(name, value).is_ok(), "{name}");
            assert!(FRAMEWORK.iter().any(|info| info.name == *name), "{name}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let bad = [
            ("app.id", "_broker"),
            ("auto.offset.reset", "sometimes"),
            ("commit.interval", "0"),
            ("drain.timeout", "soon"),
            ("durability", "maybe"),
            ("embedded.partitions", "10001"),
            ("encoding", "json"),
            ("max.in.flight", "0"),
            ("max.in.flight", "1048577"),
            ("max.in.flight.bytes", "0"),
            ("name", "a/b"),
            ("name", ".."),
            ("partitions", "0"),
            ("state.dir", " "),
            ("table.generation.units", "0"),
            ("watchdog.timeout", "-1"),
        ];
        for (name, value) in bad {
            assert_eq!(check(name, value).unwrap_err().kind(), Kind::Config, "{name}={value}");
        }
    }
}
