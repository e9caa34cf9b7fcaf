//! Wrong ways to store rows, which `tests/chaos` takes to see that it would notice them. A release build has none.

use std::sync::OnceLock;
use std::time::Duration;

/// A wrong way to store rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Rows are written, and their position in a batch of its own behind them.
    RowsBeforePosition,
    /// Rows are written as they are by then, with the position at which their generation was sealed.
    NewestRows,
}

/// Between rows and position, so that a process may well be killed there.
const BETWEEN: Duration = Duration::from_millis(5);

static MADE: OnceLock<Mistake> = OnceLock::new();

/// From now on this process stores rows in a wrong way.
pub fn make(mistake: Mistake) {
    let _made = MADE.set(mistake);
}

#[inline]
pub(super) fn is_made(mistake: Mistake) -> bool {
    cfg!(debug_assertions) && MADE.get() == Some(&mistake)
}

pub(super) fn linger() {
    if is_made(Mistake::RowsBeforePosition) {
        std::thread::sleep(BETWEEN);
    }
}
