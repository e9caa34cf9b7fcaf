//! Memory for requests that are not complete yet, of all connections together.
//!
//! A request gets the room for all of it before more than its beginning is read, in the order in which requests began.
//! So whoever has begun can finish, and nobody waits for one who waits as well.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// What a connection may hold without being counted, and what one read may add to a request.
pub(super) const FREE_BYTES: usize = 64 << 10;

type Acquire = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

/// What a connection holds of it. A permit is a KiB.
pub(super) struct Partial {
    room: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    wanted: Option<Acquire>,
    /// Of the request for which it holds room, or waits for it.
    permits: u32,
}

impl Partial {
    pub(super) fn new(room: Arc<Semaphore>) -> Self {
        Self { room, held: None, wanted: None, permits: 0 }
    }

    /// The request that is being read has `bytes`; 0 when there is none. What was held for the one before is given back
    /// first, so that nobody waits with something in hand.
    pub(super) fn reserve(&mut self, bytes: usize) {
        let permits = u32::try_from(bytes.saturating_sub(FREE_BYTES).div_ceil(1 << 10)).unwrap_or(u32::MAX);
        if permits == self.permits {
            return;
        }
        (self.held, self.wanted, self.permits) = (None, None, permits);
        if permits > 0 {
            let room = Arc::clone(&self.room);
            self.wanted = Some(Box::pin(room.acquire_many_owned(permits)));
        }
    }

    /// Whether the request has to wait for its room.
    pub(super) fn is_waiting(&self) -> bool {
        self.wanted.is_some()
    }

    /// Waits for the room. Keeps its place among those who wait when it is dropped.
    pub(super) async fn granted(&mut self) {
        let Some(wanted) = &mut self.wanted else { return std::future::pending().await };
        // The semaphore is never closed.
        self.held = wanted.await.ok();
        self.wanted = None;
    }
}
