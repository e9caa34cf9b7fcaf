//! Signals, and which of several errors a run ends with.

use std::time::{Duration, Instant};

use super::Signals;
use crate::error::{Error, Kind, Result};

/// What comes so soon after a signal is the same signal once more: a tool that signals a process and then its group, or
/// a supervisor that passes on the Ctrl-C which the terminal sent to everyone.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// The signals that end a run; pending for ever where there are none.
pub(super) struct SignalWatch {
    arrivals: Arrivals,
    #[cfg(unix)]
    signals: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
    #[cfg(not(unix))]
    wanted: bool,
}

impl SignalWatch {
    #[cfg(unix)]
    pub(super) fn new(signals: Signals) -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let open =
            |kind| signal(kind).map_err(|error| Error::new(Kind::Io, "cannot listen for signals").because(error));
        let signals = match signals {
            Signals::Drain => Some((open(SignalKind::interrupt())?, open(SignalKind::terminate())?)),
            Signals::Ignore => None,
        };
        Ok(Self { arrivals: Arrivals::default(), signals })
    }

    /// The next signal that is not the one before once more.
    pub(super) async fn next(&mut self) {
        loop {
            self.receive().await;
            if self.arrivals.is_new(Instant::now()) {
                return;
            }
        }
    }

    #[cfg(unix)]
    async fn receive(&mut self) {
        match &mut self.signals {
            Some((interrupt, terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
    }

    #[cfg(not(unix))]
    pub(super) fn new(signals: Signals) -> Result<Self> {
        Ok(Self { arrivals: Arrivals::default(), wanted: signals == Signals::Drain })
    }

    #[cfg(not(unix))]
    async fn receive(&mut self) {
        if !self.wanted || tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// When the last signal that counted came.
#[derive(Debug, Default)]
struct Arrivals(Option<Instant>);

impl Arrivals {
    fn is_new(&mut self, now: Instant) -> bool {
        if self.0.is_some_and(|last| now.duration_since(last) < SAME_SIGNAL) {
            return false;
        }
        self.0 = Some(now);
        true
    }
}

/// The first error; the others are logged, since a function returns one.
pub(super) fn first_of(failures: Vec<Error>) -> Result<()> {
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else { return Ok(()) };
    for other in failures {
        tracing::error!("also failed: {}", other.report());
    }
    Err(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_half_a_second_are_one() {
        let (mut arrivals, first) = (Arrivals::default(), Instant::now());
        assert!(arrivals.is_new(first));
        for later in [0, 1, 499] {
            assert!(!arrivals.is_new(first + Duration::from_millis(later)), "{later} ms");
        }
        assert!(arrivals.is_new(first + SAME_SIGNAL));
        assert!(!arrivals.is_new(first + SAME_SIGNAL + Duration::from_millis(1)));
    }
}
