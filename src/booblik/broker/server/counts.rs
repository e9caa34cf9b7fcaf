//! What a server has done.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

/// What a [`Server`](super::Server) has done since it was started, and how it stands.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct ServerMetrics {
    /// Connections that are open.
    pub connections: usize,
    /// Fetches that wait for records.
    pub held: usize,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were turned away, because there were enough.
    pub turned_away: u64,
    /// Times that a connection could not be accepted.
    pub accept_failed: u64,
    /// Connections that ended otherwise than by the client between two requests.
    pub dropped: u64,
    /// Requests to append.
    pub produces: u64,
    /// Requests to read.
    pub fetches: u64,
    /// Requests to describe topics.
    pub metadata: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Requests that were refused in silence, because their client wanted no answer.
    pub silent_errors: u64,
    /// Bytes of records sent.
    pub fetched_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicUsize,
    pub(super) held: AtomicUsize,
    pub(super) accepted: AtomicU64,
    pub(super) turned_away: AtomicU64,
    pub(super) accept_failed: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) produces: AtomicU64,
    pub(super) fetches: AtomicU64,
    pub(super) metadata: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) silent_errors: AtomicU64,
    pub(super) fetched_bytes: AtomicU64,
}

impl Counts {
    pub(super) fn read(&self) -> ServerMetrics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerMetrics {
            connections: self.connections.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
            accepted: count(&self.accepted),
            turned_away: count(&self.turned_away),
            accept_failed: count(&self.accept_failed),
            dropped: count(&self.dropped),
            produces: count(&self.produces),
            fetches: count(&self.fetches),
            metadata: count(&self.metadata),
            errors: count(&self.errors),
            silent_errors: count(&self.silent_errors),
            fetched_bytes: count(&self.fetched_bytes),
        }
    }
}

/// Counts one more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One more as long as it is held.
pub(super) struct Gauge<'a>(&'a AtomicUsize);

impl<'a> Gauge<'a> {
    pub(super) fn raise(gauge: &'a AtomicUsize) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }

    /// For one that was raised already.
    pub(super) fn raised(gauge: &'a AtomicUsize) -> Self {
        Self(gauge)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
