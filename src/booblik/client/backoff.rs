//! How long to wait before the next attempt to connect.

use std::time::Duration;

use tokio::time::Instant;

/// Waits that double from attempt to attempt up to a cap, each shortened by a random part of up to a half, so that many
/// clients of a broker that is back do not come all at once.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    cap: Duration,
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(first: Duration, cap: Duration) -> Self {
        Self { first, cap, failures: 0, not_before: None }
    }

    /// When the next attempt may begin; `None` for at once.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// An attempt failed; `chance` is between 0 and 1.
    pub(super) fn failed(&mut self, now: Instant, chance: f64) {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        let full = doubled.min(self.cap);
        self.failures = (self.failures + 1).min(31);
        self.not_before = Some(now + full.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(chance: f64) -> Vec<u128> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let now = Instant::now();
        let mut wait = |_| {
            backoff.failed(now, chance);
            (backoff.not_before().unwrap() - now).as_millis()
        };
        (0..40).map(&mut wait).collect()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        assert_eq!(waits(0.0)[..6], [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(waits(0.0)[39], 1000);
    }

    #[test]
    fn a_random_half_is_taken_off() {
        assert_eq!(waits(1.0)[..5], [50, 100, 200, 400, 500]);
    }

    #[test]
    fn an_answer_forgives_everything() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        backoff.failed(Instant::now(), 0.0);
        backoff.succeeded();
        assert_eq!(backoff.not_before(), None);
    }
}
