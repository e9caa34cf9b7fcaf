//! Names of topics.

use super::MAX_NAME_BYTES;

/// Whether a topic may have this name: 1 to 249 of `A-Z a-z 0-9 . _ -`.
///
/// The reference lets other letters pass, although a name then can exceed what a file system allows.
///
/// ```
/// use slipstream::booblik::wire::is_topic_name;
///
/// assert!(is_topic_name("orders.v1_eu-west"));
/// assert!(!is_topic_name("") && !is_topic_name("Aufträge"));
/// ```
pub fn is_topic_name(name: &str) -> bool {
    is_name(name.as_bytes())
}

pub(super) fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.iter().all(|byte| is_name_byte(*byte))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}
