//! The topics of an open broker.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::booblik::log::{PartitionLog, each, partition_directory};
use crate::booblik::wire::is_topic_name;
use crate::error::{Error, Kind, Result};

use super::options::BrokerOptions;
use super::partition::Partition;
use super::pool::Pool;
use super::store;
use super::writer::Writer;

/// The most partitions that a topic may have.
const MAX_PARTITIONS: i32 = 10_000;

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
        let counts: Vec<(String, i32)> = store::topics(directory)?.into_iter().collect();
        let open = |at: usize| counts.get(at).map(|(topic, count)| topics.open_topic(topic, *count));
        let opened = each(counts.len(), open).into_iter().flatten();
        for ((topic, _), partitions) in counts.iter().zip(opened) {
            topics.serve(topic, partitions?);
        }
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
        let mut counts: BTreeMap<String, i32> = self.counts();
        counts.insert(topic.to_owned(), count);
        store::record_topics(&self.directory, &counts)?;
        let partitions = self.open_topic(topic, count)?;
        Ok(self.serve(topic, partitions))
    }

    fn counts(&self) -> BTreeMap<String, i32> {
        let count = |partitions: &[Partition]| i32::try_from(partitions.len()).unwrap_or(i32::MAX);
        self.served().iter().map(|(topic, partitions)| (topic.to_string(), count(partitions))).collect()
    }

    fn open_topic(&self, topic: &str, count: i32) -> Result<Vec<Partition>> {
        check(topic, count)?;
        let name: Arc<str> = topic.into();
        let log = self.options.for_topic(topic).log();
        let open = |at: usize| {
            let number = i32::try_from(at).unwrap_or(i32::MAX);
            let directory = self.directory.join(partition_directory(topic, number));
            let log = PartitionLog::open(&directory, log.clone())?;
            Ok(Partition(Arc::new(Writer::new(Arc::clone(&name), number, log, &self.options, &self.pool))))
        };
        each(usize::try_from(count).unwrap_or(0), open).into_iter().collect()
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
