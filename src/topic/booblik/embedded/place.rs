//! The log of a directory: opened when it is first needed, closed when its run ends.

use std::path::{Path, PathBuf};

use tokio::sync::Mutex;

use crate::booblik::broker::{Broker, BrokerOptions, Partition, TopicOptions};
use crate::conf::Settings;
use crate::error::{Error, Kind, Result};

pub(super) struct Place {
    directory: PathBuf,
    options: BrokerOptions,
    partitions: u32,
    state: Mutex<State>,
}

enum State {
    New,
    Open(Broker),
    Closed,
}

impl Place {
    pub(super) fn new(directory: &Path, settings: &Settings) -> Self {
        let default = TopicOptions {
            retention_age: settings.embedded_retention_age(),
            retention_bytes: settings.embedded_retention_bytes(),
            ..TopicOptions::default()
        };
        let options = BrokerOptions { default, ..BrokerOptions::default() };
        let partitions = settings.embedded_partitions();
        Self { directory: directory.to_owned(), options, partitions, state: Mutex::new(State::New) }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The open log.
    ///
    /// Errors: `Kind::Locked` when another process has it, `Kind::Closed` after [`close`](Self::close), those of
    /// opening.
    pub(super) async fn broker(&self) -> Result<Broker> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Open(broker) => Ok(broker.clone()),
            State::Closed => {
                Err(Error::new(Kind::Closed, "the log is closed").at(self.directory.display().to_string()))
            }
            State::New => {
                let broker = Broker::open(&self.directory, self.options.clone()).await?;
                *state = State::Open(broker.clone());
                Ok(broker)
            }
        }
    }

    /// The partitions of a topic, which is created with `partitions` or the default number if it is missing.
    pub(super) async fn ensure(&self, topic: &str, partitions: Option<u32>) -> Result<Vec<Partition>> {
        let broker = self.broker().await?;
        let count = broker.ensure_topic(topic, partitions.unwrap_or(self.partitions) as usize).await?;
        let number = |at: usize| broker.partition(topic, i32::try_from(at).unwrap_or(i32::MAX));
        (0..count).map(number).collect()
    }

    /// The partitions of a topic.
    ///
    /// Errors: `Kind::UnknownTopic`.
    pub(super) async fn find(&self, topic: &str) -> Result<Vec<Partition>> {
        let broker = self.broker().await?;
        let count = broker.topics().get(topic).copied().unwrap_or_default();
        if count == 0 {
            return Err(Error::new(Kind::UnknownTopic, "there is no such topic").at(topic));
        }
        self.ensure(topic, None).await
    }

    pub(super) async fn partition(&self, topic: &str, number: i32) -> Result<Partition> {
        self.broker().await?.partition(topic, number)
    }

    /// Brings everything that was appended to stable storage.
    pub(super) async fn sync(&self) -> Result<()> {
        let broker = match &*self.state.lock().await {
            State::Open(broker) => broker.clone(),
            State::New | State::Closed => return Ok(()),
        };
        broker.sync().await
    }

    /// Writes and syncs what was accepted and lets go of the directory, unless another app of this process has it open.
    pub(super) async fn close(&self) -> Result<()> {
        let state = std::mem::replace(&mut *self.state.lock().await, State::Closed);
        match state {
            State::Open(broker) => broker.close().await,
            State::New | State::Closed => Ok(()),
        }
    }
}
