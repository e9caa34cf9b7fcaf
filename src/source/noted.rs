//! What is kept beside a store for those who watch its changes: a channel has no positions that could have it with them.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Kind, Result};
use crate::flow::durable::Durable;
use crate::flow::tap::{Tap, Watch, note_of};
use crate::util::replace_file;

/// Where it is kept, and the store that has to be durable before.
pub(crate) struct NotePlace {
    pub path: PathBuf,
    pub store: Arc<dyn Durable>,
}

impl NotePlace {
    /// What an earlier run kept.
    ///
    /// Errors: [`Kind::Corrupt`] for what is none of it, and what the operating system says.
    pub(super) fn read(&self) -> Result<Option<Arc<str>>> {
        let here = |error: Error| error.at(self.path.display().to_string());
        match std::fs::read(&self.path) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(note) if note.starts_with("slipstream") => Ok(Some(Arc::from(note))),
                _ => Err(here(unreadable())),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(here(error.into())),
        }
    }

    /// The error of whoever could not read it.
    pub(super) fn refused(&self, error: Error) -> Error {
        unreadable().at(self.path.display().to_string()).because(error)
    }

    /// Keeps what those taps say that count what is done; `None` when there are none.
    pub(super) fn keep<In>(self, taps: &[Arc<dyn Tap<In>>]) -> Option<Arc<dyn Durable>> {
        let watches: Vec<_> = taps.iter().map(|tap| tap.watch()).filter(|watch| watch.is_dependency()).collect();
        (!watches.is_empty()).then(|| Arc::new(Noted { place: self, watches, last: Mutex::default() }) as _)
    }
}

fn unreadable() -> Error {
    let message = "what checkpoints kept beside these rows cannot be read: bring back what it was, or remove it; then \
                   what depends on them waits for their next change";
    Error::new(Kind::Corrupt, message)
}

struct Noted {
    place: NotePlace,
    watches: Vec<Arc<dyn Watch>>,
    last: Mutex<Option<Arc<str>>>,
}

impl Durable for Noted {
    fn sync(&self) -> Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let note = note_of(&self.watches, 0, 0);
        if *last == note {
            return Ok(());
        }
        // The rows that it speaks of.
        self.place.store.sync()?;
        if let Some(note) = &note {
            let written = replace_file(&self.place.path, note.as_bytes());
            written.map_err(|error| Error::from(error).at(self.place.path.display().to_string()))?;
        }
        *last = note;
        Ok(())
    }
}
