//! Positions that the app keeps itself, in a plain file: of topics that every member reads whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::flow::Position;

const HEADER: &str = "slipstream positions 1";

/// A file of lines `topic⇥partition⇥offset` under a header with the format's version; replaced as a whole, so that it
/// is always one state or the next.
pub(crate) struct OffsetFile {
    path: PathBuf,
    positions: Vec<Position>,
}

impl OffsetFile {
    /// Reads it; a missing file has no positions.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let place = || format!("positions in {}", path.display());
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::from(error).at(place())),
        };
        let mut lines = text.lines();
        if lines.next().is_some_and(|header| header != HEADER) {
            return Err(Error::new(Kind::Corrupt, "not in a format of this version").at(place()));
        }
        let positions = lines
            .map(|line| parse(line).ok_or_else(|| Error::new(Kind::Corrupt, format!("damaged: {line:?}")).at(place())))
            .collect::<Result<_>>()?;
        Ok(Self { path: path.to_owned(), positions })
    }

    pub(crate) fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Puts these in the place of older ones and makes that durable.
    pub(crate) async fn store(&mut self, moved: Vec<Position>) -> Result<()> {
        let all = self.positions.drain(..).chain(moved);
        let merged: BTreeMap<_, _> =
            all.map(|position| ((position.topic, position.partition), position.next)).collect();
        self.positions =
            merged.into_iter().map(|((topic, partition), next)| Position { topic, partition, next }).collect();
        let mut text = format!("{HEADER}\n");
        for Position { topic, partition, next } in &self.positions {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{topic}\t{partition}\t{next}");
        }
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || replace(&path, text.as_bytes())).await;
        written.unwrap_or_else(|error| Err(Error::new(Kind::Io, "interrupted").because(error)))
    }
}

fn parse(line: &str) -> Option<Position> {
    let mut fields = line.split('\t');
    let topic = Arc::from(fields.next()?);
    let partition = fields.next()?.parse().ok()?;
    let next = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Position { topic, partition, next })
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = || format!("positions in {}", path.display());
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let next = path.with_extension("next");
        let mut file = std::fs::File::create(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&next, path)?;
        std::fs::File::open(folder)?.sync_all()
    };
    write().map_err(|error| Error::from(error).at(place()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn positions_survive_and_newer_ones_replace_older_ones() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("deep/positions");
        let mut file = OffsetFile::open(&path)?;
        let at = |partition, next| Position { topic: Arc::from("words"), partition, next };
        file.store(vec![at(0, 5), at(1, 7)]).await?;
        file.store(vec![at(0, 6)]).await?;
        assert_eq!(OffsetFile::open(&path)?.positions(), [at(0, 6), at(1, 7)]);
        Ok(())
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("positions");
        std::fs::write(&path, format!("{HEADER}\nwords\tx\t1\n"))?;
        let error = OffsetFile::open(&path).map(|_| ()).map_err(|error| (error.kind(), error.to_string()));
        assert!(matches!(error, Err((Kind::Corrupt, text)) if text.contains("positions")));
        Ok(())
    }
}
