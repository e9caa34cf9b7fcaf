//! Positions that the app keeps itself, in a plain file: of topics that every member reads whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32c::crc32c;
use tokio::sync::Mutex;

use super::driver::{Backend, Home, Kept, KeptHere};
use super::lockfile;
use crate::error::{Error, Kind, Result};
use crate::flow::Env;
use crate::util::{LockFile, replace_file};

const HEADER: &str = "slipstream positions 4";
/// Without a checksum of the file; the first one also without checksums of records.
const OLD_HEADERS: [&str; 3] = ["slipstream positions 1", "slipstream positions 2", "slipstream positions 3"];
/// Begins the last line, before the checksum of the lines above it.
const CHECKSUM: &str = "checksum\t";
/// In the place of a checksum that is not known.
const UNKNOWN: &str = "-";

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

/// A file of lines `topic⇥partition⇥offset⇥checksum` between a header with the format's version and a line
/// `checksum⇥checksum`; replaced as a whole, so that it is always one state or the next. The checksum of a line is the
/// CRC-32C of the record before the offset, or `-`; the one in the last line is that of all bytes above it; both in 8
/// hexadecimal digits. A fifth field, where there is one, is the position's note.
struct OffsetFile {
    path: PathBuf,
    positions: Vec<Kept>,
    /// Held, not used: ends with the process, whatever ends it.
    _lock: Option<LockFile>,
}

impl OffsetFile {
    /// Reads it; a missing file has no positions.
    ///
    /// Errors: `Kind::Corrupt` for one that is not as it was written.
    fn open(path: &Path) -> Result<Self> {
        let positions = match std::fs::read(path) {
            Ok(bytes) => read(&bytes).map_err(|why| damaged(path, why))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::from(error).at(place(path))),
        };
        Ok(Self { path: path.to_owned(), positions, _lock: None })
    }

    /// Reads it, for nobody else until it is dropped.
    ///
    /// Errors: `Kind::Locked` when another run of the app `app` has it.
    async fn claim(path: &Path, app: &str) -> Result<Self> {
        let lock = lockfile::take(&path.with_extension("lock"), |owner| in_use(app, owner)).await?;
        Ok(Self { _lock: Some(lock), ..Self::open(path)? })
    }

    fn positions(&self) -> &[Kept] {
        &self.positions
    }

    /// Puts these in the place of older ones and makes that durable.
    async fn store(&mut self, moved: Vec<Kept>) -> Result<()> {
        self.positions = merged(std::mem::take(&mut self.positions), moved);
        let mut text = format!("{HEADER}\n");
        for Kept { topic, partition, next, crc, note } in &self.positions {
            let crc = crc.map_or_else(|| UNKNOWN.to_owned(), |crc| format!("{crc:08x}"));
            // Writing to a string does not fail.
            let _ = match note {
                Some(note) => writeln!(text, "{topic}\t{partition}\t{next}\t{crc}\t{note}"),
                None => writeln!(text, "{topic}\t{partition}\t{next}\t{crc}"),
            };
        }
        let checksum = crc32c(text.as_bytes());
        let _ = writeln!(text, "{CHECKSUM}{checksum:08x}");
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || replace(&path, text.as_bytes())).await;
        written.unwrap_or_else(|error| Err(Error::new(Kind::Io, "interrupted").because(error)))
    }
}

fn place(path: &Path) -> String {
    format!("positions in {}", path.display())
}

/// The file was not left like that by any run.
fn damaged(path: &Path, why: &str) -> Error {
    let text = format!(
        "{why}: it was cut or edited, and does not say where to go on. Bring back what it was, or remove it to begin anew, \
         by the topics' `start`"
    );
    Error::new(Kind::Corrupt, text).at(place(path))
}

/// The positions in a file's bytes, or what is wrong with them.
fn read(bytes: &[u8]) -> Result<Vec<Kept>, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
    let (header, lines) = text.split_once('\n').ok_or("its first line is missing")?;
    let lines = match header {
        HEADER => checked(text, lines)?,
        old if OLD_HEADERS.contains(&old) => lines,
        _ => return Err("its first line is none of this version's"),
    };
    let positions: Option<Vec<Kept>> = lines.lines().map(parse).collect();
    positions.filter(|positions| !positions.is_empty()).ok_or("a line is missing or not of its form")
}

