//! What a store remembers about itself: the version of its format, and the retention of each family.
//!
//! RocksDB does not give options back at a reopen, so that without this file a family made at run time would come
//! back under the defaults and lose its rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::retention::Retention;
use crate::error::{Error, Kind, Result};

/// Raised with every change that older versions would misread.
const FORMAT: u32 = 1;
pub(crate) const FILE: &str = "cache.toml";
pub(crate) const DEFAULT_FAMILY: &str = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;

/// The families of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) families: BTreeMap<String, Retention>,
}

#[derive(Deserialize)]
struct Header {
    format: u32,
}

#[derive(Deserialize)]
struct Stored {
    families: BTreeMap<String, StoredRetention>,
}

#[derive(Deserialize)]
#[serde(tag = "retention", rename_all = "lowercase")]
enum StoredRetention {
    Keep,
    Ttl { millis: u64 },
    Fifo { bytes: u64 },
}

impl Manifest {
    /// Reads the one in `dir`; `None` when there is none.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] when it cannot be understood, [`Kind::Unsupported`] when a newer version wrote it.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map(Some).map_err(|error| error.at(path.display().to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from(error).at(path.display().to_string())),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let damaged = |error: toml::de::Error| Error::new(Kind::Corrupt, "not a cache's description").because(error);
        let Header { format } = toml::from_str(text).map_err(damaged)?;
        if format != FORMAT {
            return Err(Error::new(
                Kind::Unsupported,
                format!(
                    "the store has format {format}, this version reads {FORMAT}: use the version of the library that \
                     wrote it, or move the directory away and fill the cache again"
                ),
            ));
        }
        let Stored { families } = toml::from_str(text).map_err(damaged)?;
        let families = families
            .into_iter()
            .map(|(name, stored)| match stored {
                StoredRetention::Keep => (name, Retention::Keep),
                StoredRetention::Ttl { millis } => (name, Retention::Ttl(Duration::from_millis(millis))),
                StoredRetention::Fifo { bytes } => (name, Retention::Fifo { bytes }),
            })
            .collect();
        Ok(Self { families })
    }

    /// Replaces the one in `dir`: either the old or the new one is there, also after a power loss.
    ///
    /// # Errors
    /// [`Kind::Io`] or [`Kind::DiskFull`].
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let fresh = dir.join(format!("{FILE}.new"));
        let swap = || {
            let mut file = File::create(&fresh)?;
            file.write_all(self.render().as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, dir.join(FILE))?;
            File::open(dir)?.sync_all()
        };
        swap().map_err(|error| Error::from(error).at(dir.join(FILE).display().to_string()))
    }

    // Names are checked before they get here and need no escaping beyond the quotes.
    fn render(&self) -> String {
        let mut out = format!("format = {FORMAT}\n");
        for (name, retention) in &self.families {
            let line = match retention {
                Retention::Keep => "retention = \"keep\"".to_owned(),
                Retention::Ttl(time) => format!("retention = \"ttl\"\nmillis = {}", time.as_millis()),
                Retention::Fifo { bytes } => format!("retention = \"fifo\"\nbytes = {bytes}"),
            };
            let _ = write!(out, "\n[families.\"{name}\"]\n{line}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_retention_reads_back() {
        let families = [
            ("default", Retention::Keep),
            ("a.b", Retention::Ttl(Duration::from_hours(1))),
            ("c", Retention::Fifo { bytes: 10_000 }),
        ];
        let families = families.map(|(name, retention)| (name.to_owned(), retention)).into();
        let manifest = Manifest { families };
        assert_eq!(Manifest::parse(&manifest.render()).unwrap(), manifest);
    }

    #[test]
    fn b_39_a_newer_format_is_refused_with_a_way_out() {
        let error = Manifest::parse("format = 2\nfamilies = [1, 2]").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("use the version of the library that wrote it"), "{error}");
    }

    #[test]
    fn a_damaged_one_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "form").unwrap();
        let error = Manifest::read(dir.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.place().unwrap().ends_with(FILE));
        assert_eq!(Manifest::read(&dir.path().join("elsewhere")).unwrap(), None);
    }
}
