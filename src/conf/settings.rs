//! The merged values of an app and of each of its topics.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::broker::BrokerUrl;
use super::entry::{self, Entry, Layer, Rank};
use super::framework::{self, Durability, Encoding, OffsetReset, Typed};
use super::kafka::{self, KafkaConfig};
use super::load::program_name;
use super::owned::{self, Features};
use super::secret;
use crate::{Error, Result};

/// What a [`Conf`](crate::Conf) comes to: every value checked, merged, and fixed from here on.
///
/// Cheap to clone. `Debug` lists the values that were set, without secrets.
///
/// ```
/// use slipstream::Conf;
///
/// let settings = Conf::isolated().with("group.id", "test").settings()?;
/// assert_eq!(settings.get("group_id"), Some("test"));
/// assert_eq!(format!("{settings:?}"), r#"{"group.id": "test"}"#);
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Clone)]
pub struct Settings(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    values: Layer,
    topics: Arc<BTreeMap<String, Layer>>,
    typed: Typed,
    unverified_tls: bool,
    features: Features,
}

impl Settings {
    /// Merges the sources, lowest first, over the library's defaults.
    pub(super) fn new(
        layers: [&Layer; 4],
        topics: BTreeMap<String, Layer>,
        unverified_tls: bool,
        features: Features,
    ) -> Result<Self> {
        let mut values = defaults();
        for layer in layers {
            values.merge(layer);
        }
        kafka::check_transport(&values, unverified_tls)?;
        let typed = Typed::read(&values.0)?;
        Ok(Self(Arc::new(Inner { values, topics: Arc::new(topics), typed, unverified_tls, features })))
    }

