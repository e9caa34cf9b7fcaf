//! RocksDB's errors as ours.

use std::path::Path;

use rocksdb::ErrorKind;

use crate::error::{Error, Kind};

/// The error with its kind, and the file it names, of the store at `path`.
pub(crate) fn failure(error: rocksdb::Error, path: &Path) -> Error {
    let kind = kind_of(&error);
    let place = file_in(error.as_ref(), path).unwrap_or_else(|| path.display().to_string());
    let typed = Error::new(kind, message(kind)).at(place);
    let retryable = matches!(kind, Kind::DiskFull | Kind::Locked)
        || matches!(error.kind(), ErrorKind::Incomplete | ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::TimedOut);
    let typed = if retryable { typed.retryable() } else { typed };
    typed.because(error)
}

fn kind_of(error: &rocksdb::Error) -> Kind {
    let text = error.as_ref();
    match error.kind() {
        // The order matters: a full disk can be reported while a table file is being written or read.
        _ if text.contains("No space left on device") || text.contains("File too large") => Kind::DiskFull,
        _ if text.contains("lock hold by current process") || text.contains("While lock file") => Kind::Locked,
        ErrorKind::Corruption => Kind::Corrupt,
        ErrorKind::IOError if text.contains("No such file") && text.contains(".sst") => Kind::Corrupt,
        ErrorKind::NotSupported => Kind::Unsupported,
        ErrorKind::ShutdownInProgress | ErrorKind::ColumnFamilyDropped => Kind::Closed,
        ErrorKind::IOError => Kind::Io,
        _ => Kind::Store,
    }
}

fn message(kind: Kind) -> &'static str {
    match kind {
        Kind::DiskFull => {
            "no space left for the store; some seconds after there is room for the rows that it holds in memory, \
             4 MiB at least, it goes on by itself"
        }
        Kind::Io => "the disk failed; once it works again, a restart goes on with what was stored",
        Kind::Locked => "the store is held by someone else",
        Kind::Corrupt => "the store is damaged",
        Kind::Unsupported => "not possible with this store",
        Kind::Closed => "the store or the family is no longer there",
        _ => "the store failed",
    }
}

/// The file below `path` that `text` names.
fn file_in(text: &str, path: &Path) -> Option<String> {
    let path = path.to_str()?;
    let (_, tail) = text.split_once(path)?;
    let end = tail.find([' ', ':', ',', '\'', '"']).unwrap_or(tail.len());
    Some(format!("{path}{}", tail.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_damaged_file_is_named() {
        let text =
            "Corruption: block checksum mismatch: stored = 1, computed = 2  in /a b/db/000012.sst offset 0 size 9";
        assert_eq!(file_in(text, Path::new("/a b/db")).unwrap(), "/a b/db/000012.sst");
        assert_eq!(file_in("Corruption: no name", Path::new("/a b/db")), None);
    }
}
