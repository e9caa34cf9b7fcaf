//! Where topics live: the `broker` setting.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::name::check_name;
use crate::{Error, Kind, Result};

/// Where topics live, as the key `broker` says.
///
/// | written | means |
/// |---|---|
/// | `kafka://host:port,host:port` | Kafka, through any of these servers; port 9092 where none is given |
/// | `embedded:<directory>` | on disk, in a log that this process owns and all of its apps share |
/// | `booblik://host:port` | on a booblik broker; port 9092 where none is given, an IPv6 address stands in brackets |
/// | `booblik://host:port?id=<name>` | the same, with a name under which positions are kept when the address changes |
/// | `memory:` | in this process, for one app |
/// | `memory:<name>` | in this process, for all apps that name it |
///
/// ```
/// use slipstream::Kind;
/// use slipstream::conf::BrokerUrl;
///
/// let broker: BrokerUrl = "kafka://a:9092,b:9092".parse()?;
/// assert_eq!(broker, BrokerUrl::Kafka { servers: vec!["a:9092".into(), "b:9092".into()] });
/// assert_eq!("embedded:state/log".parse::<BrokerUrl>()?, BrokerUrl::Embedded { directory: "state/log".into() });
/// assert_eq!("booblik://[::1]".parse::<BrokerUrl>()?.to_string(), "booblik://[::1]:9092");
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
    /// On disk, in a log that belongs to this process.
    Embedded {
        /// Where it is.
        directory: PathBuf,
    },
    /// A booblik broker.
    Booblik {
        /// Its name or address, without brackets.
        host: String,
        /// Its port.
        port: u16,
        /// The name that its positions are kept under, in the place of host and port.
        id: Option<String>,
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
            Self::Booblik { host, .. } => is_loopback_host(host),
            Self::Embedded { .. } | Self::Memory { .. } => true,
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
            "embedded" => embedded(text.strip_prefix("embedded:").unwrap_or_default()),
            "booblik" => booblik(text.strip_prefix("booblik://")),
            "nats" => {
                let message = "`nats:` is not built into this version; `embedded:`, `booblik://`, `kafka://` and \
                               `memory:` are";
                Err(Error::new(Kind::Unsupported, message))
            }
            _ => {
                let message = "`broker` must be `embedded:<directory>`, `booblik://host:port`, `kafka://host:port,…`, \
                               `memory:` or `memory:<name>`";
                Err(Error::new(Kind::Config, message))
            }
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

fn embedded(directory: &str) -> Result<BrokerUrl> {
    let directory = directory.strip_prefix("//").unwrap_or(directory);
    if directory.is_empty() || directory.contains('\0') {
        return Err(Error::new(Kind::Config, "a broker in this process is written `embedded:<directory>`"));
    }
    Ok(BrokerUrl::Embedded { directory: directory.into() })
}

/// The port of a booblik broker that names none.
const BOOBLIK_PORT: u16 = 9092;

fn booblik(address: Option<&str>) -> Result<BrokerUrl> {
    // The address is not repeated: a mistyped one may hold a password.
    let refuse = || {
        let message = "a booblik broker is written `booblik://host:port` or `booblik://host:port?id=<name>`, one \
                       server, without a user; an IPv6 address stands in brackets";
        Error::new(Kind::Config, message)
    };
    let (address, query) = address.map(|text| text.split_once('?').unwrap_or((text, ""))).ok_or_else(refuse)?;
    let id = match query.strip_prefix("id=") {
        Some(id) => Some(id),
        None if query.is_empty() => None,
        None => return Err(refuse()),
    };
    if let Some(id) = id {
        check_name("the broker's `id`", id)?;
    }
    let (host, port) = split_port(address.strip_suffix('/').unwrap_or(address));
    let port = port.map_or(Some(BOOBLIK_PORT), |port| port.parse().ok().filter(|port| *port > 0)).ok_or_else(refuse)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = |host: &str, more: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let is_fine = bare.map_or_else(|| is_host(host, "-._"), |bare| is_host(bare, ".:%"));
    if !is_fine {
        return Err(refuse());
    }
    Ok(BrokerUrl::Booblik { host: bare.unwrap_or(host).to_owned(), port, id: id.map(str::to_owned) })
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
    is_loopback_host(split_port(server).0.trim_matches(['[', ']']))
}

fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Writes the form that [`FromStr`](std::str::FromStr) reads.
impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kafka { servers } => write!(f, "kafka://{}", servers.join(",")),
            Self::Embedded { directory } => write!(f, "embedded:{}", directory.display()),
            Self::Booblik { host, port, id } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "booblik://{open}{host}{close}:{port}")?;
                id.iter().try_for_each(|id| write!(f, "?id={id}"))
            }
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
        for text in [
            "kafka://a:9092,[::1]:9093,c",
            "memory:",
            "memory:shared",
            "embedded:state/_broker",
            "embedded:/var/lib/log",
            "booblik://host:1",
            "booblik://[fe80::1%eth0]:9093?id=one",
        ] {
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
    fn another_broker_of_the_grammar_is_said_to_be_unsupported() {
        let error = parse("nats://me:hunter2@h").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(!error.report().contains("hunter2"));
    }

    #[test]
    fn what_is_no_address_of_a_booblik_broker_is_refused_without_being_repeated() {
        let bad =
            ["", "//", "//:1", "//me:hunter2@h:1", "//a,b", "//a:0", "//a:x", "//::1", "//a?x=1", "//a?id=", "//[]"];
        for rest in bad.into_iter().chain(["//a:1?id=../x", "//a b", "//a/b"]) {
            let error = parse(&format!("booblik:{rest}")).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "{rest}");
            assert!(!error.report().contains("hunter2"));
        }
        assert_eq!(parse("embedded:").unwrap_err().kind(), Kind::Config);
        assert_eq!(parse("embedded:///a").unwrap(), parse("embedded:/a").unwrap());
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