    /// The settings of one topic: these, then `own`, then what the file says under `[topic.<declared>]`.
    ///
    /// # Errors
    ///
    /// As for [`Conf::settings`](crate::Conf::settings); also for a key of the whole app in `own`.
    ///
    /// ```
    /// use slipstream::Conf;
    ///
    /// let settings = Conf::isolated().with("bootstrap.servers", "a:9092").with("linger.ms", 20).settings()?;
    /// let topic = settings.topic("words", [("linger.ms", "0")])?;
    /// assert_eq!(topic.name(), "words");
    /// assert_eq!(topic.get("linger.ms"), Some("0"));
    /// assert_eq!(topic.get("bootstrap.servers"), Some("a:9092"));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn topic<K, V>(&self, declared: &str, own: impl IntoIterator<Item = (K, V)>) -> Result<TopicSettings>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let place = |error: Error| error.at(format!("topic {declared}"));
        let mut inner = Inner::clone(&self.0);
        for (key, value) in own {
            let (name, entry) =
                entry::check(key.as_ref(), value.as_ref(), Rank::Topic, inner.features).map_err(place)?;
            inner.values.0.insert(name, entry);
        }
        if let Some(section) = inner.topics.get(declared) {
            inner.values.merge(section);
        }
        if !inner.values.0.contains_key("name") {
            framework::check("name", declared).map_err(place)?;
        }
        kafka::check_transport(&inner.values, inner.unverified_tls).map_err(place)?;
        inner.typed = Typed::read(&inner.values.0).map_err(place)?;
        Ok(TopicSettings { declared: declared.to_owned(), settings: Self(Arc::new(inner)) })
    }

    /// The value of a key under any of its names, secrets included; `None` if it has neither value nor default.
    pub fn get(&self, key: &str) -> Option<&str> {
        let name = entry::canonical(key)?;
        let value = self.0.values.0.get(name)?.value.as_str();
        // Asked for by librdkafka's names, it is the list of servers.
        if name == "broker" && super::key::dotted(key) != "broker" {
            value.strip_prefix("kafka://")
        } else {
            Some(value)
        }
    }

    /// The values that were set somewhere, by key and without secrets; defaults are left out.
    pub fn configured(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let set = self.0.values.0.iter().filter(|(_, entry)| entry.rank > Rank::Library);
        set.map(|(name, entry)| (*name, secret::shown(name, &entry.value)))
    }

    /// The topics that the file has a `[topic.…]` section for, by declared name.
    pub fn topics_in_file(&self) -> impl Iterator<Item = &str> {
        self.0.topics.keys().map(String::as_str)
    }

    /// Names the app: its directory, its default group and client id. Default: the program's file name.
    pub fn app_id(&self) -> &str {
        &self.0.typed.app_id
    }

    /// Where caches and tables live. Default: `state` in the working directory.
    pub fn state_dir(&self) -> &Path {
        &self.0.typed.state_dir
    }

    /// Where topics live; `None` if nothing says so.
    pub fn broker(&self) -> Option<&BrokerUrl> {
        self.0.typed.broker.as_ref()
    }

    /// What a record has to survive before it counts as written. Default: the end of the process.
    pub fn durability(&self) -> Durability {
        self.0.typed.durability
    }

    /// How records look on `embedded:` and `booblik://`, if that is set: else envelopes on the former, plain on the latter.
    pub fn encoding(&self) -> Option<Encoding> {
        self.0.typed.encoding
    }

    /// How many partitions a topic on `embedded:` gets that says nothing itself. Default: 4.
    pub fn embedded_partitions(&self) -> u32 {
        self.0.typed.embedded_partitions
    }

    /// How long a partition on `embedded:` keeps records, if that is set; else for ever.
    pub fn embedded_retention_age(&self) -> Option<Duration> {
        self.0.typed.embedded_retention_age
    }

    /// How many bytes a partition on `embedded:` keeps, if that is set; else all.
    pub fn embedded_retention_bytes(&self) -> Option<u64> {
        self.0.typed.embedded_retention_bytes
    }

    /// Where a topic without a position is read from, if that is set.
    pub fn offset_reset(&self) -> Option<OffsetReset> {
        self.0.typed.offset_reset
    }

    /// The most messages being worked on. Default: 8192.
    pub fn max_in_flight(&self) -> usize {
        self.0.typed.max_in_flight
    }

    /// The most bytes of messages being worked on. Default: 64 MiB.
    pub fn max_in_flight_bytes(&self) -> u64 {
        self.0.typed.max_in_flight_bytes
    }

    /// How often positions are committed. Default: 1 s.
    pub fn commit_interval(&self) -> Duration {
        self.0.typed.commit_interval
    }

    /// How long a shutdown waits for what is in flight. Default: 30 s.
    pub fn drain_timeout(&self) -> Duration {
        self.0.typed.drain_timeout
    }

    /// How long a partition that is taken away waits for what is in flight. Default: 10 s.
    pub fn revoke_timeout(&self) -> Duration {
        self.0.typed.revoke_timeout
    }

    /// How many messages a table's rows may be ahead of its store before they are stored, per partition. Default: 65,536.
    pub fn table_generation_units(&self) -> u64 {
        self.0.typed.table_generation_units
    }

    /// How many bytes of changed rows, per partition. Default: 16 MiB.
    pub fn table_generation_bytes(&self) -> u64 {
        self.0.typed.table_generation_bytes
    }

    /// How long. Default: 200 ms.
    pub fn table_generation_time(&self) -> Duration {
        self.0.typed.table_generation_time
    }

    /// How many bytes a table's decoded rows may take in memory, over all partitions. Default: 64 MiB.
    pub fn table_hot_bytes(&self) -> u64 {
        self.0.typed.table_hot_bytes
    }

    /// How long a message may make no progress before that is reported. Default: 60 s.
    pub fn watchdog_timeout(&self) -> Duration {
        self.0.typed.watchdog_timeout
    }

    /// The consumer group: `group.id`, or the app id.
    pub fn group_id(&self) -> &str {
        self.get("group.id").unwrap_or_else(|| self.app_id())
    }

    /// The properties of a Kafka consumer.
    pub fn kafka_consumer(&self) -> KafkaConfig {
        KafkaConfig::consumer(self)
    }

    /// The properties of a Kafka producer.
    pub fn kafka_producer(&self) -> KafkaConfig {
        KafkaConfig::producer(self)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'static str, &Entry)> {
        self.0.values.0.iter().map(|(name, entry)| (*name, entry))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.configured()).finish()
    }
}

fn defaults() -> Layer {
    let entry = |value: &str| Entry { value: value.to_owned(), rank: Rank::Library };
    let fixed = framework::DEFAULTS.iter().chain(owned::DEFAULTS).map(|(name, value)| (*name, entry(value)));
    Layer(fixed.chain([("app.id", entry(&program_name()))]).collect())
}

/// The settings of one topic. `Debug` shows no secrets.
///
/// ```
/// use slipstream::Conf;
///
/// let settings = Conf::isolated().settings()?;
/// let words = settings.topic("words", [("broker", "memory:")])?;
/// assert!(settings.broker().is_none() && words.broker().is_some());
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TopicSettings {
    declared: String,
    settings: Settings,
}

impl TopicSettings {
    /// What is set for the topic, without secrets.
    pub(crate) fn configured_lines(&self) -> String {
        format!("{:?}", self.settings)
    }

    /// The name that the program declares it under, which is also its section in the file.
    pub fn declared_name(&self) -> &str {
        &self.declared
    }

    /// The name that the broker knows it under.
    pub fn name(&self) -> &str {
        self.settings.get("name").unwrap_or(&self.declared)
    }

    /// How many partitions to create it with, if that is set.
    pub fn partitions(&self) -> Option<u32> {
        self.settings.0.typed.partitions
    }
}

/// All the getters of [`Settings`], with this topic's values.
impl std::ops::Deref for TopicSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}
