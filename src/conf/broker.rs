//! Where topics live: the `broker` setting.

use std::fmt;
use std::net::IpAddr;

use super::name::check_name;
use crate::{Error, Kind, Result};

/// Where topics live, as the key `broker` says.
///
/// | written | means |
/// |---|---|
/// | `kafka://host:port,host:port` | Kafka, through any of these servers; port 9092 where none is given |
/// | `memory:` | in this process, for one app |
/// | `memory:<name>` | in this process, for all apps that name it |
///
/// ```
/// use slipstream::Kind;
/// use slipstream::conf::BrokerUrl;
///
/// let broker: BrokerUrl = "kafka://a:9092,b:9092".parse()?;
/// assert_eq!(broker, BrokerUrl::Kafka { servers: vec!["a:9092".into(), "b:9092".into()] });
/// assert_eq!("memory:".parse::<BrokerUrl>()?, BrokerUrl::Memory { name: None });
/// assert_eq!("nats://host".parse::<BrokerUrl>().unwrap_err().kind(), Kind::Unsupported);
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerUrl {
    /// A Kafka cluster.
    Kafka {
        /// Servers to ask first, each `host` or `host:port`; never empty.
        servers: Vec<String>,
    },
    /// In the memory of this process.
    Memory {
        /// The name that apps share it by; `None` belongs to one app.
        name: Option<String>,
    },
}

impl BrokerUrl {
    /// Whether nothing leaves this machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Kafka { servers } => servers.iter().all(|server| is_loopback(server)),
            Self::Memory { .. } => true,
        }
    }
}

impl std::str::FromStr for BrokerUrl {
    type Err = Error;

    /// Reads the setting.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for what is no broker's address, `Kind::Unsupported` for one that this version cannot speak to.
    /// Neither repeats what stands before an `@`.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let scheme = text.split_once(':').map_or(text, |(scheme, _)| scheme);
        match scheme {
            "kafka" => kafka(text.strip_prefix("kafka://")),
            "memory" => memory(text.strip_prefix("memory:").unwrap_or_default()),
            "booblik" | "embedded" | "nats" => {
                let message = format!("`{scheme}:` is not built into this version; `kafka://` and `memory:` are");
                Err(Error::new(Kind::Unsupported, message))
            }
            _ => Err(Error::new(Kind::Config, "`broker` must be `kafka://host:port,…`, `memory:` or `memory:<name>`")),
        }
    }
}

fn kafka(list: Option<&str>) -> Result<BrokerUrl> {
    let list = list.ok_or_else(|| Error::new(Kind::Config, "a Kafka broker is written `kafka://host:port,…`"))?;
    let list = list.strip_suffix('/').unwrap_or(list);
    let servers: Vec<String> = list.split(',').map(|server| server.trim().to_owned()).collect();
    servers.iter().try_for_each(|server| check_server(server))?;
    Ok(BrokerUrl::Kafka { servers })
}

fn memory(name: &str) -> Result<BrokerUrl> {
    let name = name.strip_prefix("//").unwrap_or(name);
    if name.is_empty() {
        return Ok(BrokerUrl::Memory { name: None });
    }
    // The name is not repeated: in a mistyped address it may hold a password.
    let message = "`memory:<name>` takes up to 64 ASCII letters, digits, `.`, `_` and `-`";
    check_name("the broker in memory", name).map_err(|_| Error::new(Kind::Config, message))?;
    Ok(BrokerUrl::Memory { name: Some(name.to_owned()) })
}

fn check_server(server: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(Kind::Config, format!("a list of Kafka servers {why}")));
    if server.contains('@') {
        return refuse("cannot hold a user or a password; use `sasl.username` and `sasl.password`");
    }
    if server.contains("://") {
        return refuse("is `host:port,…` without protocols; use `security.protocol`");
    }
    let (host, port) = split_port(server);
    let port_is_fine = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let host_is_fine = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:%[]".contains(c));
    if port_is_fine && host_is_fine { Ok(()) } else { refuse("is `host:port,…`, each port between 1 and 65535") }
}

/// Splits `host:port`, `[::1]:port` and a bare host; a bare IPv6 address must stand in brackets to have a port.
fn split_port(server: &str) -> (&str, Option<&str>) {
    match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (server, None),
    }
}

fn is_loopback(server: &str) -> bool {
    let host = split_port(server).0.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Writes the form that [`FromStr`](std::str::FromStr) reads.
impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kafka { servers } => write!(f, "kafka://{}", servers.join(",")),
            Self::Memory { name } => write!(f, "memory:{}", name.as_deref().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BrokerUrl> {
        text.parse()
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for text in ["kafka://a:9092,[::1]:9093,c", "memory:", "memory:shared"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        let bad = ["", "kafka:", "kafka://", "kafka://a:0", "kafka://a:x", "kafka://a,,b", "kafka://a b", "redis://a"];
        for text in bad.into_iter().chain(["kafka://SSL://a:1", "memory:../x", "kafka://:9092", "localhost:9092"]) {
            assert_eq!(parse(text).unwrap_err().kind(), Kind::Config, "{text}");
        }
    }

    #[test]
    fn other_brokers_of_the_grammar_are_said_to_be_unsupported() {
        for text in ["booblik://h:1", "embedded:dir", "nats://me:hunter2@h"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(!error.report().contains("hunter2"));
        }
    }

    #[test]
    fn a_password_in_a_kafka_address_is_refused_without_being_repeated() {
        let error = parse("kafka://me:hunter2@host:9092").unwrap_err();
        assert!(error.to_string().contains("sasl.password"));
        assert!(!error.report().contains("hunter2"));
    }

    #[test]
    fn loopback_is_told_from_the_network() {
        for local in ["kafka://localhost", "kafka://127.0.0.1:1,[::1]:2", "kafka://::1", "memory:"] {
            assert!(parse(local).unwrap().is_local(), "{local}");
        }
        for remote in ["kafka://localhost.example.org:1", "kafka://127.0.0.1:1,b:2", "kafka://10.0.0.1"] {
            assert!(!parse(remote).unwrap().is_local(), "{remote}");
        }
    }
}
