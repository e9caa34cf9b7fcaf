//! The topics of an open broker.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::booblik::log::{LogOptions, OnDamage, PartitionLog, each, has_segments};
use crate::booblik::wire::is_topic_name;
use crate::error::{Error, Kind, Result};

use super::catalog::{self, Known, MAX_PARTITIONS};
use super::descriptors;
use super::options::BrokerOptions;
use super::partition::Partition;
use super::pool::Pool;
use super::store;
use super::writer::Writer;

/// All topics with all partitions, by name.
pub(super) type Served = BTreeMap<Arc<str>, Arc<[Partition]>>;

/// Opens topics and finds them.
pub(super) struct Topics {
    directory: PathBuf,
    options: BrokerOptions,
    pool: Pool,
    served: RwLock<Arc<Served>>,
    /// Held while a topic is created.
    creating: Mutex<()>,
}

impl Topics {
    /// Opens every topic that is in `directory`.
    pub(super) fn open(directory: &Path, options: &BrokerOptions, pool: &Pool) -> Result<Self> {
        let topics = Self {
            directory: directory.to_owned(),
            options: options.clone(),
            pool: pool.clone(),
            served: RwLock::default(),
            creating: Mutex::default(),
        };
        let known = catalog::read(directory)?;
        let listed: Vec<(&String, &Known)> = known.iter().collect();
        let open = |at: usize| listed.get(at).map(|(topic, known)| topics.open_topic(topic, **known));
        let opened = each(listed.len(), open).into_iter().flatten();
        for ((topic, _), partitions) in listed.iter().zip(opened) {
            topics.serve(topic, partitions?);
        }
        topics.write_down(None)?;
        Ok(topics)
    }

    pub(super) fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn get(&self, topic: &str) -> Option<Arc<[Partition]>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        self.served().values().flat_map(|partitions| partitions.iter().cloned()).collect()
    }

    /// The topic with this name. It is created with `count` partitions if it is not there.
    pub(super) fn ensure(&self, topic: &str, count: i32) -> Result<Arc<[Partition]>> {
        if let Some(partitions) = self.get(topic) {
            return Ok(partitions);
        }
        check(topic, count)?;
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(partitions) = self.get(topic) {
            return Ok(partitions);
        }
        // Written down first: what a crash leaves of the directories is completed at the next open.
        let fresh = Known { count, is_complete: false };
        self.write_down(Some((topic, fresh)))?;
        let before: Vec<PathBuf> = self.paths(topic, count).filter(|path| path.exists()).collect();
        let created = self.open_topic(topic, fresh).and_then(|partitions| {
            self.write_down(Some((topic, Known { is_complete: true, ..fresh })))?;
            Ok(partitions)
        });
        match created {
            Ok(partitions) => Ok(self.serve(topic, partitions)),
            Err(error) => {
                self.undo(topic, count, &before);
                Err(error)
            }
        }
    }

    /// Removes what a failed creation has left: there is no record in it.
    fn undo(&self, topic: &str, count: i32, before: &[PathBuf]) {
        let removed = self.paths(topic, count).filter(|path| !before.contains(path) && path.exists());
        let removed: std::io::Result<Vec<()>> = removed.map(std::fs::remove_dir_all).collect();
        if let Err(error) = removed.map_err(Error::from).and_then(|_| self.write_down(None)) {
            tracing::error!(%error, "topic {topic} could not be created, and what there is of it not be removed");
        }
    }

    fn paths(&self, topic: &str, count: i32) -> impl Iterator<Item = PathBuf> {
        (0..count).map(move |number| catalog::path_of(&self.directory, topic, number))
    }

    /// Writes down what is served, and one more topic.
    fn write_down(&self, more: Option<(&str, Known)>) -> Result<()> {
        let count = |partitions: &[Partition]| i32::try_from(partitions.len()).unwrap_or(i32::MAX);
        let complete = |partitions: &[Partition]| Known { count: count(partitions), is_complete: true };
        let served = self.served();
        let served = served.iter().map(|(topic, partitions)| (topic.to_string(), complete(partitions)));
        let all = served.chain(more.map(|(topic, known)| (topic.to_owned(), known))).collect();
        catalog::write(&self.directory, &all)
    }

    fn open_topic(&self, topic: &str, known: Known) -> Result<Vec<Partition>> {
        check(topic, known.count)?;
        let name: Arc<str> = topic.into();
        let log = self.options.for_topic(topic).log();
        let open = |at: usize| {
            let number = i32::try_from(at).unwrap_or(i32::MAX);
            let directory = catalog::path_of(&self.directory, topic, number);
            let log = open_log(&directory, known, &log).map_err(descriptors::explained)?;
            Ok(Partition(Arc::new(Writer::new(Arc::clone(&name), number, log, &self.options, &self.pool))))
        };
        each(usize::try_from(known.count).unwrap_or(0), open).into_iter().collect()
    }

    fn serve(&self, topic: &str, partitions: Vec<Partition>) -> Arc<[Partition]> {
        let partitions: Arc<[Partition]> = partitions.into();
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Served::clone(&served);
        changed.insert(topic.into(), Arc::clone(&partitions));
        *served = Arc::new(changed);
        partitions
    }
}

fn open_log(directory: &Path, known: Known, options: &LogOptions) -> Result<PartitionLog> {
    if known.is_complete {
        expect_segments(directory, options.on_damage)?;
        return PartitionLog::open(directory, options.clone());
    }
    let log = PartitionLog::open(directory, options.clone())?;
    // From now on it counts as lost when it is not there.
    File::open(directory).and_then(|opened| opened.sync_all()).map_err(|error| store::at(directory, error))?;
    Ok(log)
}

/// A partition that was there and is not any more does not come back empty as if nothing were.
fn expect_segments(directory: &Path, on_damage: OnDamage) -> Result<()> {
    if directory.is_dir() && has_segments(directory).map_err(|error| store::at(directory, error))? {
        return Ok(());
    }
    let text = "the partition is lost: its directory or all segments in it are gone";
    if on_damage == OnDamage::Refuse {
        let text = format!(
            "{text}; bring them back, remove the topic by removing all its directories, or begin this one anew with \
             `on.damage` set to `serve`"
        );
        return Err(Error::new(Kind::Corrupt, text).at(directory.display().to_string()));
    }
    tracing::error!("{}: {text}; it begins anew", directory.display());
    Ok(())
}

fn check(topic: &str, count: i32) -> Result<()> {
    if !is_topic_name(topic) {
        let text = format!("`{topic}` cannot name a topic: 1 to 249 of letters, digits, `.`, `_` and `-` can");
        return Err(Error::new(Kind::Config, text));
    }
    if !(1..=MAX_PARTITIONS).contains(&count) {
        let text = format!("topic {topic} cannot have {count} partitions: 1 to {MAX_PARTITIONS} are possible");
        return Err(Error::new(Kind::Config, text));
    }
    Ok(())
}
