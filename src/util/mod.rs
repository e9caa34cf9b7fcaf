//! Small helpers without a home of their own.

mod lock;
mod name;
mod nearest;
mod panics;
mod replace;
mod steps;

pub(crate) use lock::{Attempt, LockFile};
pub(crate) use name::Name;
pub(crate) use nearest::nearest;
pub(crate) use panics::panic_message;
pub(crate) use replace::{replace_file, replace_file_soon};
pub(crate) use steps::step;
#[cfg(feature = "macros")]
pub use steps::watch_steps;
