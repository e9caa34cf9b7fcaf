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
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
