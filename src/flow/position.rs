//! A partition and the offset to read next.

use std::sync::Arc;

/// Where reading goes on: `next` is the first offset that is not done, as Kafka's committed offsets are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    pub topic: Arc<str>,
    pub partition: i32,
    pub next: i64,
    /// The first offset that may be read again: what watches the source may have to correct it.
    pub needed: i64,
    /// What whoever watches the source wants to find again with the position: printable ASCII, without a meaning to
    /// brokers.
    pub note: Option<Arc<str>>,
}
