//! Small helpers without a home of their own.

mod nearest;
mod panics;
mod steps;

pub(crate) use nearest::nearest;
pub(crate) use panics::panic_message;
pub(crate) use steps::step;
pub use steps::watch_steps;
