//! The properties that each Kafka client is made with.

use std::fmt;

use super::broker::BrokerUrl;
use super::entry::{Layer, Rank};
use super::key::{self, Scope};
use super::owned;
use super::secret::{self, HIDDEN};
use super::settings::Settings;
use crate::{Error, Kind, Result};

/// The properties of a Kafka client by librdkafka's names, ready to be set. `Debug` hides secrets.
///
/// ```
/// use slipstream::Conf;
///
/// let settings = Conf::isolated().with("bootstrap.servers", "a:9092").with("app.id", "orders").settings()?;
/// let consumer = settings.kafka_consumer();
/// assert_eq!(consumer.get("metadata.broker.list"), Some("a:9092"));
/// assert_eq!(consumer.get("group.id"), Some("orders"));
/// assert_eq!(consumer.get("enable.auto.commit"), Some("false"));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig(Vec<(String, String)>);

impl KafkaConfig {
    pub(super) fn consumer(settings: &Settings) -> Self {
        let mut config = Self::routed(settings, Scope::Consumer);
        config.put("auto.offset.reset", "error");
        config.put("group.id", settings.group_id());
        if config.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer")) {
            // The broker assigns there, always cooperatively, and the client refuses a strategy of its own.
            config.0.retain(|(name, _)| name != "partition.assignment.strategy");
        }
        config
    }

    pub(super) fn producer(settings: &Settings) -> Self {
        Self::routed(settings, Scope::Producer)
    }

    /// What librdkafka's table gives to this kind of client, with the owned properties.
    fn routed(settings: &Settings, client: Scope) -> Self {
        let serves = |name: &str| key::find(name).is_ok_and(|info| info.scope == client || info.scope == Scope::Both);
        let set = settings.entries().filter(|(name, _)| serves(name));
        let mut config = Self(set.map(|(name, entry)| (native(name).to_owned(), entry.value.clone())).collect());
        owned::owned().filter(|(name, _)| serves(name)).for_each(|(name, value)| config.put(name, value));
        if config.get("client.id").is_none() {
            config.put("client.id", settings.app_id());
        }
        if let Some(BrokerUrl::Kafka { servers }) = settings.broker() {
            config.put("metadata.broker.list", &servers.join(","));
        }
        config.0.sort();
        config
    }

    fn put(&mut self, name: &str, value: &str) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// The value of a property by librdkafka's name for it, secrets included.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The properties and their values, secrets included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// `text` without the values of secret properties: librdkafka repeats a value that it refuses.
    pub fn without_secrets(&self, text: &str) -> String {
        let secrets = self.0.iter().filter(|(name, value)| secret::shown(name, value) == HIDDEN && !value.is_empty());
        secrets.fold(text.to_owned(), |text, (_, value)| text.replace(value.as_str(), HIDDEN))
    }
}

/// librdkafka's own spelling: of the properties that text can set, one has a `_`.
pub(super) fn native(name: &str) -> &str {
    if name == "log.level" { "log_level" } else { name }
}

impl IntoIterator for KafkaConfig {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, value)| (name, secret::shown(name, value)))).finish()
    }
}

/// Refuses what would put a password or the data in reach of whoever can reach the network.
pub(super) fn check_transport(values: &Layer, unverified_tls: bool) -> Result<()> {
    let value = |name: &str| values.0.get(name).filter(|entry| entry.rank > Rank::Library).map(|entry| &*entry.value);
    let is = |name: &str, expected: &[&str]| {
        value(name).is_some_and(|value| expected.iter().any(|other| value.trim().eq_ignore_ascii_case(other)))
    };
    let broker: Option<BrokerUrl> = value("broker").and_then(|text| text.parse().ok());
    if is("security.protocol", &["sasl_plaintext"]) && broker.is_some_and(|broker| !broker.is_local()) {
        let message = "`security.protocol`: `sasl_plaintext` would send the password readable over the network; \
                       it is for servers on this machine only, use `sasl_ssl`";
        return Err(Error::new(Kind::Config, message));
    }
    let unverified = [
        ("enable.ssl.certificate.verification", is("enable.ssl.certificate.verification", &["false", "f", "0"])),
        ("ssl.endpoint.identification.algorithm", is("ssl.endpoint.identification.algorithm", &["none"])),
    ];
    match unverified.into_iter().find(|(_, off)| *off && !unverified_tls) {
        Some((name, _)) => {
            let message =
                format!("`{name}`: would accept any server; only `Conf::danger_accept_unverified_tls` allows it");
            Err(Error::new(Kind::Config, message))
        }
        None => Ok(()),
    }
}
