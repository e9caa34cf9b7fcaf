//! Memory for requests that are not complete yet, of all connections together.

use std::sync::Arc;

use super::Shared;

/// What a connection may hold without being counted, and what one read may add.
const FREE_BYTES: usize = 64 << 10;

/// What a connection holds of it, in KiB.
pub(super) struct Partial {
    shared: Arc<Shared>,
    held: usize,
}

impl Partial {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, held: 0 }
    }

    /// The connection's buffer has `buffered` bytes, and no more is held than for those.
    pub(super) fn hold(&mut self, buffered: usize) {
        let wanted = counted(buffered);
        if wanted < self.held {
            self.shared.partial.add_permits(self.held - wanted);
            self.held = wanted;
        }
    }

    /// Makes sure that a read may follow after `buffered` bytes. Returns what there is too little of, in KiB.
    pub(super) fn missing(&mut self, buffered: usize) -> u32 {
        if buffered < FREE_BYTES {
            return 0;
        }
        let wanted = counted(buffered + FREE_BYTES);
        let missing = u32::try_from(wanted.saturating_sub(self.held)).unwrap_or(u32::MAX);
        let Ok(permit) = self.shared.partial.try_acquire_many(missing) else { return missing };
        permit.forget();
        self.held = self.held.max(wanted);
        0
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.shared.partial.add_permits(self.held);
    }
}

fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES).div_ceil(1 << 10)
}
