//! Who holds a store: a small file beside it, so that the second one to come can say who the first is.

use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind};

const FILE: &str = "owner";

/// Our entry; removed when the store is closed.
#[derive(Debug)]
pub(crate) struct Owner {
    path: PathBuf,
}

impl Owner {
    /// Writes who we are. The store is usable without it, so that a failure is only logged.
    pub(crate) fn write(dir: &Path, declared_at: &Location<'_>) -> Self {
        let path = dir.join(FILE);
        let text = format!("{}\n{declared_at}\n", std::process::id());
        if let Err(error) = fs::write(&path, text) {
            tracing::debug!(path = %path.display(), %error, "cannot write who holds the store");
        }
        Self { path }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The error of one who came second to the store in `dir`.
pub(crate) fn locked(dir: &Path, cause: Error) -> Error {
    let text = fs::read_to_string(dir.join(FILE)).unwrap_or_default();
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.parse::<u32>().ok());
    let declared_at = lines.next().unwrap_or("an unknown place");
    let holder = match pid {
        Some(pid) if pid == std::process::id() => format!("this process, declared at {declared_at}"),
        Some(pid) => format!("process {pid}, declared at {declared_at}"),
        None => "a process that left no name".to_owned(),
    };
    Error::new(Kind::Locked, format!("held by {holder}")).at(dir.display().to_string()).because(cause).retryable()
}
