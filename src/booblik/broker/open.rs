//! A data directory in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::descriptors;
use super::keeper::Keeper;
use super::options::BrokerOptions;
use super::pool::Pool;
use super::store;
use super::topics::Topics;
use crate::error::Result;
use crate::util::LockFile;

/// A locked data directory with its topics and the threads that write them. Closed when it is dropped: what was
/// accepted is written before the lock is given back.
pub(super) struct Open {
    directory: PathBuf,
    options: BrokerOptions,
    id: String,
    topics: Arc<Topics>,
    pool: Pool,
    keeper: Keeper,
    _lock: LockFile,
}

impl Open {
    pub(super) fn new(directory: &Path, options: BrokerOptions) -> Result<Self> {
        descriptors::raise();
        let lock = store::lock(directory)?;
        let id = store::identity(directory)?;
        let pool = Pool::new(options.writer_threads);
        let topics = Arc::new(Topics::open(directory, &options, &pool)?);
        let keeper = Keeper::start(&topics, &options)?;
        Ok(Self { directory: directory.to_owned(), options, id, topics, pool, keeper, _lock: lock })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn options(&self) -> &BrokerOptions {
        &self.options
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn topics(&self) -> &Arc<Topics> {
        &self.topics
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.keeper.stop();
        let partitions = self.topics.partitions();
        partitions.iter().for_each(|partition| partition.0.refuse_all());
        self.pool.close();
        // The threads are gone; what they left is written here.
        partitions.iter().for_each(|partition| partition.0.write_group());
    }
}
