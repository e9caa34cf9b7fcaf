//! Wall time for `Retention::Ttl`, and the write time that its rows carry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STAMP_BYTES: usize = size_of::<u64>();

/// The wall clock of one store; a test can put it forward.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead_millis: AtomicU64,
}

impl Clock {
    pub(crate) fn now_millis(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(self.ahead_millis.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn advance(&self, time: Duration) {
        self.ahead_millis.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

/// `value` with its write time behind it.
pub(crate) fn stamped(value: &[u8], now_millis: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + STAMP_BYTES);
    out.extend_from_slice(value);
    out.extend_from_slice(&now_millis.to_be_bytes());
    out
}

/// The length of the value in `stamped`, or `None` when its time is over.
///
/// A row too short to have a stamp was not written by us: it is given whole, for the codec to judge.
pub(crate) fn living_len(stamped: &[u8], time: Duration, now_millis: u64) -> Option<usize> {
    let Some((value, stamp)) = stamped.split_last_chunk::<STAMP_BYTES>() else { return Some(stamped.len()) };
    let age_millis = now_millis.saturating_sub(u64::from_be_bytes(*stamp));
    (u128::from(age_millis) < time.as_millis()).then_some(value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_lives_until_its_time_is_over() {
        let row = stamped(b"abc", 1_000);
        let time = Duration::from_millis(50);
        assert_eq!(living_len(&row, time, 1_049), Some(3));
        assert_eq!(living_len(&row, time, 1_050), None);
        assert_eq!(living_len(&row, time, 10), Some(3), "a clock that went back expires nothing");
        assert_eq!(living_len(b"short", time, 1), Some(5));
    }
}
