//! Looking at a partition's directory without changing it.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};

use super::name::segment_path;
use super::parallel::each;
use super::recover::Files;
use super::scan::{Stop, scan};
use super::tail::{Tail, tail};

/// What a segment's file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentCheck {
    /// The offset of its first record, which is its name.
    pub base_offset: i64,
    /// The offset behind its last good record.
    pub end_offset: i64,
    /// Where in the file that record ends, in bytes.
    pub bytes: u64,
    /// The size of the file. What is larger may be padding of booblik 0.3.
    pub file_bytes: u64,
    /// What is wrong, in words.
    pub problem: Option<String>,
}

/// Reads every segment of the partition in `directory` and compares every checksum. Nothing is changed; a broker may
/// have it open, but then the last segment may seem to be torn.
///
/// ```
/// # use slipstream::booblik::broker::{Acks, Broker, BrokerOptions};
/// # use slipstream::booblik::log::{check, partition_directory};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// # broker.ensure_topic("words", 1).await?;
/// # broker.partition("words", 0)?.append(["some", "words"], Acks::Written).await?;
/// let segments = check(&dir.path().join(partition_directory("words", 0)))?;
/// assert_eq!((segments[0].end_offset, &segments[0].problem), (2, &None));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Kind::Io` when a file cannot be read; `Kind::Corrupt` for a name that could be a segment's and is not.
pub fn check(directory: &Path) -> Result<Vec<SegmentCheck>> {
    let files = Files::list(directory)?;
    let mut checks = each(files.0.len(), |at: usize| files.0.get(at).map(|base| check_segment(directory, *base)))
        .into_iter()
        .flatten()
        .collect::<Result<Vec<_>>>()?;
    let bases: Vec<i64> = checks.iter().skip(1).map(|next| next.base_offset).collect();
    for (check, next) in checks.iter_mut().zip(bases) {
        check.compare(next);
    }
    Ok(checks)
}

fn check_segment(directory: &Path, base: i64) -> Result<SegmentCheck> {
    let path = segment_path(directory, base);
    try_check(&path, base).map_err(|error| Error::from(error).at(path.display().to_string()))
}

fn try_check(path: &Path, base: i64) -> io::Result<SegmentCheck> {
    let file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let scanned = scan(&file, file_bytes, u64::MAX)?;
    let end_offset = base.saturating_add_unsigned(scanned.records);
    let stopped = match scanned.stop {
        Stop::Torn => format!("the file ends within record {end_offset}"),
        Stop::Checksum => format!("the checksum of record {end_offset} does not match"),
        Stop::FileEnd | Stop::EndMark => format!("what is there instead of record {end_offset} is none"),
    };
    let problem = match tail(&file, scanned.end, file_bytes)? {
        Tail::Nothing | Tail::Padding => None,
        Tail::Torn | Tail::Unclear => Some(format!("{stopped}, and no good one follows in the file")),
        Tail::Damage { good } => Some(format!("{stopped}, and good ones follow at byte {good}")),
    };
    Ok(SegmentCheck { base_offset: base, end_offset, bytes: scanned.end, file_bytes, problem })
}

impl SegmentCheck {
    /// Another segment begins with `next`.
    fn compare(&mut self, next: i64) {
        let found = match self.end_offset {
            end if end < next => format!("records {end} to {} are missing", next - 1),
            end if end > next => format!("it reaches to offset {end}, but another segment begins with {next}"),
            // What comes after the last record that it should have is nobody's.
            _ => {
                self.problem = None;
                return;
            }
        };
        let problem = self.problem.take().map_or_else(|| found.clone(), |problem| format!("{problem}; {found}"));
        self.problem = Some(problem);
    }
}
