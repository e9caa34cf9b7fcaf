//! "Durable before committed": what units wrote is on disk before a position that says so is.

use crate::error::Result;

/// Something that units write to and that can be made to survive a power loss.
pub(crate) trait Durable: Send + Sync {
    /// Blocks until everything written so far is on disk; cheap when nothing was.
    fn sync(&self) -> Result<()>;
}
