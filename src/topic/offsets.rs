//! Positions that the app keeps itself, in a plain file: of topics that every member reads whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::driver::{Backend, Home, Kept, KeptHere};
use crate::error::{Error, Kind, Result};
use crate::flow::Env;

const HEADER: &str = "slipstream positions 2";
/// Some lines have a note.
const HEADER_3: &str = "slipstream positions 3";
/// Lines without a checksum.
const HEADER_1: &str = "slipstream positions 1";
/// In the place of a checksum that is not known.
const UNKNOWN: &str = "-";

/// How long a run of this process that has just been dropped may take to let go of its positions.
const LET_GO: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The most that is read of a lock file, which holds the number of a process.
const MAX_OWNER_BYTES: u64 = 32;

/// The positions that a run keeps itself of one broker; all its connections to that broker share them, and nobody else
/// has them meanwhile.
pub(crate) struct OwnPositions {
    home: Mutex<Option<Opened>>,
}

enum Opened {
    File(OffsetFile),
    Here(Arc<KeptHere>, PathBuf),
}

impl OwnPositions {
    /// # Errors
    /// [`Kind::Locked`] when another run of the app has them.
    pub(crate) async fn open(backend: &dyn Backend, env: &Env) -> Result<Arc<Self>> {
        let folder = &env.parts().state_dir;
        let (name, home) = match backend.own_positions().await? {
            Home::Named(name) => (format!("positions of {name}"), Err(folder.join(format!("{name}.positions")))),
            Home::Here(kept) => (format!("positions at {:p}", Arc::as_ptr(&kept)), Ok(kept)),
        };
        let own = env.single(&name, || Ok(Arc::new(Self { home: Mutex::const_new(None) })))?;
        let mut opened = own.home.lock().await;
        if opened.is_none() {
            *opened = Some(match home {
                Ok(kept) => Opened::Here(kept, folder.clone()),
                Err(path) => Opened::File(OffsetFile::claim(&path, &env.parts().app_id).await?),
            });
        }
        drop(opened);
        Ok(own)
    }

