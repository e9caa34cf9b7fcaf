//! Files that are one state or the next, whenever the process or the machine ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Replaces the file at `path` as a whole: after a crash it is the old one or the new one. Its directory has to be there.
///
/// # Errors
///
/// What the operating system says; then the old one is there.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_after(path, bytes, File::sync_all)?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// The same for a crash of the process alone: when the machine goes down, the file may be empty.
///
/// # Errors
///
/// As [`replace_file`].
pub(crate) fn replace_file_soon(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_after(path, bytes, |_| Ok(()))
}

fn replace_after(path: &Path, bytes: &[u8], written: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    written(&file)?;
    std::fs::rename(&fresh, path)
}
