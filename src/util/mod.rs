//! Small helpers without a home of their own.

mod nearest;
mod panics;
#[cfg(feature = "booblik")]
mod replace;
mod steps;

pub(crate) use nearest::nearest;
pub(crate) use panics::panic_message;
#[cfg(feature = "booblik")]
pub(crate) use replace::replace_file;
pub(crate) use steps::step;
pub use steps::watch_steps;
