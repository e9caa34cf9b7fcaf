//! Signals, and which of several errors a run ends with.

use super::Signals;
use crate::error::{Error, Kind, Result};

/// The signals that end a run; pending for ever where there are none.
pub(super) struct SignalWatch {
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
        Ok(Self { signals })
    }

    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
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
        Ok(Self { wanted: signals == Signals::Drain })
    }

    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        if !self.wanted || tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
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
