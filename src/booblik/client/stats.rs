//! What a client counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::booblik::wire::ErrorCode;

/// What a client has counted since it was made, over all its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Connections that were made, the first one included.
    pub connections: u64,
    /// Attempts to connect that failed.
    pub failed_connections: u64,
    /// Requests with [`Acks::None`](crate::booblik::wire::Acks::None) of which the broker said that it refused them. Not
    /// every broker does.
    pub refused_unacknowledged: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    connections: AtomicU64,
    failed_connections: AtomicU64,
    refused_unacknowledged: AtomicU64,
}

impl Counters {
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn failed_to_connect(&self) {
        self.failed_connections.fetch_add(1, Relaxed);
    }

    pub(super) fn refused_silent(&self, code: Option<ErrorCode>) {
        self.refused_unacknowledged.fetch_add(1, Relaxed);
        tracing::warn!(?code, "the broker refused a booblik request that asked for no acknowledgement");
    }

    pub(super) fn snapshot(&self) -> ClientStats {
        ClientStats {
            connections: self.connections.load(Relaxed),
            failed_connections: self.failed_connections.load(Relaxed),
            refused_unacknowledged: self.refused_unacknowledged.load(Relaxed),
        }
    }
}
