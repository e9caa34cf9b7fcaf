//! A directory becomes a log.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::fs::{fdatasync, ftruncate};
use rustix::io::pread;

use crate::error::{Error, Kind, Result};

use super::name::{Name, segment_of, segment_path, unsettled_path};
use super::options::{LogOptions, OnDamage};
use super::parallel::each;
use super::partition::PartitionLog;
use super::scan::{Scanned, scan};
use super::segment::Segment;

/// How far behind the last record it is looked for something else than padding.
const LOOK_BYTES: usize = 64 << 10;

impl PartitionLog {
    /// Opens the log in `directory`, which is created if it is not there. Every file is read once, to its end. What
    /// follows the last good record of the last segment is cut off, and said in a log line if it is not padding.
    ///
    /// # Errors
    ///
    /// `Kind::Corrupt` for a name that could be a segment's and is not, for segments that overlap, and, unless the
    /// options say otherwise, for records that are missing in the middle. `Kind::Io`, `Kind::DiskFull`.
    pub(crate) fn open(directory: &Path, options: LogOptions) -> Result<Self> {
        let place = directory.display().to_string();
        options.check().map_err(|error| error.at(&place))?;
        let open = || {
            create_directory(directory)?;
            let found = Files::list(directory)?.load(directory, &options)?;
            found.into_log(directory, options)
        };
        open().map_err(|error: Error| if error.place().is_none() { error.at(&place) } else { error })
    }
}

/// The first offsets of the segments in a directory, ascending.
pub(super) struct Files(pub(super) Vec<i64>);

impl Files {
    pub(super) fn list(directory: &Path) -> Result<Self> {
        let mut bases = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            match segment_of(&name.to_string_lossy()) {
                Name::Segment(base) => bases.push(base),
                Name::Wrong => {
                    let text = format!("{}: a segment is named by a number", name.display());
                    return Err(Error::new(Kind::Corrupt, text));
                }
                Name::Other => {}
            }
        }
        bases.sort_unstable();
        Ok(Self(bases))
    }

    /// Reads them all.
    fn load(self, directory: &Path, options: &LogOptions) -> Result<Loaded> {
        let load = |at: usize| self.0.get(at).map(|base| LoadedSegment::load(directory, *base, options));
        let mut loaded = Loaded { segments: Vec::new() };
        for (at, segment) in each(self.0.len(), load).into_iter().flatten().enumerate() {
            let segment = segment?;
            if !loaded.admits(directory, segment.base, options)? {
                remove_from(directory, self.0.get(at..).unwrap_or_default())?;
                break;
            }
            loaded.segments.push(segment);
        }
        Ok(loaded)
    }
}

struct Loaded {
    segments: Vec<LoadedSegment>,
}

struct LoadedSegment {
    base: i64,
    file: File,
    file_bytes: u64,
    scanned: Scanned,
}

impl LoadedSegment {
    fn load(directory: &Path, base: i64, options: &LogOptions) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(segment_path(directory, base))?;
        let file_bytes = file.metadata()?.len();
        let scanned = scan(&file, file_bytes, options.index_interval_bytes)?;
        Ok(Self { base, file, file_bytes, scanned })
    }

    fn end(&self) -> i64 {
        self.base.saturating_add_unsigned(self.scanned.records)
    }
}

impl Loaded {
    /// Whether the segment that begins with `base` continues what was read so far. If it does not, and the one before
    /// it never was on stable storage, then nobody was promised what follows: the log ends there.
    fn admits(&self, directory: &Path, base: i64, options: &LogOptions) -> Result<bool> {
        let Some(last) = self.segments.last().filter(|last| last.end() != base) else { return Ok(true) };
        let end = last.end();
        if end > base {
            let text = format!("segment {} reaches to offset {end}, but another begins with {base}", last.base);
            return Err(Error::new(Kind::Corrupt, text));
        }
        let missing = format!("records {end} to {} are missing: segment {} is damaged", base - 1, last.base);
        if unsettled_path(directory, last.base).exists() {
            tracing::warn!("{}: {missing} and was not yet synced; the log is cut at {end}", directory.display());
            return Ok(false);
        }
        if options.on_damage == OnDamage::Refuse {
            return Err(Error::new(Kind::Corrupt, missing));
        }
        tracing::error!("{}: {missing}; who reads there is told to go on behind it", directory.display());
        Ok(true)
    }

    fn into_log(self, directory: &Path, options: LogOptions) -> Result<PartitionLog> {
        let Some(last) = self.segments.last() else {
            let active = Arc::new(Segment::create(directory, 0, options.index_interval_bytes)?);
            return Ok(PartitionLog::new(directory, options, vec![Arc::clone(&active)], active));
        };
        cut_tail(directory, last)?;
        let mut segments = Vec::new();
        for loaded in self.segments {
            segments.push(Arc::new(settled(directory, loaded)?));
        }
        let Some(active) = segments.last().map(Arc::clone) else {
            return Err(Error::new(Kind::Corrupt, "no segment"));
        };
        active.set_sealed(false);
        Ok(PartitionLog::new(directory, options, segments, active))
    }
}

/// A full segment, on stable storage.
fn settled(directory: &Path, loaded: LoadedSegment) -> io::Result<Segment> {
    let LoadedSegment { base, file, scanned, .. } = loaded;
    let segment = Segment::new(directory, base, file, scanned.index, scanned.records, scanned.end);
    if unsettled_path(directory, base).exists() {
        fdatasync(segment.file())?;
        segment.settle()?;
    }
    segment.set_sealed(true);
    Ok(segment)
}

/// Cuts off what follows the last record. It must not come back when later records happen to end where it begins.
fn cut_tail(directory: &Path, last: &LoadedSegment) -> io::Result<()> {
    let LoadedSegment { base, file, file_bytes, scanned } = last;
    if *file_bytes > scanned.end {
        if !is_padding(file, scanned.end)? {
            let cut = file_bytes - scanned.end;
            let (stop, end) = (scanned.stop, last.end());
            let place = directory.display();
            tracing::warn!("{place}: segment {base} ends in {cut} bytes that are no record ({stop:?}): cut at {end}");
        }
        ftruncate(file, scanned.end)?;
    }
    // What a killed process wrote may be in memory only. From here on it counts as synced.
    fdatasync(file)?;
    Ok(())
}

/// Whether only zeros follow, as far as it is looked.
fn is_padding(file: &File, position: u64) -> io::Result<bool> {
    let mut ahead = Vec::with_capacity(LOOK_BYTES);
    pread(file, spare_capacity(&mut ahead), position)?;
    Ok(ahead.iter().all(|byte| *byte == 0))
}

fn remove_from(directory: &Path, bases: &[i64]) -> io::Result<()> {
    // From the last one on: a crash in between leaves no gap.
    bases.iter().rev().try_for_each(|base| std::fs::remove_file(segment_path(directory, *base)))
}

fn create_directory(directory: &Path) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        other => other?,
    }
    directory.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}
