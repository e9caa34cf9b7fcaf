//! Small helpers without a home of their own.

mod name;
mod nearest;

pub(crate) use name::{check_name, sanitise_name};
pub(crate) use nearest::nearest;
