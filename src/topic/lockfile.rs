//! The lock on a file of positions: one run of an app at a time has it.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::util::{Attempt, LockFile};

/// How long a run of this process that has just been dropped may take to let go.
const LET_GO: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Takes it and writes down whose it is. A run of this process that was dropped a moment ago is waited for.
///
/// Errors: what `refuse` makes of the owner, in words.
pub(super) async fn take(path: &Path, refuse: impl Fn(&str) -> Error) -> Result<LockFile> {
    let io = |error: std::io::Error| Error::from(error).at(path.display().to_string());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(io)?;
    }
    let until = tokio::time::Instant::now() + LET_GO;
    loop {
        let owner = match LockFile::try_take(path).map_err(io)? {
            Attempt::Taken(lock) => return Ok(lock),
            Attempt::Ours if tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
            Attempt::Ours => "this process".to_owned(),
            Attempt::Theirs(owner) => owner.words("on"),
        };
        return Err(refuse(&owner).at(path.display().to_string()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

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
        let error = take(&path, refuse).await.unwrap_err();
        assert_eq!(since.elapsed(), Duration::ZERO, "it is not waited for");
        assert!(error.to_string().ends_with(&format!("process {} on elsewhere", std::process::id())), "{error}");
        drop(theirs);
        take(&path, refuse).await.map(drop)
    }

    #[tokio::test]
    async fn a_run_that_ends_in_a_moment_is_waited_for() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("lock");
        let first = take(&path, refuse).await?;
        let second = tokio::spawn(async move { take(&path, refuse).await.map(drop) });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap_or_else(|error| Err(Error::new(Kind::Panic, error.to_string())))
    }
}
