//! Values with units: durations (`250ms`, `5s`) and sizes (`64MiB`).

use std::time::Duration;

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Reads a duration: a whole number with `ms`, `s`, `m` or `h`; without a unit it counts milliseconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "" | "ms" => 1,
        "s" => SECOND_MS,
        "m" => MINUTE_MS,
        "h" => HOUR_MS,
        _ => return None,
    };
    number.checked_mul(scale).map(Duration::from_millis)
}

/// Reads a size in bytes: a whole number, or one with `KiB`, `MiB` or `GiB`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_plain_numbers_are_milliseconds() {
        assert_eq!(duration("5s"), Some(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("250"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2 m"), Some(Duration::from_mins(2)));
        for bad in ["", "s", "-1", "1.5s", "5 seconds", "99999999999999999999", "18446744073709551615h"] {
            assert_eq!(duration(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_binary_multiples() {
        assert_eq!(bytes("64MiB"), Some(64 << 20));
        assert_eq!(bytes("1024"), Some(1024));
        assert_eq!(bytes("64MB"), None, "a decimal unit would be read two ways");
        assert_eq!(bytes("18446744073709551615KiB"), None);
    }
}
