//! The configuration of the process: set before anything opens, then only what nothing opened with.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::builder::Conf;
use super::entry::{self, Entry, Rank};
use super::load::Loaded;
use super::settings::Settings;
use super::value::ConfValue;
use crate::{Error, Kind, Result};

static PROCESS: Mutex<Process> = Mutex::new(Process { conf: None, loaded: None, opened: BTreeMap::new() });

/// The values set so far, and who opened with which.
#[derive(Debug, Default)]
struct Process {
    conf: Option<Conf>,
    /// Read once, at the first opening, so that all openings see the same file and environment.
    loaded: Option<Loaded>,
    /// Bounded by the number of keys there are.
    opened: BTreeMap<&'static str, Opened>,
}

#[derive(Debug)]
struct Opened {
    opener: String,
    entry: Entry,
}

impl Conf {
    /// Sets a key for the whole process; wins over the file and the environment.
    ///
    /// Setting it again replaces the value, until an app or a topic opens with it.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for an unknown key, a value that cannot be used, or a key that something opened with another
    /// value of: the error names it. `Kind::Unsupported` for what this build cannot do.
    ///
    /// ```standalone_crate
    /// use slipstream::{Conf, Kind};
    ///
    /// Conf::set("app.id", "orders")?;
    /// Conf::set("max_in_flight", 1024)?;
    /// let error = Conf::set("start", "now").unwrap_err();
    /// assert_eq!(error.kind(), Kind::Config);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn set(key: impl AsRef<str>, value: impl Into<ConfValue>) -> Result<()> {
        lock().put(Rank::Set, key.as_ref(), value.into())
    }

    /// Sets a key for the whole process that everything else may replace: the file, the environment and
    /// [`Conf::set`]. Examples use it, so that one variable moves them to another broker.
    ///
    /// # Errors
    ///
    /// As for [`Conf::set`].
    ///
    /// ```standalone_crate
    /// use slipstream::Conf;
    ///
    /// Conf::fallback("broker", "memory:")?;
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn fallback(key: impl AsRef<str>, value: impl Into<ConfValue>) -> Result<()> {
        lock().put(Rank::Fallback, key.as_ref(), value.into())
    }

    /// The settings of the process for something that opens with them now: `opener` is what errors will call it, as in
    /// `app orders` or `topic words`. Reads the file and the environment the first time.
    ///
    /// # Errors
    ///
    /// As for [`Conf::settings`].
    pub(crate) fn open(opener: &str) -> Result<Settings> {
        lock().open(opener)
    }
}

/// A panic in between leaves whole values: a poisoned lock is as good as another.
fn lock() -> MutexGuard<'static, Process> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    fn put(&mut self, rank: Rank, written: &str, value: ConfValue) -> Result<()> {
        let conf = self.conf.get_or_insert_with(Conf::new);
        let (name, entry) = conf.check(rank, written, &value)?;
        if let Some(opened) = self.opened.get(name) {
            let has_no_effect = opened.entry.value == entry.value || opened.entry.rank > rank;
            if !has_no_effect {
                let message =
                    format!("`{written}` cannot change any more: {} opened with another value", opened.opener);
                return Err(Error::new(Kind::Config, message).at("Conf"));
            }
        }
        // One value per key and source, so that a program may set a key as often as it likes.
        conf.given.retain(|(old, key, _)| *old != rank || entry::canonical(key) != Some(name));
        conf.given.push((rank, written.to_owned(), value));
        Ok(())
    }

    fn open(&mut self, opener: &str) -> Result<Settings> {
        let conf = self.conf.get_or_insert_with(Conf::new);
        let loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => conf.load()?,
        };
        let settings = conf.merge(&loaded);
        self.loaded = Some(loaded);
        let settings = settings?;
        for (name, entry) in settings.entries() {
            let first = || Opened { opener: opener.to_owned(), entry: entry.clone() };
            self.opened.entry(name).or_insert_with(first);
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(conf: Conf) -> Process {
        Process { conf: Some(conf), ..Process::default() }
    }

    #[test]
    fn a_key_can_be_set_again_until_something_opened_with_it() {
        let mut process = process(Conf::isolated());
        process.put(Rank::Set, "bootstrap.servers", "a:1".into()).unwrap();
        process.put(Rank::Set, "broker", "memory:".into()).unwrap();
        assert_eq!(process.conf.as_ref().map(|conf| conf.given.len()), Some(1));
        assert_eq!(process.open("topic words").unwrap().get("broker"), Some("memory:"));

        let error = process.put(Rank::Set, "broker", "memory:other".into()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert_eq!(error.to_string(), "Conf: `broker` cannot change any more: topic words opened with another value");
        assert!(process.put(Rank::Set, "bootstrap_servers", "b:1".into()).is_err(), "another name of the same key");
    }

    #[test]
    fn the_value_it_has_already_can_be_set_at_any_time() {
        let mut process = process(Conf::isolated().with("linger.ms", "7"));
        process.open("app orders").unwrap();
        process.put(Rank::Set, "queue.buffering.max.ms", 7.into()).unwrap();
        process.put(Rank::Set, "commit.interval", "1s".into()).unwrap();
        let error = process.put(Rank::Set, "commit.interval", "2s".into()).unwrap_err();
        assert!(error.to_string().contains("app orders"), "a default counts as opened with: {error}");
    }

    #[test]
    fn a_key_that_nothing_opened_with_stays_free() {
        let mut process = process(Conf::isolated());
        process.open("topic words").unwrap();
        process.put(Rank::Set, "client.rack", "a".into()).unwrap();
        assert_eq!(process.open("topic other").unwrap().get("client.rack"), Some("a"));
        assert!(process.put(Rank::Set, "client.rack", "b".into()).unwrap_err().to_string().contains("topic other"));
    }

    #[test]
    fn a_fallback_that_changes_nothing_is_fine_after_opening() {
        let mut process = process(Conf::isolated().with("broker", "memory:"));
        process.open("app orders").unwrap();
        process.put(Rank::Fallback, "broker", "kafka://a:1".into()).unwrap();
        assert!(process.put(Rank::Fallback, "drain.timeout", "1s".into()).is_err());
    }

    #[test]
    fn all_openings_see_the_file_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slipstream.toml");
        std::fs::write(&path, "linger.ms = 1").unwrap();
        let mut process = process(Conf::isolated().file(&path));
        process.open("topic a").unwrap();
        std::fs::write(&path, "linger.ms = 2").unwrap();
        assert_eq!(process.open("topic b").unwrap().get("linger.ms"), Some("1"));
    }

    #[test]
    fn a_refused_value_leaves_the_process_as_it_was() {
        let mut process = process(Conf::isolated());
        assert!(process.put(Rank::Set, "acks", 1.into()).is_err());
        assert!(process.put(Rank::Set, "sasl.passwd", "hunter2".into()).is_err());
        assert!(process.open("app").is_ok());
        assert!(!format!("{process:?}").contains("hunter2"));
    }
}
