//! Kafka properties that the framework decides about: owned ones, its defaults, and what needs a cargo feature.

use crate::{Error, Kind, Result};

/// A property with one value that is right, and why.
struct Owned {
    name: &'static str,
    /// What it is set to; `None`: it is never set.
    value: Option<&'static str>,
    /// Other spellings of that value.
    also: &'static [&'static str],
    why: &'static str,
}

const YES: &[&str] = &["1", "t"];
const NO: &[&str] = &["0", "f"];

static OWNED: &[Owned] = &[
    Owned { name: "check.crcs", value: Some("true"), also: YES, why: "a damaged record must never reach a handler" },
    Owned {
        name: "delivery.report.only.error",
        value: Some("false"),
        also: NO,
        why: "a message is done when the broker has its outputs, and that report says so",
    },
    Owned {
        name: "enable.auto.commit",
        value: Some("false"),
        also: NO,
        why: "the framework commits what is done, and nothing before",
    },
    Owned {
        name: "enable.auto.offset.store",
        value: Some("false"),
        also: NO,
        why: "an offset counts when its message is done, not when it is read",
    },
    Owned {
        name: "enable.idempotence",
        value: Some("true"),
        also: YES,
        why: "a retry must neither double nor reorder records",
    },
    Owned {
        name: "isolation.level",
        value: Some("read_committed"),
        also: &[],
        why: "records of an aborted transaction never happened",
    },
    Owned {
        name: "message.timeout.ms",
        value: Some("0"),
        also: &[],
        why: "an outage of the broker holds messages back and fails none; `drain.timeout` bounds the shutdown",
    },
    Owned {
        name: "partition.assignment.strategy",
        value: Some("cooperative-sticky"),
        also: &[],
        why: "partitions that stay here must go on during a rebalance",
    },
    Owned {
        name: "request.required.acks",
        value: Some("all"),
        also: &["-1"],
        why: "an input is committed once its outputs are safe on all replicas in sync",
    },
    Owned {
        name: "transactional.id",
        value: None,
        also: &[],
        why: "the framework's producers are idempotent and write outside transactions",
    },
];

/// Defaults that differ from librdkafka's and that anyone may change.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    // librdkafka's 1000 stops a partition for a second each time its prefetch queue is full.
    ("fetch.queue.backoff.ms", "10"),
    // Every Java producer puts a key there; librdkafka's own default differs.
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.ms", "5"),
    ("queued.max.messages.kbytes", "65536"),
];

/// Refuses another value of an owned property than the right one.
pub(super) fn check_owned(name: &str, value: &str) -> Result<()> {
    let Some(owned) = OWNED.iter().find(|owned| owned.name == name) else { return Ok(()) };
    let given = value.trim();
    let equal = |right: &str| given.eq_ignore_ascii_case(right);
    match owned.value {
        Some(right) if equal(right) || owned.also.iter().any(|other| equal(other)) => Ok(()),
        Some(right) => Err(refuse(&format!("must be `{right}`, because {}", owned.why))),
        None => Err(refuse(&format!("cannot be set, because {}", owned.why))),
    }
}

fn refuse(message: &str) -> Error {
    Error::new(Kind::Config, message)
}

/// The owned properties and their values.
pub(super) fn owned() -> impl Iterator<Item = (&'static str, &'static str)> {
    OWNED.iter().filter_map(|owned| owned.value.map(|value| (owned.name, value)))
}

/// What librdkafka was built with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    pub(super) ssl: bool,
    pub(super) zstd: bool,
}

impl Features {
    pub(super) const BUILT: Self = Self { ssl: cfg!(feature = "ssl"), zstd: cfg!(feature = "zstd") };

    /// Refuses a property or value that this build cannot serve, and names the cargo feature.
    pub(super) fn check(self, name: &str, value: &str) -> Result<()> {
        let value = value.trim();
        let needs_ssl = match name {
            "security.protocol" => !value.eq_ignore_ascii_case("plaintext"),
            _ => ["ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https."].iter().any(|start| name.starts_with(start)),
        };
        if needs_ssl && !self.ssl {
            return Err(missing("TLS and SASL", "ssl"));
        }
        if name == "compression.codec" && value.eq_ignore_ascii_case("zstd") && !self.zstd {
            return Err(missing("zstd compression", "zstd"));
        }
        Ok(())
    }
}

fn missing(what: &str, feature: &str) -> Error {
    Error::new(Kind::Unsupported, format!("needs the cargo feature `{feature}` of `slipstream-async` ({what})"))
}

#[cfg(test)]
mod tests {
    use super::super::key::find;
    use super::*;

    #[test]
    fn owned_properties_and_defaults_are_real_properties() {
        let names = OWNED.iter().map(|owned| owned.name).chain(DEFAULTS.iter().map(|(name, _)| *name));
        for name in names {
            assert_eq!(find(name).unwrap().name, name);
        }
    }

    #[test]
    fn an_owned_property_takes_its_own_value_in_any_spelling_and_no_other() {
        assert!(check_owned("request.required.acks", "ALL").is_ok());
        assert!(check_owned("request.required.acks", "-1").is_ok());
        assert!(check_owned("enable.auto.commit", "False").is_ok());
        let error = check_owned("request.required.acks", "1").unwrap_err().to_string();
        assert_eq!(
            error,
            "must be `all`, because an input is committed once its outputs are safe on all replicas in sync"
        );
        assert!(check_owned("transactional.id", "x").is_err());
    }

    #[test]
    fn what_was_not_built_in_is_refused_by_the_name_of_its_feature() {
        let none = Features { ssl: false, zstd: false };
        let both = Features { ssl: true, zstd: true };
        let tls = [
            ("ssl.ca.location", "x"),
            ("sasl.username", "x"),
            ("security.protocol", "SASL_SSL"),
            ("https.ca.pem", "x"),
        ];
        for (name, value) in tls {
            let error = none.check(name, value).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(error.to_string().contains("`ssl`"), "{error}");
            assert!(both.check(name, value).is_ok());
        }
        assert!(none.check("compression.codec", "zstd").unwrap_err().to_string().contains("`zstd`"));
        assert!(both.check("compression.codec", "zstd").is_ok());
        assert!(none.check("compression.codec", "lz4").is_ok());
        assert!(none.check("security.protocol", "PLAINTEXT").is_ok());
    }
}
