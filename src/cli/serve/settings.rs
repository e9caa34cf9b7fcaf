//! What a broker is started with.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::booblik::broker::{BrokerOptions, ServerOptions};
use crate::error::{Error, Kind, Result};
use crate::util::nearest;

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) directory: PathBuf,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) topics: Vec<(String, usize)>,
    pub(super) broker: BrokerOptions,
    pub(super) server: ServerOptions,
    /// Between two lines of metrics; none without it.
    pub(super) metrics_interval: Option<Duration>,
    /// Keys of booblik 0.3 that were set and choose between things of which there is one here.
    pub(super) without_effect: Vec<&'static str>,
    /// Topics with keys of their own in the environment, whose names know neither case nor `_` nor `-`.
    pub(super) of_variables: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("data"),
            host: "127.0.0.1".to_owned(),
            port: 9092,
            topics: Vec::new(),
            broker: BrokerOptions::default(),
            server: ServerOptions::default(),
            metrics_interval: Some(Duration::from_secs(10)),
            without_effect: Vec::new(),
            of_variables: BTreeSet::new(),
        }
    }
}

impl Settings {
    /// The same, with the keys of single topics for the topics `known`, of which the environment may spell the names in
    /// its way.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for a key of a topic that there is not.
    pub(super) fn for_topics(mut self, known: &BTreeSet<String>) -> Result<Self> {
        for (name, options) in std::mem::take(&mut self.broker.topics) {
            let name = self.meant(&name, known)?.to_owned();
            self.broker.topics.insert(name, options);
        }
        Ok(self)
    }

    fn meant<'a>(&self, name: &'a str, known: &'a BTreeSet<String>) -> Result<&'a str> {
        let as_variable = |topic: &str| topic.to_ascii_lowercase().replace(['_', '-'], ".");
        let mut spelled = known.iter().filter(|topic| as_variable(topic) == name);
        match (known.contains(name), spelled.next(), spelled.next()) {
            (true, ..) => Ok(name),
            (false, Some(topic), None) if self.of_variables.contains(name) => Ok(topic),
            _ => {
                let meant = nearest(name, known.iter().map(String::as_str));
                let meant = meant.map_or_else(String::new, |topic| format!("; did you mean `{topic}`?"));
                Err(Error::new(Kind::Config, format!("`booblik.topic.{name}…`: there is no such topic{meant}")))
            }
        }
    }

    /// The address to listen on, with brackets where there have to be some.
    pub(super) fn listen(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}
