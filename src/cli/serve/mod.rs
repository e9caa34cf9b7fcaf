//! `slipstream broker serve`.
//!
//! | file | what is in it |
//! |---|---|
//! | `sources` | what file, environment and flags say, by key; which of them wins |
//! | `file` | a configuration file as keys and values |
//! | `keys` | all keys: what each takes and what it sets |
//! | `settings` | what a broker is started with |
//! | `metrics` | the line that says how it does |

mod file;
mod keys;
mod metrics;
mod settings;
mod sources;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::booblik::broker::{Broker, Server, topics_in};
use crate::error::{Error, Kind, Result};
use metrics::Meter;
use settings::Settings;
use sources::Sources;

/// How long the end waits for someone to read of it.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Flags win over the environment (`BOOBLIK_…`), that over the file, that over the defaults.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The data directory; created if it is not there.
    #[arg(long, short, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where to listen: host:port, or [address]:port. Port 0 takes a free one.
    #[arg(long, short, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// A topic and its number of partitions; repeat the flag for more. Those in the directory are served anyway.
    #[arg(long, short, value_name = "NAME:PARTITIONS")]
    topic: Vec<String>,
    /// A configuration file: TOML, or properties if its name ends so.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    crate::log::init();
    let sources = Sources::of(&arguments, std::env::vars_os())?;
    let settings = sources.settings()?;
    let settings = settings.clone().for_topics(&topics(&settings)?)?;
    settings
        .without_effect
        .iter()
        .for_each(|key| tracing::warn!("{key} has no effect: there is one way to do it here"));
    // From here on a signal ends it gently, also while it is reading its log.
    let mut stop = Stop::listen()?;
    tell(["booblik starting".to_owned()].into_iter().chain(sources.lines()).collect::<Vec<_>>().join("\n")).await;
    let (broker, server) = tokio::select! {
        started = start(&settings) => started?,
        () = stop.signal() => return Ok(stopped().await),
    };
    let meter = Meter::new(&broker, &server);
    tokio::select! {
        () = async { announce(&broker, &server).await; meter.run(settings.metrics_interval).await } => {}
        () = stop.signal() => {}
    }
    tokio::select! {
        closed = drain(broker, server) => closed?,
        () = stop.signal() => return Err(Error::new(Kind::Abandoned, "a second signal came before all was written")),
    }
    Ok(stopped().await)
}

async fn stopped() -> ExitCode {
    let _it_is_over_anyway = tokio::time::timeout(LAST_WORD, tell("booblik stopped".to_owned())).await;
    ExitCode::SUCCESS
}

/// The names of the topics that there will be.
fn topics(settings: &Settings) -> Result<BTreeSet<String>> {
    let there = if settings.directory.is_dir() { topics_in(&settings.directory)? } else { BTreeMap::new() };
    Ok(there.into_keys().chain(settings.topics.iter().map(|(name, _)| name.clone())).collect())
}

async fn start(settings: &Settings) -> Result<(Broker, Server)> {
    let broker = Broker::open(&settings.directory, settings.broker.clone()).await?;
    for (topic, partitions) in &settings.topics {
        let has = broker.ensure_topic(topic, *partitions).await?;
        if has != *partitions {
            tracing::warn!("topic {topic} keeps the {has} partitions that it was created with, not {partitions}");
        }
    }
    let server = broker.listen(&settings.listen(), settings.server.clone()).await?;
    Ok((broker, server))
}

/// Says that it is ready, and what it serves, in the words of booblik 0.3, for which scripts wait.
async fn announce(broker: &Broker, server: &Server) {
    let partitions = broker.metrics();
    let lines = partitions.iter().map(|of| format!("\n  {}", metrics::partition(of)));
    tell(format!("booblik listening on {}{}", server.local_addr(), lines.collect::<String>())).await;
}

/// Says a line to whoever reads it. That nobody does is no reason to stop serving, and one who does not read on keeps
/// only this waiting.
async fn tell(line: String) {
    let _nobody_reads_it = tokio::task::spawn_blocking(move || super::say(&line)).await;
}

/// Answers what was accepted, then brings everything to the disk.
async fn drain(broker: Broker, server: Server) -> Result<()> {
    tracing::info!("stopping: answering what was accepted");
    server.shutdown().await;
    broker.close().await
}

/// SIGTERM and SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn signal(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
