//! The broker's own files in a data directory: who uses it, which broker it is; what `catalog` writes down.
//!
//! None of them has a name that a partition's directory can have, so that booblik 0.3 does not look at them.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Kind, Result};

const LOCK: &str = "booblik.lock";
const ID: &str = "booblik.id";

/// The most that is read of one of these files.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// How long a broker of this process that is being closed may take to let go.
const LET_GO: Duration = Duration::from_secs(30);

/// The right to use a data directory. Ends with the process, whatever ends it.
#[derive(Debug)]
pub(super) struct Lock {
    directory: PathBuf,
    _file: File,
}

/// The directories that this process has open, or is letting go of. The number of a process says nothing: each container
/// has a process 1.
static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn ours() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is closed a moment later.
        ours().remove(&self.directory);
    }
}

impl Lock {
    /// Takes it and writes down whose it is.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(|error| at(&path, error))?;
        let (since, mut was_ours) = (Instant::now(), false);
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            let owner = read_owner(&mut file);
            was_ours |= ours().contains(directory);
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(io::Error::from(error).into());
            }
            if !was_ours || since.elapsed() > LET_GO {
                return Err(locked(directory, owner.as_deref()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        file.set_len(0)?;
        write_all_at_start(&file, format!("{}\n", myself()).as_bytes())?;
        ours().insert(directory.to_owned());
        Ok(Self { directory: directory.to_owned(), _file: file })
    }
}

/// Number and host of this process. A container is a host of its own.
fn myself() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} {}", std::process::id(), host.trim()).trim_end().to_owned()
}

fn write_all_at_start(file: &File, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(bytes, 0)
}

fn read_owner(file: &mut File) -> Option<String> {
    use std::os::unix::fs::FileExt as _;
    let mut text = [0; 256];
    let read = file.read_at(&mut text, 0).ok()?;
    let pid = std::str::from_utf8(text.get(..read)?).ok()?.trim();
    (!pid.is_empty()).then(|| pid.to_owned())
}

fn locked(directory: &Path, owner: Option<&str>) -> Error {
    let owner = owner.map_or_else(
        || "another process".to_owned(),
        |pid| match pid.split_once(' ') {
            Some((pid, host)) => format!("process {pid} on host {host}"),
            None => format!("process {pid}"),
        },
    );
    let text = format!(
        "{owner} has it open, and only one may: let that one serve it (`slipstream broker serve`) and use \
         `booblik://host:port` here"
    );
    Error::new(Kind::Locked, text).at(directory.display().to_string())
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
    let fresh = directory.join(format!("{name}.new"));
    let replace = || {
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    };
    replace().map_err(|error| at(&path, error))
}
