//! A disk that is soon full. Needs the right to mount a file system; without it the test says that it did not run.

use std::path::Path;
use std::process::Command;

/// A file system in memory, of so many MiB.
pub struct Small(tempfile::TempDir, usize);

impl Small {
    #[allow(clippy::print_stdout, reason = "a test that did not run says so")]
    pub fn mount(mib: usize) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("NOT RUN: a file system cannot be mounted here");
        }
        mounted.then_some(Self(directory, mib))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room but about 256 KiB.
    pub fn fill(&self) {
        std::fs::write(self.path().join("other"), vec![1; (self.1 << 20) - (256 << 10)]).unwrap();
    }

    pub fn make_room(&self) {
        std::fs::remove_file(self.path().join("other")).unwrap();
    }

    pub fn grow(&self, mib: usize) {
        let size = format!("remount,size={mib}m");
        assert!(Command::new("mount").args(["-o", &size]).arg(self.path()).status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
