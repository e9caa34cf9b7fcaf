//! The broker's own files in a data directory: who uses it, which broker it is; what `catalog` writes down.
//!
//! None of them has a name that a partition's directory can have, so that booblik 0.3 does not look at them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};
use crate::util::{Attempt, LockFile, replace_file};

const LOCK: &str = "booblik.lock";
const ID: &str = "booblik.id";

/// The most that is read of one of these files.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// How long a broker of this process that is being closed may take to let go.
const LET_GO: Duration = Duration::from_secs(30);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The right to use a data directory. Ends with the process, whatever ends it.
///
/// Errors: `Kind::Locked` when another process has it.
pub(super) fn lock(directory: &Path) -> Result<LockFile> {
    let path = directory.join(LOCK);
    let until = Instant::now() + LET_GO;
    loop {
        let owner = match LockFile::try_take(&path).map_err(|error| at(&path, error))? {
            Attempt::Taken(lock) => return Ok(lock),
            Attempt::Ours if Instant::now() < until => {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            Attempt::Ours => "this process".to_owned(),
            Attempt::Theirs(owner) => owner.words("on host"),
        };
        let text = format!(
            "{owner} has it open, and only one may: let that one serve it (`slipstream broker serve`) and use \
             `booblik://host:port` here"
        );
        return Err(Error::new(Kind::Locked, text).at(directory.display().to_string()));
    }
}

/// The identity of the broker whose directory this is: 32 hexadecimal digits, drawn when it is first opened.
pub(super) fn identity(directory: &Path) -> Result<String> {
    let path = directory.join(ID);
    if let Some(text) = read(&path)? {
        let id = text.trim();
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        return is_id
            .then(|| id.to_owned())
            .ok_or_else(|| Error::new(Kind::Corrupt, "this is no broker's identity").at(path.display().to_string()));
    }
    let id = format!("{:032x}", fastrand::u128(..));
    replace(directory, ID, &id)?;
    Ok(id)
}

/// Says which file it was.
pub(super) fn at(path: &Path, error: io::Error) -> Error {
    Error::from(error).at(path.display().to_string())
}

/// All of a file; `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| at(path, error))?,
    };
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Error::new(Kind::Corrupt, "it is not text").at(path.display().to_string()),
        _ => at(path, error),
    })?;
    Ok(Some(text))
}

/// Replaces a file as a whole: after a crash it is the old one or the new one.
pub(super) fn replace(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    replace_file(&path, text.as_bytes()).map_err(|error| at(&path, error))
}
