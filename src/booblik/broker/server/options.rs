//! What a server lets its clients do.

use std::time::Duration;

use crate::error::{Error, Kind, Result};

/// The limits of a [`Server`](super::Server).
///
/// ```
/// use std::time::Duration;
/// use slipstream::booblik::broker::ServerOptions;
///
/// let options = ServerOptions { idle: Duration::from_secs(60), ..ServerOptions::default() };
/// assert_eq!(options.max_connections, 4096);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Connections at a time, 4,096 by default. A further one is closed at once.
    pub max_connections: usize,
    /// Requests of a connection that are not answered yet, 1,024 by default. Nothing is read from it beyond that.
    pub max_pipelined: usize,
    /// `frameLength` of a request, 8 MiB by default, which is also the most.
    pub max_frame_bytes: usize,
    /// Bytes of requests that are not complete yet, or wait for a partition, of all connections together, 256 MiB by
    /// default. A request that has begun gets the room for all of it, or waits in its turn. The first 64 KiB of each
    /// are not counted.
    pub max_partial_bytes: usize,
    /// How long a connection may be silent with nothing under way, one hour by default.
    pub idle: Duration,
    /// How long a request that has begun may make no progress, 60 s by default.
    pub read_stall: Duration,
    /// How long a request may take from its first byte to its last, 120 s by default. What it waits for the server does
    /// not count.
    pub request: Duration,
    /// How long an answer may make no progress because the client does not read, 30 s by default.
    pub write_stall: Duration,
    /// How long a shutdown waits for answers to be written, 5 s by default.
    pub drain: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_pipelined: 1024,
            max_frame_bytes: crate::booblik::wire::MAX_FRAME_BYTES,
            max_partial_bytes: 256 << 20,
            idle: Duration::from_hours(1),
            read_stall: Duration::from_mins(1),
            request: Duration::from_mins(2),
            write_stall: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

impl ServerOptions {
    pub(super) fn check(&self) -> Result<()> {
        let wrong = [
            ("max_connections", self.max_connections == 0),
            ("max_pipelined", self.max_pipelined == 0),
            ("max_frame_bytes", !(8..=crate::booblik::wire::MAX_FRAME_BYTES).contains(&self.max_frame_bytes)),
            ("max_partial_bytes", !(self.max_frame_bytes..=1 << 40).contains(&self.max_partial_bytes)),
            ("idle", self.idle.is_zero()),
            ("read_stall", self.read_stall.is_zero()),
            ("request", self.request.is_zero()),
            ("write_stall", self.write_stall.is_zero()),
        ];
        match wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            Some((name, _)) => Err(Error::new(Kind::Config, format!("`{name}` is out of its range"))),
            None => Ok(()),
        }
    }
}
