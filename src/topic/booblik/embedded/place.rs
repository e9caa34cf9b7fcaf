//! The log of a directory: opened when it is first needed, closed when its run ends.

use std::path::{Path, PathBuf};

use tokio::sync::Mutex;

use crate::booblik::broker::{Broker, BrokerOptions, Partition, TopicOptions};
use crate::conf::Settings;
use crate::error::{Error, Kind, Result};
use crate::topic::booblik::Counts;

/// The log's own files in its directory: what it is known by, and its topics.
const ID: &str = "booblik.id";
const TOPICS: &str = "booblik.topics";

pub(super) struct Place {
    directory: PathBuf,
    options: BrokerOptions,
    partitions: u32,
    counts: Counts,
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
        let (counts, state) = (Counts::default(), Mutex::new(State::New));
        Self { directory: directory.to_owned(), options, partitions, counts, state }
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
                self.check_identity()?;
                let opened = Broker::open(&self.directory, self.options.clone()).await;
                let broker = opened.map_err(|error| self.explain(error))?;
                *state = State::Open(broker.clone());
                Ok(broker)
            }
        }
    }

    /// A log without its identity would get a new one, by which no app finds its positions.
    ///
    /// Errors: `Kind::Corrupt`.
    fn check_identity(&self) -> Result<()> {
        let [id, topics] = [ID, TOPICS].map(|name| self.directory.join(name));
        if id.exists() || !topics.exists() {
            return Ok(());
        }
        let text = "the log has lost its identity, which is what apps find their positions by. Write it again: it is \
                    the end of the name of their files, `booblik-<identity>.positions`; 32 other hexadecimal digits \
                    make every app begin anew, by its topics' `start`";
        Err(Error::new(Kind::Corrupt, text).at(id.display().to_string()))
    }

    /// What to do when another process has the log, so that nothing is read again there and keys stay with their records.
    fn explain(&self, error: Error) -> Error {
        if error.kind() != Kind::Locked {
            return error;
        }
        let id = std::fs::read_to_string(self.directory.join(ID)).unwrap_or_default();
        let text = format!(
            "another process has this log. To share it, end that one, let `slipstream broker serve --dir {}` serve it, and \
             say `broker = booblik://host:port?id={}` and `encoding = envelope` in all of them: positions and records \
             stay the same",
            self.directory.display(),
            id.trim(),
        );
        Error::new(Kind::Locked, text).at(self.directory.display().to_string()).because(error)
    }

    /// The partitions of a topic, which is created with `partitions` or the default number if it is missing.
    pub(super) async fn ensure(&self, topic: &str, partitions: Option<u32>) -> Result<Vec<Partition>> {
        let broker = self.broker().await?;
        let count = broker.ensure_topic(topic, partitions.unwrap_or(self.partitions) as usize).await?;
        self.counts.compare(topic, partitions, count);
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
