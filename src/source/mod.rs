//! Where messages come from: streams, topics, proxies, caches and timers; and the lanes that drive stages with them.

mod carried;
mod channel;
mod declared;
mod every;
mod fanout;
mod into;
mod noted;
mod stream;

pub(crate) use carried::{Carried, CarriedLane};
pub use channel::Overflow;
pub(crate) use channel::{Channel, Writer, run_channel};
pub use declared::SharedStream;
pub use every::{Every, every};
pub(crate) use fanout::{boxed_stage, fan_out};
pub(crate) use into::{AnyShared, Guarded, KeyHash, Root, RootKind, SharedSource, open_taps};
pub use into::{Attach, FromStream, IntoSource, LogSource, SourceOptions};
pub(crate) use noted::NotePlace;
pub(crate) use stream::StreamLane;

use std::time::{Duration, Instant};

/// How long a lane works before it gives way to others.
const BATCH_TIME: Duration = Duration::from_millis(1);
/// Messages between two looks at the clock.
const BATCH_MAX: u32 = 256;

/// When a lane gives way: the clock is read once per batch, and batches shorten themselves to fit [`BATCH_TIME`].
#[derive(Debug)]
pub(crate) struct Turn {
    batch: u32,
    left: u32,
    began: Option<Instant>,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { batch: BATCH_MAX, left: BATCH_MAX, began: None }
    }

    /// A poll begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.left = self.batch;
        self.began = None;
    }

    /// Messages left until the clock is looked at, at least 1.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Counts messages; true when it is time to give way.
    #[inline]
    pub(crate) fn is_over(&mut self, handled: u32) -> bool {
        self.left = self.left.saturating_sub(handled);
        self.left == 0 && self.look()
    }

    #[cold]
    fn look(&mut self) -> bool {
        let now = Instant::now();
        self.left = self.batch;
        let Some(began) = self.began else {
            self.began = Some(now);
            return false;
        };
        let took = now - began;
        if took < BATCH_TIME {
            self.batch = (self.batch * 2).min(BATCH_MAX);
            return false;
        }
        self.batch = (self.batch / 2).max(1);
        true
    }
}
