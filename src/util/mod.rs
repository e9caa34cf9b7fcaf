//! Small helpers without a home of their own.

mod nearest;
mod panics;

pub(crate) use nearest::nearest;
pub(crate) use panics::panic_message;
