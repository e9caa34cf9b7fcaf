//! What a key can be set to.

use std::fmt;
use std::time::Duration;

/// The value of a key: text, a number, a truth value or a [`Duration`].
///
/// A `Duration` counts whole milliseconds, rounded up. `Debug` never shows the text, since it may be a secret.
///
/// ```
/// use slipstream::Conf;
/// use slipstream::conf::ConfValue;
/// use std::time::Duration;
///
/// let conf = Conf::isolated().with("commit.interval", Duration::from_secs(5)).with("max.in.flight", 100);
/// assert_eq!(conf.settings()?.commit_interval(), Duration::from_secs(5));
/// assert_eq!(format!("{:?}", ConfValue::from("hunter2")), "…");
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfValue(String);

impl ConfValue {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConfValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(super::secret::HIDDEN)
    }
}

impl From<String> for ConfValue {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&String> for ConfValue {
    fn from(text: &String) -> Self {
        Self(text.clone())
    }
}

impl From<&str> for ConfValue {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Duration> for ConfValue {
    fn from(duration: Duration) -> Self {
        Self(duration.as_nanos().div_ceil(1_000_000).to_string())
    }
}

macro_rules! from_plain {
    ($($plain:ty),*) => {$(
        impl From<$plain> for ConfValue {
            fn from(value: $plain) -> Self {
                Self(value.to_string())
            }
        }
    )*};
}

from_plain!(bool, i32, i64, u16, u32, u64, usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_whole_milliseconds_rounded_up() {
        assert_eq!(ConfValue::from(Duration::from_micros(1500)).as_str(), "2");
        assert_eq!(ConfValue::from(Duration::ZERO).as_str(), "0");
    }
}
