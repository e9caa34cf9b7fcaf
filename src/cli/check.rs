//! `slipstream broker check`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::booblik::broker::topics_in;
use crate::booblik::log::{self, SegmentCheck, partition_directory, split_directory};
use crate::error::{Error, Kind, Result};

/// Ends with 1 and names file and byte when something is damaged. A broker may have the directory open; a record that it
/// is writing at that moment can look torn.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A data directory, or the directory of one partition.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// What was found.
#[derive(Debug, Default)]
struct Found {
    segments: usize,
    records: u64,
    bytes: u64,
    problems: usize,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let directory = &arguments.directory;
    let mut partitions = partitions(directory)?;
    let is_partition = partitions == [directory.clone()];
    let topics = if is_partition { Ok(BTreeMap::new()) } else { topics_in(directory) };
    if partitions.is_empty() && topics.as_ref().is_ok_and(BTreeMap::is_empty) {
        let text = "it holds no partition: neither directories named TOPIC-NUMBER nor segments";
        return Err(Error::new(Kind::UnknownTopic, text).at(directory.display().to_string()));
    }
    if let (false, Ok(topics)) = (is_partition, &topics) {
        // Other directories are nobody's, whatever they are named.
        partitions.retain(|path| belongs(path, topics));
    }
    let mut found = Found::default();
    for partition in &partitions {
        found.partition(partition)?;
    }
    match topics {
        Ok(topics) => found.missing(directory, &topics)?,
        Err(error) if error.kind() == Kind::Corrupt => found.problem(&error.to_string())?,
        Err(error) => return Err(error),
    }
    if found.segments == 0 && found.problems == 0 {
        let text = "there is no segment in any of its partitions";
        return Err(Error::new(Kind::UnknownTopic, text).at(directory.display().to_string()));
    }
    found.report(partitions.len())
}

/// The directories of partitions below `directory`, or itself if it is one.
fn partitions(directory: &Path) -> Result<Vec<PathBuf>> {
    let at = |error: std::io::Error| Error::from(error).at(directory.display().to_string());
    let mut partitions = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.is_dir() && name(&path).and_then(split_directory).is_some() {
            partitions.push(path);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            return Ok(vec![directory.to_owned()]);
        }
    }
    partitions
        .sort_by_key(|path| name(path).and_then(split_directory).map(|(topic, number)| (topic.to_owned(), number)));
    Ok(partitions)
}

fn belongs(path: &Path, topics: &BTreeMap<String, i32>) -> bool {
    let place = name(path).and_then(split_directory);
    place.is_some_and(|(topic, number)| topics.get(topic).is_some_and(|count| number < *count))
}

fn name(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

impl Found {
    fn partition(&mut self, directory: &Path) -> Result<()> {
        let segments = match log::check(directory) {
            Err(error) if error.kind() == Kind::Corrupt => {
                return self.problem(&format!("{}: {error}", directory.display()));
            }
            other => other.map_err(|error| {
                if error.place().is_none() { error.at(directory.display().to_string()) } else { error }
            })?,
        };
        if segments.is_empty() {
            self.problem(&format!("{}: there is no segment in it", directory.display()))?;
        }
        let last = segments.last().map(|segment| segment.base_offset);
        for segment in &segments {
            self.segments += 1;
            self.records += segment.end_offset.abs_diff(segment.base_offset);
            self.bytes += segment.bytes;
            if let Some(line) = line(directory, segment, last == Some(segment.base_offset)) {
                self.problem(&line)?;
            }
        }
        Ok(())
    }

    /// Partitions of which there is no directory, although the topic has higher ones or is written down with more.
    fn missing(&mut self, directory: &Path, topics: &BTreeMap<String, i32>) -> Result<()> {
        for (topic, count) in topics {
            let path = |number| directory.join(partition_directory(topic, number));
            for missing in (0..*count).map(path).filter(|path| !path.is_dir()) {
                let text = format!("there is no such partition, but topic {topic} has {count}");
                self.problem(&format!("{}: {text}", missing.display()))?;
            }
        }
        Ok(())
    }

    fn problem(&mut self, line: &str) -> Result<()> {
        self.problems += 1;
        super::say(line)
    }

    fn report(&self, partitions: usize) -> Result<ExitCode> {
        let Self { segments, records, bytes, problems } = self;
        let counted = format!("partitions {partitions}, segments {segments}, records {records}, bytes {bytes}");
        if *problems == 0 {
            super::say(&format!("ok: {counted}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        super::say(&format!("damaged: problems {problems}; good: {counted}"))?;
        Ok(ExitCode::from(super::FAILED))
    }
}

/// What is wrong with a segment: its file, the byte behind the last good record, the offset there.
fn line(directory: &Path, segment: &SegmentCheck, is_last: bool) -> Option<String> {
    let problem = segment.problem.as_ref()?;
    let file = directory.join(format!("{:020}.log", segment.base_offset));
    let (byte, offset) = (segment.bytes, segment.end_offset);
    let cut = if is_last && !problem.contains("good ones follow") {
        "; a broker that opens it cuts it off there"
    } else {
        ""
    };
    Some(format!("{}: byte {byte}, offset {offset}: {problem}{cut}", file.display()))
}
