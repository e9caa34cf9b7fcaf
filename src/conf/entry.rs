//! One value of one key with where it came from, checked.

use std::collections::BTreeMap;
use std::fmt;

use super::broker::BrokerUrl;
use super::key::{self, KeyInfo, Scope};
use super::owned::{Features, check_owned};
use super::{framework, secret};
use crate::{Error, Kind, Result};

/// Where a value came from, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Library,
    Fallback,
    File,
    Environment,
    Set,
    Topic,
    TopicInFile,
}

/// A value that passed every check that looks at one key alone.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: String,
    pub(super) rank: Rank,
}

impl fmt::Debug for Entry {
    /// The key, which says whether the value is a secret, is not known here.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", secret::HIDDEN, self.rank)
    }
}

/// The values of one source, or of several merged, by the key's one true name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Layer(pub(super) BTreeMap<&'static str, Entry>);

/// The address of a Kafka cluster is kept as `broker`, so that a later source's address of any kind wins over it.
const SERVERS: &str = "metadata.broker.list";

/// Checks `written = value` and gives the key that it sets with the value in its usual form.
///
/// # Errors
///
/// `Kind::Config` or `Kind::Unsupported`, naming the key as it was written, never the value of a secret.
pub(super) fn check(written: &str, value: &str, rank: Rank, features: Features) -> Result<(&'static str, Entry)> {
    let info = key::find(written)?;
    check_scope(written, info, rank)?;
    let (name, value) = normal(info, value);
    let checked = if info.is_kafka() && name != "broker" {
        check_owned(name, &value).and_then(|()| features.check(name, &value)).and_then(|()| check_text(&value))
    } else {
        framework::check(name, &value)
    };
    match checked {
        Ok(()) => Ok((name, Entry { value, rank })),
        Err(error) => Err(Error::new(error.kind(), format!("`{written}`: {error}"))),
    }
}

/// The key that `written` sets, if there is one.
pub(super) fn canonical(written: &str) -> Option<&'static str> {
    let name = key::find(written).ok()?.name;
    Some(if name == SERVERS { "broker" } else { name })
}

fn check_scope(written: &str, info: &KeyInfo, rank: Rank) -> Result<()> {
    let of_a_topic = matches!(rank, Rank::Topic | Rank::TopicInFile);
    let why = match info.scope {
        Scope::Internal => "a callback or a pointer of librdkafka, which no text can set",
        Scope::App if of_a_topic => "belongs to the whole app, not to one topic",
        Scope::OneTopic if !of_a_topic => "belongs to one topic: set it under `[topic.<declared name>]`",
        _ => return Ok(()),
    };
    Err(Error::new(Kind::Config, format!("`{written}`: {why}")))
}

fn normal(info: &'static KeyInfo, value: &str) -> (&'static str, String) {
    match info.name {
        SERVERS => ("broker", address(&format!("kafka://{}", value.trim()))),
        // librdkafka knows these without regard to case, but its table and our checks have them small.
        "security.protocol" | "compression.codec" | "isolation.level" => (info.name, value.trim().to_ascii_lowercase()),
        "broker" => ("broker", address(value)),
        name => (name, value.to_owned()),
    }
}

/// The printed form, so that two spellings of one address are one value. What is no address is refused later.
fn address(text: &str) -> String {
    text.parse().map_or_else(|_| text.trim().to_owned(), |url: BrokerUrl| url.to_string())
}

fn check_text(value: &str) -> Result<()> {
    let message = "cannot be passed to librdkafka: it holds a NUL";
    if value.contains('\0') { Err(Error::new(Kind::Config, message)) } else { Ok(()) }
}

impl Layer {
    /// Puts `above` over the values here.
    pub(super) fn merge(&mut self, above: &Self) {
        self.0.extend(above.0.iter().map(|(name, entry)| (*name, entry.clone())));
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, entry)| (name, secret::shown(name, &entry.value)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Features = Features { ssl: true, zstd: true };

    #[test]
    fn bootstrap_servers_are_a_kafka_broker() {
        let (name, entry) = check("bootstrap_servers", "a:1, b:2", Rank::Set, ALL).unwrap();
        assert_eq!((name, entry.value.as_str()), ("broker", "kafka://a:1,b:2"));
        let error = check("bootstrap.servers", "me:hunter2@a:1", Rank::Set, ALL).unwrap_err();
        assert!(error.to_string().starts_with("`bootstrap.servers`: "), "{error}");
    }

    #[test]
    fn an_error_names_the_key_as_it_was_written() {
        let text = |key, value| check(key, value, Rank::Set, ALL).unwrap_err().to_string();
        assert!(text("enable_auto_commit", "true").starts_with("`enable_auto_commit`: must be `false`, because "));
        assert_eq!(text("max.in.flight", "x"), "`max.in.flight`: must be a whole number between 1 and 1048576");
        assert!(text("rebalance_cb", "x").contains("callback"));
    }

    #[test]
    fn keys_of_the_app_and_of_one_topic_stay_where_they_belong() {
        assert!(check("app.id", "x", Rank::TopicInFile, ALL).unwrap_err().to_string().contains("whole app"));
        assert!(check("name", "x", Rank::File, ALL).unwrap_err().to_string().contains("[topic."));
        assert!(check("name", "x", Rank::TopicInFile, ALL).is_ok());
    }
}
