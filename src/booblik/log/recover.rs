//! A directory becomes a log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{fdatasync, ftruncate};

use crate::error::{Error, Kind, Result};

use super::name::{Name, aside_path, segment_of, segment_path, unsettled_path};
use super::options::{LogOptions, OnDamage};
use super::parallel::each;
use super::partition::PartitionLog;
use super::scan::{Scanned, Stop, scan};
use super::segment::Segment;
use super::tail::{Tail, data_end, tail};

impl PartitionLog {
    /// Opens the log in `directory`, which is created if it is not there. Every file is read once, to its end. What
    /// follows the last good record of the last segment is cut off, and said in a log line if it is not padding; unless
    /// good records follow.
    ///
    /// # Errors
    ///
    /// `Kind::Corrupt` for a name that could be a segment's and is not, for segments that overlap, and, unless the
    /// options say otherwise, for records that are missing or damaged in the middle. `Kind::Io`, `Kind::DiskFull`.
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

/// Whether there is a segment in `directory`.
pub(crate) fn has_segments(directory: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        if segment_of(&entry?.file_name().to_string_lossy()) != Name::Other {
            return Ok(true);
        }
    }
    Ok(false)
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
    fn load(directory: &Path, base: i64, options: &LogOptions) -> Result<Self> {
        let path = segment_path(directory, base);
        let load = || {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let file_bytes = file.metadata()?.len();
            let scanned = scan(&file, file_bytes, options.index_interval_bytes)?;
            Ok(Self { base, file, file_bytes, scanned })
        };
        load().map_err(|error: io::Error| Error::from(error).at(path.display().to_string()))
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
        cut_tail(directory, last, options.on_damage)?;
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

/// Cuts off what follows the last record. It must not come back when later records happen to end where it begins. Good
/// records behind damage are not removed unless the options say so, and then they are kept beside.
fn cut_tail(directory: &Path, last: &LoadedSegment, on_damage: OnDamage) -> Result<()> {
    let LoadedSegment { base, file, file_bytes, scanned } = last;
    let (position, end, place) = (scanned.end, last.end(), directory.display());
    let what = tail(file, position, *file_bytes)?;
    if let Tail::Damage { good } = what
        && on_damage == OnDamage::Refuse
        && !unsettled_path(directory, *base).exists()
    {
        let text = format!(
            "segment {base} is damaged at byte {position}, record {end}, and good records follow at byte {good}; with \
             `on.damage` set to `serve` the log ends there, and what follows is kept in a file beside it"
        );
        return Err(Error::new(Kind::Corrupt, text));
    }
    match what {
        Tail::Nothing | Tail::Padding => {}
        Tail::Torn if scanned.stop == Stop::Torn => {
            let cut = file_bytes - position;
            tracing::warn!("{place}: segment {base} ends in {cut} bytes of a record that is not whole: cut at {end}");
        }
        Tail::Torn | Tail::Unclear | Tail::Damage { .. } => {
            let kept = keep_aside(directory, last)?;
            tracing::error!(
                "{place}: segment {base} is damaged at byte {position}: cut at {end}; the rest is in {kept}"
            );
        }
    }
    if what != Tail::Nothing {
        ftruncate(file, position).map_err(io::Error::from)?;
    }
    // What a killed process wrote may be in memory only. From here on it counts as synced.
    Ok(fdatasync(file).map_err(io::Error::from)?)
}

/// Copies what follows the last record to a file beside it, and returns its name.
fn keep_aside(directory: &Path, last: &LoadedSegment) -> io::Result<String> {
    let LoadedSegment { base, file, file_bytes, scanned } = last;
    let end = data_end(file, scanned.end, *file_bytes)?;
    let path = aside_path(directory, *base, scanned.end);
    let mut from = file;
    from.seek(SeekFrom::Start(scanned.end))?;
    let mut to = OpenOptions::new().write(true).create_new(true).open(&path)?;
    io::copy(&mut from.take(end - scanned.end), &mut to)?;
    to.sync_all()?;
    File::open(directory)?.sync_all()?;
    Ok(path.file_name().unwrap_or_default().display().to_string())
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