/// `lines` without the last one, which has to hold the checksum of all of `text` before it.
fn checked<'a>(text: &str, lines: &'a str) -> Result<&'a str, &'static str> {
    let at = lines.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    let (lines, last) = lines.split_at(at);
    let above = text.strip_suffix(last).unwrap_or_default();
    let expected = format!("{CHECKSUM}{:08x}\n", crc32c(above.as_bytes()));
    if last == expected { Ok(lines) } else { Err("its checksum is not the one of its lines") }
}

fn parse(line: &str) -> Option<Kept> {
    let mut fields = line.split('\t');
    let topic = Arc::from(fields.next()?);
    let partition = fields.next()?.parse().ok()?;
    let next = fields.next()?.parse().ok().filter(|next| *next >= 0)?;
    let crc = match fields.next() {
        None | Some(UNKNOWN) => None,
        Some(crc) => Some(u32::from_str_radix(crc, 16).ok()?),
    };
    let note = fields.next().map(Arc::from);
    fields.next().is_none().then_some(Kept { topic, partition, next, crc, note })
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder).and_then(|()| replace_file(path, bytes));
    written.map_err(|error| Error::from(error).at(place(path)))
}

fn in_use(app: &str, owner: &str) -> Error {
    let text = format!(
        "app {app} runs already, in {owner}: its broker knows no groups, so that both would handle every \
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
    async fn a_file_of_an_older_version_is_read_and_replaced_by_one_of_this() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        std::fs::write(&path, "slipstream positions 1\nwords\t0\t5\n")?;
        let mut file = OffsetFile::open(&path)?;
        assert_eq!(file.positions(), [at(0, 5, None)]);
        file.store(vec![at(1, 2, Some(10))]).await?;
        let lines = "slipstream positions 4\nwords\t0\t5\t-\nwords\t1\t2\t0000000a\n";
        let text = std::fs::read_to_string(&path)?;
        assert_eq!(text, format!("{lines}checksum\t{:08x}\n", crc32c(lines.as_bytes())));
        Ok(())
    }

    fn refusal(path: &Path) -> Option<(Kind, String)> {
        OffsetFile::open(path).err().map(|error| (error.kind(), error.to_string()))
    }

    /// Nothing that could be taken for other positions, or for none.
    #[tokio::test]
    async fn a_file_that_was_cut_or_edited_is_an_error_that_names_it_and_the_way_out() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        let mut file = OffsetFile::open(&path)?;
        file.store(vec![at(0, 1234, Some(1)), at(1, 7, None)]).await?;
        let whole = std::fs::read(&path)?;
        let cut = (0..whole.len()).map(|length| whole.get(..length).unwrap_or_default().to_vec());
        let edited = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
            bytes
        });
        let longer = std::iter::once([&whole[..], b"words\t2\t5\t-\n"].concat());
        for bytes in cut.chain(edited).chain(longer) {
            std::fs::write(&path, &bytes)?;
            let Some((Kind::Corrupt, text)) = refusal(&path) else {
                panic!("taken for whole: {:?}", String::from_utf8_lossy(&bytes));
            };
            assert!(text.contains(&*path.to_string_lossy()) && text.contains("remove it"), "{text}");
        }
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
    fn a_damaged_file_of_an_older_version_is_an_error() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        let lines = ["words\tx\t1\n", "words\t0\t1\txyz\n", "words\t0\t1\t-\tnote\t-\n", "words\t0\t-5\t-\n", ""];
        for line in lines {
            std::fs::write(&path, format!("slipstream positions 2\n{line}"))?;
            assert!(matches!(refusal(&path), Some((Kind::Corrupt, _))), "{line:?}");
        }
        std::fs::write(&path, b"slipstream positions 2\nw\xff\t0\t1\t-\n")?;
        assert!(matches!(refusal(&path), Some((Kind::Corrupt, _))));
        Ok(())
    }

    #[tokio::test]
    async fn a_claimed_file_is_given_to_the_next_one_when_it_is_dropped() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        let first = OffsetFile::claim(&path, "app").await?;
        let refused =
            OffsetFile::claim(&path, "app").await.map(drop).map_err(|error| (error.kind(), error.to_string()));
        assert!(matches!(refused, Err((Kind::Locked, text)) if text.contains("this process")));
        drop(first);
        OffsetFile::claim(&path, "app").await.map(drop)
    }
}
