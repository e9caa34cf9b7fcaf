//! Names in a data directory: `<topic>-<partition>/<offset of the first record, 20 digits>.log`.

use std::path::{Path, PathBuf};

use crate::booblik::wire::is_topic_name;

/// What a name that could be a segment's is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    Segment(i64),
    /// As long as a segment's and with its ending, but not a number.
    Wrong,
    Other,
}

/// Reads the name of a file.
pub(super) fn segment_of(name: &str) -> Name {
    let Some(digits) = name.strip_suffix(".log").filter(|_| name.len() == 24) else { return Name::Other };
    match digits.parse() {
        Ok(base @ 0..) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Name::Segment(base),
        _ => Name::Wrong,
    }
}

/// The file of the segment that begins with `base`.
pub(super) fn segment_path(directory: &Path, base: i64) -> PathBuf {
    directory.join(format!("{base:020}.log"))
}

/// The file that is there from the moment a segment is full until it is on stable storage.
pub(super) fn unsettled_path(directory: &Path, base: i64) -> PathBuf {
    directory.join(format!("{base:020}.unsettled"))
}

/// Where bytes are kept that were cut off a segment at byte `position`; the first of the names that is free.
pub(super) fn aside_path(directory: &Path, base: i64, position: u64) -> PathBuf {
    let name = |number: u32| match number {
        0 => directory.join(format!("{base:020}.cut-at-{position}")),
        _ => directory.join(format!("{base:020}.cut-at-{position}.{number}")),
    };
    (0..u32::MAX).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(u32::MAX))
}

/// The name of the directory of a partition.
///
/// ```
/// # use slipstream::booblik::log::{partition_directory, split_directory};
/// assert_eq!(partition_directory("web-hits", 3), "web-hits-3");
/// assert_eq!(split_directory("web-hits-3"), Some(("web-hits", 3)));
/// ```
pub fn partition_directory(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// The topic and the partition that a directory belongs to, from its name; `None` for any other directory.
pub fn split_directory(name: &str) -> Option<(&str, i32)> {
    let (topic, number) = name.rsplit_once('-')?;
    let canonical = number.bytes().all(|byte| byte.is_ascii_digit()) && (number.len() == 1 || !number.starts_with('0'));
    let partition = number.parse().ok().filter(|_| canonical)?;
    is_topic_name(topic).then_some((topic, partition))
}
