//! Which topics a data directory has: what is written down in it, compared with what is there.
//!
//! `booblik.topics` has a line per topic: its name, its number of partitions, and `complete` once all of them have been
//! created. What is not complete is completed at the next open; what is complete has to be there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::booblik::log::{has_segments, partition_directory, split_directory};
use crate::booblik::wire::is_topic_name;
use crate::error::{Error, Kind, Result};

use super::store;

const TOPICS: &str = "booblik.topics";
const COMPLETE: &str = "complete";

/// The most partitions that a topic may have.
pub(super) const MAX_PARTITIONS: i32 = 10_000;

/// A topic of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) count: i32,
    /// All partitions have been created: one that is not there is lost.
    pub(super) is_complete: bool,
}

/// The topics of `directory`. One of which nothing is there any more was removed, and is none.
pub(super) fn read(directory: &Path) -> Result<BTreeMap<String, Known>> {
    let path = directory.join(TOPICS);
    let mut topics = parse(&store::read(&path)?.unwrap_or_default(), &path)?;
    let found = found(directory)?;
    topics.retain(|topic, known| {
        let is_there = !known.is_complete || (0..known.count).any(|number| path_of(directory, topic, number).is_dir());
        if !is_there {
            tracing::warn!("{}: all partitions of topic {topic} were removed: it is not served", directory.display());
        }
        is_there
    });
    for (topic, numbers) in found {
        let missing = (0..MAX_PARTITIONS).find(|number| !numbers.contains(number)).unwrap_or(MAX_PARTITIONS);
        let listed = topics.get(&topic).copied();
        let (last, place) = (numbers.last().copied().unwrap_or_default(), directory.display());
        match listed {
            Some(known) if missing > known.count => {
                topics.insert(topic, Known { count: missing, ..known });
            }
            Some(_) => {}
            // Without its first partition it is something else, or belongs elsewhere.
            None if missing == 0 => tracing::warn!("{place}: {topic}-{last} is no topic's: there is no {topic}-0"),
            None => {
                topics.insert(topic, Known { count: last + 1, is_complete: true });
            }
        }
    }
    Ok(topics)
}

/// How many partitions each topic of `directory` has, or should have.
#[cfg(feature = "cli")]
pub(crate) fn topics_in(directory: &Path) -> Result<BTreeMap<String, i32>> {
    Ok(read(directory)?.into_iter().map(|(topic, known)| (topic, known.count)).collect())
}

/// Writes down which topics there are.
pub(super) fn write(directory: &Path, topics: &BTreeMap<String, Known>) -> Result<()> {
    let line = |(topic, known): (&String, &Known)| {
        let mark = if known.is_complete { format!(" {COMPLETE}") } else { String::new() };
        format!("{topic} {}{mark}\n", known.count)
    };
    store::replace(directory, TOPICS, &topics.iter().map(line).collect::<String>())
}

/// The directory of a partition.
pub(super) fn path_of(directory: &Path, topic: &str, number: i32) -> PathBuf {
    directory.join(partition_directory(topic, number))
}

/// Numbers of the partitions that have segments, by topic. A directory without any may be anybody's.
fn found(directory: &Path) -> Result<BTreeMap<String, std::collections::BTreeSet<i32>>> {
    let mut found: BTreeMap<_, std::collections::BTreeSet<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((topic, number)) = name.to_str().and_then(split_directory) else { continue };
        let path = entry.path();
        if number < MAX_PARTITIONS && path.is_dir() && has_segments(&path).map_err(|error| store::at(&path, error))? {
            found.entry(topic.to_owned()).or_default().insert(number);
        }
    }
    Ok(found)
}

fn parse(text: &str, path: &Path) -> Result<BTreeMap<String, Known>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (topic, count, mark, more) = (words.next()?, words.next()?, words.next(), words.next());
        let count = count.parse().ok().filter(|count| *count > 0)?;
        let is_known = is_topic_name(topic) && mark.is_none_or(|mark| mark == COMPLETE) && more.is_none();
        is_known.then(|| (topic.to_owned(), Known { count, is_complete: mark.is_some() }))
    };
    let wrong = |text: &str| {
        Error::new(Kind::Corrupt, format!("`{text}` is no topic and its number of partitions"))
            .at(path.display().to_string())
    };
    text.lines().map(|text| line(text).ok_or_else(|| wrong(text))).collect()
}
