//! A disk that is soon full. Needs the right to mount a file system.

use std::path::Path;
use std::process::Command;

/// A file system of 2 MiB.
pub struct Small(tempfile::TempDir);

impl Small {
    #[allow(clippy::print_stdout, reason = "a test that did not run says so")]
    pub fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(directory.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("NOT RUN: a file system cannot be mounted here");
        }
        mounted.then_some(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room but about 256 KiB.
    pub fn fill(&self) {
        std::fs::write(self.path().join("other"), vec![1; (2 << 20) - (256 << 10)]).unwrap();
    }

    pub fn make_room(&self) {
        std::fs::remove_file(self.path().join("other")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
