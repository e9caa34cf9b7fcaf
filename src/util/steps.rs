//! Steps of what must survive a crash at any of them: tests watch them, to crash there. A release build has none.

use std::sync::OnceLock;

static WATCHER: OnceLock<fn(&'static str)> = OnceLock::new();

/// Has each step told to `watcher`, from the thread that takes it. The first one stays; for tests.
#[cfg(feature = "macros")]
pub fn watch_steps(watcher: fn(&'static str)) {
    WATCHER.get_or_init(|| watcher);
}

/// A step is taken.
#[inline]
pub(crate) fn step(name: &'static str) {
    if cfg!(debug_assertions)
        && let Some(watcher) = WATCHER.get()
    {
        watcher(name);
    }
}
