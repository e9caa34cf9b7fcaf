//! A file that one run at a time has, of all processes that see it.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};

/// How long a run of this process that has just been dropped may take to let go.
const LET_GO: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The most that is read of a lock file, which holds the number of a process and the name of its host.
const MAX_OWNER_BYTES: u64 = 320;

/// What this process has. Its number would not tell: in two containers that share a volume it may be the same.
static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn held() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file, locked. It ends with the process, whatever ends that.
#[derive(Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    file: Option<File>,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let mut held = held();
        self.file = None;
        held.remove(&self.path);
    }
}

impl LockFile {
    /// Takes it and writes down whose it is. A run of this process that was dropped a moment ago is waited for.
    ///
    /// Errors: what `refuse` makes of the owner, in words.
    pub(super) async fn take(path: &Path, refuse: impl Fn(&str) -> Error) -> Result<Self> {
        let io = |error: std::io::Error| Error::from(error).at(path.display().to_string());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let file = options.open(path).map_err(io)?;
        let real = path.canonicalize().map_err(io)?;
        let until = tokio::time::Instant::now() + LET_GO;
        while !try_lock(&file, &real).map_err(io)? {
            let is_ours = held().contains(&real);
            if !is_ours || tokio::time::Instant::now() >= until {
                let owner = if is_ours { "this process".to_owned() } else { owner(&file) };
                return Err(refuse(&owner).at(path.display().to_string()));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let locked = Self { path: real, file: Some(file) };
        locked.sign().map_err(io)?;
        Ok(locked)
    }

    fn sign(&self) -> std::io::Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        file.set_len(0)?;
        write!(file, "{} {}", std::process::id(), host())
    }
}

/// Whether it was free.
fn try_lock(file: &File, path: &Path) -> std::io::Result<bool> {
    let mut held = held();
    match file.try_lock() {
        Ok(()) => {
            held.insert(path.to_owned());
            Ok(true)
        }
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Who has written down that it is theirs.
fn owner(file: &File) -> String {
    let mut text = String::new();
    // What cannot be read is some other process.
    let _ = std::io::Seek::rewind(&mut &*file).and_then(|()| file.take(MAX_OWNER_BYTES).read_to_string(&mut text));
    match text.trim().split_once(' ') {
        Some((process, host)) => format!("process {process} on {host}"),
        None if text.trim().is_empty() => "another process".to_owned(),
        None => format!("process {}", text.trim()),
    }
}

/// The name of this host, or of this container.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn refuse(owner: &str) -> Error {
        Error::new(Kind::Locked, owner)
    }

    /// As in another container: the same number, and not this process.
    #[tokio::test(start_paused = true)]
    async fn another_process_with_the_same_number_is_refused_at_once() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("lock");
        std::fs::write(&path, format!("{} elsewhere", std::process::id()))?;
        let theirs = File::options().read(true).write(true).open(&path)?;
        theirs.lock()?;
        let since = tokio::time::Instant::now();
        let error = LockFile::take(&path, refuse).await.unwrap_err();
        assert_eq!(since.elapsed(), Duration::ZERO, "it is not waited for");
        assert!(error.to_string().ends_with(&format!("process {} on elsewhere", std::process::id())), "{error}");
        drop(theirs);
        LockFile::take(&path, refuse).await.map(drop)
    }

    #[tokio::test]
    async fn a_run_that_ends_in_a_moment_is_waited_for() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("lock");
        let first = LockFile::take(&path, refuse).await?;
        let second = tokio::spawn(async move { LockFile::take(&path, refuse).await.map(drop) });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap_or_else(|error| Err(Error::new(Kind::Panic, error.to_string())))
    }
}