    pub(crate) async fn all(&self) -> Vec<Kept> {
        match &*self.home.lock().await {
            Some(Opened::File(file)) => file.positions().to_vec(),
            Some(Opened::Here(kept, app)) => here(kept).get(app).cloned().unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// Puts these in the place of older ones and makes that durable.
    pub(crate) async fn store(&self, moved: Vec<Kept>) -> Result<()> {
        match &mut *self.home.lock().await {
            Some(Opened::File(file)) => file.store(moved).await,
            Some(Opened::Here(kept, app)) => {
                let mut all = here(kept);
                let own = all.entry(app.clone()).or_default();
                *own = merged(std::mem::take(own), moved);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn here(kept: &KeptHere) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Vec<Kept>>> {
    kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Newer positions in the place of older ones.
fn merged(old: Vec<Kept>, new: Vec<Kept>) -> Vec<Kept> {
    let all = old.into_iter().chain(new);
    let by_place: BTreeMap<_, _> = all.map(|kept| ((Arc::clone(&kept.topic), kept.partition), kept)).collect();
    by_place.into_values().collect()
}

/// A file of lines `topic⇥partition⇥offset⇥checksum` under a header with the format's version; replaced as a whole, so
/// that it is always one state or the next. The checksum is the CRC-32C of the record before the offset in 8
/// hexadecimal digits, or `-`. A fifth field, where there is one, is the position's note.
struct OffsetFile {
    path: PathBuf,
    positions: Vec<Kept>,
    /// Held, not used: ends with the process, whatever ends it.
    _lock: Option<File>,
}

impl OffsetFile {
    /// Reads it; a missing file has no positions.
    fn open(path: &Path) -> Result<Self> {
        let place = || place(path);
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::from(error).at(place())),
        };
        let mut lines = text.lines();
        if lines.next().is_some_and(|header| ![HEADER, HEADER_1, HEADER_3].contains(&header)) {
            return Err(Error::new(Kind::Corrupt, "not in a format of this version").at(place()));
        }
        let positions = lines
            .map(|line| parse(line).ok_or_else(|| Error::new(Kind::Corrupt, format!("damaged: {line:?}")).at(place())))
            .collect::<Result<_>>()?;
        Ok(Self { path: path.to_owned(), positions, _lock: None })
    }

    /// Reads it, for nobody else until it is dropped.
    ///
    /// Errors: `Kind::Locked` when another run of the app `app` has it.
    async fn claim(path: &Path, app: &str) -> Result<Self> {
        let lock = lock(&path.with_extension("lock"), app).await?;
        Ok(Self { _lock: Some(lock), ..Self::open(path)? })
    }

    fn positions(&self) -> &[Kept] {
        &self.positions
    }

    /// Puts these in the place of older ones and makes that durable.
    async fn store(&mut self, moved: Vec<Kept>) -> Result<()> {
        self.positions = merged(std::mem::take(&mut self.positions), moved);
        let has_notes = self.positions.iter().any(|kept| kept.note.is_some());
        let mut text = format!("{}\n", if has_notes { HEADER_3 } else { HEADER });
        for Kept { topic, partition, next, crc, note } in &self.positions {
            let crc = crc.map_or_else(|| UNKNOWN.to_owned(), |crc| format!("{crc:08x}"));
            // Writing to a string does not fail.
            let _ = match note {
                Some(note) => writeln!(text, "{topic}\t{partition}\t{next}\t{crc}\t{note}"),
                None => writeln!(text, "{topic}\t{partition}\t{next}\t{crc}"),
            };
        }
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || replace(&path, text.as_bytes())).await;
        written.unwrap_or_else(|error| Err(Error::new(Kind::Io, "interrupted").because(error)))
    }
}

fn place(path: &Path) -> String {
    format!("positions in {}", path.display())
}

fn parse(line: &str) -> Option<Kept> {
    let mut fields = line.split('\t');
    let topic = Arc::from(fields.next()?);
    let partition = fields.next()?.parse().ok()?;
    let next = fields.next()?.parse().ok()?;
    let crc = match fields.next() {
        None | Some(UNKNOWN) => None,
        Some(crc) => Some(u32::from_str_radix(crc, 16).ok()?),
    };
    let note = fields.next().map(Arc::from);
    fields.next().is_none().then_some(Kept { topic, partition, next, crc, note })
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let next = path.with_extension("next");
        let mut file = File::create(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&next, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| Error::from(error).at(place(path)))
}

/// Takes the lock and writes down whose it is. A run of this process that was dropped a moment ago is waited for.
async fn lock(path: &Path, app: &str) -> Result<File> {
    let io = |error: std::io::Error| Error::from(error).at(path.display().to_string());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(io)?;
    }
    let options = File::options().read(true).write(true).create(true).truncate(false).clone();
    let file = options.open(path).map_err(io)?;
    let until = tokio::time::Instant::now() + LET_GO;
    while let Err(error) = file.try_lock() {
        if let TryLockError::Error(error) = error {
            return Err(io(error));
        }
        let owner = owner(&file);
        if owner != std::process::id().to_string() || tokio::time::Instant::now() >= until {
            return Err(in_use(app, &owner).at(path.display().to_string()));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    file.set_len(0).map_err(io)?;
    (&file).write_all(std::process::id().to_string().as_bytes()).map_err(io)?;
    Ok(file)
}

fn owner(file: &File) -> String {
    let mut text = String::new();
    // What cannot be read is some other process.
    let _ = std::io::Seek::rewind(&mut &*file).and_then(|()| file.take(MAX_OWNER_BYTES).read_to_string(&mut text));
    text.trim().to_owned()
}

fn in_use(app: &str, owner: &str) -> Error {
    let text = format!(
        "app {app} runs already, in process {owner}: its broker knows no groups, so that both would handle every \
         message; give this one another `app.id` or another `state.dir`"
    );
    Error::new(Kind::Locked, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32, next: i64, crc: Option<u32>) -> Kept {
        Kept { topic: Arc::from("words"), partition, next, crc, note: None }
    }

    #[tokio::test]
    async fn positions_survive_and_newer_ones_replace_older_ones() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("deep/positions");
        let mut file = OffsetFile::open(&path)?;
        file.store(vec![at(0, 5, Some(1)), at(1, 7, Some(0xfedc_ba98))]).await?;
        file.store(vec![at(0, 6, None)]).await?;
        assert_eq!(OffsetFile::open(&path)?.positions(), [at(0, 6, None), at(1, 7, Some(0xfedc_ba98))]);
        Ok(())
    }

    #[tokio::test]
    async fn a_file_of_the_first_version_is_read_and_replaced_by_one_of_the_second() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        std::fs::write(&path, "slipstream positions 1\nwords\t0\t5\n")?;
        let mut file = OffsetFile::open(&path)?;
        assert_eq!(file.positions(), [at(0, 5, None)]);
        file.store(vec![at(1, 2, Some(10))]).await?;
        let text = std::fs::read_to_string(&path)?;
        assert_eq!(text, "slipstream positions 2\nwords\t0\t5\t-\nwords\t1\t2\t0000000a\n");
        Ok(())
    }

    #[tokio::test]
    async fn a_note_comes_back_with_its_position_and_goes_with_it() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        let mut file = OffsetFile::open(&path)?;
        let noted = Kept { note: Some(Arc::from("checkpoint 1 3 120")), ..at(0, 5, None) };
        file.store(vec![noted.clone(), at(1, 7, Some(1))]).await?;
        assert_eq!(OffsetFile::open(&path)?.positions(), [noted, at(1, 7, Some(1))]);
        file.store(vec![at(0, 6, None)]).await?;
        assert_eq!(OffsetFile::open(&path)?.positions(), [at(0, 6, None), at(1, 7, Some(1))]);
        Ok(())
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        for line in ["words\tx\t1", "words\t0\t1\txyz", "words\t0\t1\t-\tnote\t-"] {
            std::fs::write(&path, format!("{HEADER}\n{line}\n"))?;
            let error = OffsetFile::open(&path).map(|_| ()).map_err(|error| (error.kind(), error.to_string()));
            assert!(matches!(error, Err((Kind::Corrupt, text)) if text.contains("positions")));
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_claimed_file_is_given_to_the_next_one_when_it_is_dropped() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        let first = OffsetFile::claim(&path, "app").await?;
        let refused =
            OffsetFile::claim(&path, "app").await.map(drop).map_err(|error| (error.kind(), error.to_string()));
        let pid = std::process::id().to_string();
        assert!(matches!(refused, Err((Kind::Locked, text)) if text.contains(&pid)));
        drop(first);
        OffsetFile::claim(&path, "app").await.map(drop)
    }
}
