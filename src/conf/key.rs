//! Keys: how they are spelled, which there are, and where each may be set.

use super::aiokafka;
use super::framework::FRAMEWORK;
use super::kafka_keys::KAFKA;
use crate::util::nearest;
use crate::{Error, Kind, Result};

/// What a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The framework, once per app.
    App,
    /// The framework, for all topics or one.
    Topic,
    /// The framework, for one topic only.
    OneTopic,
    /// A Kafka consumer.
    Consumer,
    /// A Kafka producer.
    Producer,
    /// Both Kafka clients.
    Both,
    /// A pointer or a callback of librdkafka: no text can set it.
    Internal,
}

/// One row of a key table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyInfo {
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    pub(super) secret: bool,
    alias_of: Option<&'static str>,
}

pub(super) const fn key(name: &'static str, scope: Scope, secret: bool) -> KeyInfo {
    KeyInfo { name, scope, secret, alias_of: None }
}

pub(super) const fn alias(name: &'static str, of: &'static str, scope: Scope, secret: bool) -> KeyInfo {
    KeyInfo { name, scope, secret, alias_of: Some(of) }
}

impl KeyInfo {
    pub(super) fn is_kafka(&self) -> bool {
        matches!(self.scope, Scope::Consumer | Scope::Producer | Scope::Both)
    }
}

/// The dotted spelling: `_` and `.` are the same.
pub(super) fn dotted(written: &str) -> String {
    written.trim().replace('_', ".")
}

/// Finds a key under any of its names, and follows aliases.
///
/// # Errors
///
/// `Kind::Config` for a key that does not exist, with the nearest one that does; the value plays no part in it.
pub(super) fn find(written: &str) -> Result<&'static KeyInfo> {
    let name = dotted(written);
    if let Some(info) = lookup(&name) {
        return Ok(info);
    }
    match aiokafka::translate(&name) {
        Some(Ok(known)) => lookup(known).ok_or_else(|| unknown(written, &name)),
        Some(Err(advice)) => {
            Err(Error::new(Kind::Config, format!("`{written}` has no equivalent in librdkafka: {advice}")))
        }
        None => Err(unknown(written, &name)),
    }
}

/// The framework's names win: its `max.in.flight` counts messages, librdkafka's alias of that name is not offered.
fn lookup(name: &str) -> Option<&'static KeyInfo> {
    let row = |name: &str| {
        let own = FRAMEWORK.iter().find(|info| info.name == name);
        own.or_else(|| KAFKA.binary_search_by(|info| info.name.cmp(name)).ok().and_then(|at| KAFKA.get(at)))
    };
    let info = row(name)?;
    match info.alias_of {
        Some(target) => row(target),
        None => Some(info),
    }
}

fn unknown(written: &str, name: &str) -> Error {
    let known = FRAMEWORK.iter().chain(KAFKA).filter(|info| info.scope != Scope::Internal).map(|info| info.name);
    let hint = nearest(&name.to_ascii_lowercase(), known);
    let hint = hint.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    Error::new(Kind::Config, format!("unknown key `{}`{hint}", written.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_aliases_lead_somewhere() {
        assert!(KAFKA.windows(2).all(|pair| pair[0].name < pair[1].name));
        for info in FRAMEWORK.iter().chain(KAFKA) {
            assert!(!info.name.contains('_'), "{} cannot be found: `_` is read as `.`", info.name);
            assert!(lookup(info.name).is_some_and(|target| target.alias_of.is_none()), "{}", info.name);
        }
    }

    #[test]
    fn underscores_and_dots_are_the_same() {
        assert_eq!(find("bootstrap_servers").unwrap(), find("bootstrap.servers").unwrap());
        assert_eq!(find("linger_ms").unwrap().name, "queue.buffering.max.ms");
        assert_eq!(find("max.in.flight").unwrap().scope, Scope::App);
    }

    #[test]
    fn an_unknown_key_comes_with_a_suggestion() {
        let text = |key: &str| find(key).unwrap_err().to_string();
        assert_eq!(text("sasl.passwd"), "unknown key `sasl.passwd`; did you mean `sasl.password`?");
        assert_eq!(text("GROUP_ID"), "unknown key `GROUP_ID`; did you mean `group.id`?");
        assert_eq!(text("colour"), "unknown key `colour`");
    }

    #[test]
    fn a_key_named_like_a_method_is_only_an_unknown_key() {
        for name in ["start", "set", "fallback", "topic", "register_handler", "with"] {
            assert_eq!(find(name).unwrap_err().kind(), Kind::Config, "{name}");
        }
    }
}
