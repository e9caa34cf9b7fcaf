//! The file of a checkpoint's record in one run: who has it, and when it is written.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::outage::{Outage, State, StateCodec};
use super::record::Record;
use crate::error::{Error, Kind, Result};
use crate::util::{Attempt, LockFile, replace_file, replace_file_soon};

pub(crate) struct Keeping {
    path: PathBuf,
    codec: Option<StateCodec>,
    record: Mutex<Record>,
    /// Held, not used. None where an earlier run of this process is about to let go of it.
    _lock: Option<LockFile>,
}

impl Keeping {
    /// Takes the file of a checkpoint in this directory, and what an earlier run wrote there.
    ///
    /// # Errors
    /// [`Kind::Locked`] when another process has it, [`Kind::Corrupt`] for a file that was cut or edited, and what the
    /// operating system or the state's codec says.
    pub(super) fn open(folder: &Path, checkpoint: &Arc<str>, codec: Option<StateCodec>) -> Result<Self> {
        let path = folder.join(format!("{checkpoint}.outage"));
        let place = path.display().to_string();
        Self::take(path, checkpoint, codec).map_err(|error| error.at(place))
    }

    fn take(path: PathBuf, checkpoint: &Arc<str>, codec: Option<StateCodec>) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let lock = match LockFile::try_take(&path.with_extension("lock"))? {
            Attempt::Taken(lock) => Some(lock),
            Attempt::Ours => None,
            Attempt::Theirs(owner) => {
                let message = format!(
                    "{} has the record of this checkpoint's outages: give each member another `state.dir`",
                    owner.words("on")
                );
                return Err(Error::new(Kind::Locked, message));
            }
        };
        let record = match fs::read(&path) {
            Ok(bytes) if bytes.is_empty() => {
                tracing::warn!(%checkpoint, path = %path.display(), "the record of its outages was lost with the machine");
                Record::default()
            }
            Ok(bytes) => {
                let text =
                    String::from_utf8(bytes).map_err(|error| Error::new(Kind::Corrupt, "it is no text").because(error));
                text.and_then(|text| Record::decode(&text, checkpoint, codec)).map_err(unreadable)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { path, codec, record: Mutex::new(record), _lock: lock })
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an earlier run wrote, or this one has.
    pub(super) fn record(&self) -> Record {
        self.lock().clone()
    }

    /// This outage is about to be told of. Durable when it returns.
    pub(super) fn begins(&self, outage: Arc<Outage>) -> Result<()> {
        self.write(|last| Record { number: outage.number, unfinished: Some(outage), ..last }, replace_file)
    }

    /// All that there is to tell of this outage was told. Durable when it returns.
    pub(super) fn is_over(&self, number: u64) -> Result<()> {
        self.write(|last| Record { number, unfinished: None, ..last }, replace_file)
    }

    /// The state of which a position is about to be stored; survives the process, not the machine.
    pub(super) fn follow(&self, state: &State) -> Result<()> {
        if self.lock().state.as_ref().is_some_and(|last| Arc::ptr_eq(last, state)) {
            return Ok(());
        }
        self.write(|last| Record { state: Some(Arc::clone(state)), ..last }, replace_file_soon)
    }

    fn write(
        &self,
        change: impl FnOnce(Record) -> Record,
        replace: fn(&Path, &[u8]) -> std::io::Result<()>,
    ) -> Result<()> {
        let place = |error: Error| error.at(self.path.display().to_string());
        let mut last = self.lock();
        let record = change(last.clone());
        let text = record.encode(self.codec).map_err(place)?;
        replace(&self.path, text.as_bytes()).map_err(|error| place(error.into()))?;
        *last = record;
        Ok(())
    }
}

fn unreadable(error: Error) -> Error {
    let message = "the record of a checkpoint's outages cannot be read: bring back what it was, or remove it to go on \
                   without that state";
    Error::new(error.kind(), message).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_no_text_says_what_to_do() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("join.outage");
        fs::write(&path, [b'a', 0xff])?;
        let error = Keeping::open(folder.path(), &Arc::from("join"), None).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("remove it") && error.to_string().contains("join.outage"), "{error}");
        Ok(())
    }

    #[test]
    fn a_record_that_cannot_be_written_says_where() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let keeping = Keeping::open(folder.path(), &Arc::from("join"), None)?;
        fs::create_dir(folder.path().join("join.outage.new"))?;
        let error = keeping.is_over(1).unwrap_err();
        assert!(error.to_string().contains("join.outage"), "{error}");
        Ok(())
    }
}
