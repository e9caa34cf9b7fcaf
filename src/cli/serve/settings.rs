//! What a broker is started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::booblik::broker::{BrokerOptions, ServerOptions};

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
        }
    }
}

impl Settings {
    /// The address to listen on, with brackets where there have to be some.
    pub(super) fn listen(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}
