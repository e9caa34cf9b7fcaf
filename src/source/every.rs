//! Timers as sources.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// A source that ticks; made by [`every`].
#[derive(Debug, Clone, Copy)]
pub struct Every {
    pub(super) period: Duration,
}

/// Ticks each `period` (at least a millisecond): for the first time after one period, and never twice for ticks that
/// were missed. Its handler takes no arguments. A timer does not keep a run alive whose other sources have ended.
///
/// ```
/// use std::time::Duration;
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// let app = App::new().handle(every(Duration::from_secs(3)), || "tick", print);
/// let run = app.run();
/// run.handle().trigger(); // ends the run
/// run.await
/// # }).unwrap();
/// ```
pub const fn every(period: Duration) -> Every {
    Every { period }
}

/// The ticks themselves; the clock is started by the first poll.
pub(super) struct Ticks {
    period: Duration,
    interval: Option<Interval>,
}

impl Ticks {
    pub(super) fn new(every: Every) -> Self {
        Self { period: every.period.max(Duration::from_millis(1)), interval: None }
    }
}

impl Stream for Ticks {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let period = self.period;
        let interval = self.interval.get_or_insert_with(|| {
            let mut interval = interval_at(Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
            interval
        });
        interval.poll_tick(cx).map(|_| Some(()))
    }
}
