//! Where a broker is.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::ClientError;

/// The port of a broker that names none.
const DEFAULT_PORT: u16 = 9092;

/// `host`, `host:port`, `[2001:db8::1]` or `[2001:db8::1]:port`; the port is 9092 when there is none. An IPv6 address
/// without brackets is one with a port behind its last colon, as other clients and `--listen` have it.
///
/// ```
/// use slipstream::booblik::client::Address;
///
/// let address: Address = "[::1]:9093".parse()?;
/// assert_eq!((address.host(), address.port(), address.to_string()), ("::1", 9093, "[::1]:9093".to_owned()));
/// assert_eq!("broker.local".parse::<Address>()?.port(), 9092);
/// assert_eq!("::1:9092".parse::<Address>()?.to_string(), "[::1]:9092");
/// # Ok::<(), slipstream::booblik::client::ClientError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        parse(text).ok_or_else(|| ClientError::Address { text: text.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn parse(text: &str) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.parse::<Ipv6Addr>().is_ok() => (host, Some(port)),
            Some(_) => return None,
            None => (text, None),
        },
    };
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    let is_host = !host.is_empty() && !host.chars().any(|c| c.is_whitespace() || matches!(c, '/' | '[' | ']'));
    is_host.then(|| Address { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_told() {
        for text in [
            "",
            ":9092",
            "[]:1",
            "[::1",
            "[::1]9092",
            "a:b",
            "a:70000",
            "a:-1",
            "::1",
            "::1:x",
            "a:b:1",
            "http://a:1",
            "a b:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_reads_back_what_it_prints() {
        for text in ["localhost:9092", "10.0.0.1:1", "[fe80::1%eth0]:65535"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }
}
