//! A file that one user at a time has, of all processes that see it.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most that is read of a lock file, which holds the number of a process and the name of its host.
const MAX_OWNER_BYTES: u64 = 320;

/// What this process has. Its number would not tell: in two containers that share a volume it may be the same.
static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn held() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file, locked. It ends with the process, whatever ends that.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    file: Option<File>,
}

/// What came of trying to take it.
#[derive(Debug)]
pub(crate) enum Attempt {
    Taken(LockFile),
    /// This process has it, and may be letting go of it.
    Ours,
    Theirs(Owner),
}

/// Who has written down that a lock is theirs: the number of the process, and, but in files of older versions, its host.
#[derive(Debug)]
pub(crate) struct Owner(String);

impl Owner {
    /// For an error, with `on` between the process and its host.
    pub(crate) fn words(&self, on: &str) -> String {
        match self.0.trim().split_once(' ') {
            Some((process, host)) => format!("process {process} {on} {host}"),
            None if self.0.trim().is_empty() => "another process".to_owned(),
            None => format!("process {}", self.0.trim()),
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let mut held = held();
        self.file = None;
        held.remove(&self.path);
    }
}

impl LockFile {
    /// Takes it, if it is free, and writes down whose it is. Its directory has to be there.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub(crate) fn try_take(path: &Path) -> io::Result<Attempt> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let path = path.canonicalize()?;
        // Asked under one lock, so that who lets go meanwhile is not taken for another process.
        let mut held = held();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if held.contains(&path) => return Ok(Attempt::Ours),
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Theirs(owner(&file))),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        sign(&file)?;
        held.insert(path.clone());
        Ok(Attempt::Taken(Self { path, file: Some(file) }))
    }
}

/// A container is a host of its own.
fn sign(mut file: &File) -> io::Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    file.set_len(0)?;
    file.write_all(format!("{} {}", std::process::id(), host.trim()).trim_end().as_bytes())
}

/// What cannot be read is some other process.
fn owner(mut file: &File) -> Owner {
    let mut text = String::new();
    let _unread = file.rewind().and_then(|()| file.take(MAX_OWNER_BYTES).read_to_string(&mut text));
    Owner(text)
}
