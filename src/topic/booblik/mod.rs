//! Topics in booblik's log: `embedded:`, where this process owns the log, and `booblik://`, where a broker does.
//!
//! | file | what is in it |
//! |---|---|
//! | `envelope` | the bytes of a record that has a key, headers and a timestamp |
//! | `format` | which of the encodings a topic is written in, and what that leaves out |
//! | `spread` | which partition a record belongs to |
//! | `log` | what the two have in common: a log that can be read |
//! | `begin` | where reading begins, and whether the log is still the one that was read before |
//! | `driver` | one app's reading connection |
//! | `feeding` | a partition's records on their way to its lane |
//! | `embedded`, `remote` | the two |
//!
//! The log knows no groups: every app reads all partitions and keeps its positions itself.

mod begin;
mod driver;
mod embedded;
mod envelope;
mod feeding;
mod format;
mod log;
mod remote;
mod spread;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

pub(crate) use embedded::EmbeddedBackend;
pub(crate) use remote::RemoteBackend;

/// Says once for each topic that it has another number of partitions than its declaration asks for.
#[derive(Default)]
struct Counts(Mutex<BTreeSet<Box<str>>>);

impl Counts {
    fn compare(&self, topic: &str, wanted: Option<u32>, found: usize) {
        let Some(wanted) = wanted.filter(|wanted| *wanted as usize != found) else { return };
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.into()) {
            tracing::warn!(
                topic,
                "it has {found} partitions, not {wanted}: `partitions` counts when a topic is created"
            );
        }
    }
}

/// What a place in a log is called in messages.
fn place(topic: &str, partition: i32) -> String {
    format!("{topic}[{partition}]")
}
