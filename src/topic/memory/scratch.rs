//! A directory that goes with the broker in memory that it belongs to.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

const OWNER_ONLY: u32 = 0o700;

pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// In the system's temporary directory, for its owner only.
    pub(super) fn create() -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("slipstream-memory-{}-{number}", std::process::id()));
        // Of an earlier process with our id; a foreign one that we may not remove makes the next step fail.
        let _ = std::fs::remove_dir_all(&path);
        let made = DirBuilder::new().mode(OWNER_ONLY).create(&path);
        made.map_err(|error| Error::from(error).at(path.display().to_string()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
