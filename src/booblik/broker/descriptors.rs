//! How many files the process may have open. Each segment takes one, and so does each connection.

use std::error::Error as _;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Kind};

/// Kept back for what a broker has open beside segments and connections.
const OTHERS: usize = 64;

/// Raises the limit as far as the process may do that itself.
pub(super) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some() && current != maximum {
        // Without it there is less room.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Connections that there is room for beside what is open now, and as many segments as are kept back: a quarter of what
/// is left. `None` when there is no limit.
pub(super) fn room_for_connections(segments: usize) -> Option<usize> {
    let limit = usize::try_from(getrlimit(Resource::Nofile).current?).unwrap_or(usize::MAX);
    let left = limit.saturating_sub(segments).saturating_sub(OTHERS);
    Some((left - left / 4).max(1))
}

/// Says what to do when there are too many files open.
pub(super) fn explained(error: Error) -> Error {
    let is_it = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).is_some_and(is_too_many);
    if !is_it {
        return error;
    }
    let limit = getrlimit(Resource::Nofile).current.map_or_else(String::new, |limit| format!(", {limit}"));
    let text = format!("the limit of open files{limit} is reached (`ulimit -n`): each segment takes one");
    let explained = Error::new(Kind::Io, text).because(io::Error::from(rustix::io::Errno::MFILE));
    if let Some(place) = error.place() { explained.at(place) } else { explained }
}

/// Whether it is the limit of the process, or of the machine.
pub(super) fn is_too_many(error: &io::Error) -> bool {
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}
