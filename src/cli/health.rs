//! `slipstream broker health`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::client::Broker;
use crate::error::Result;

/// How long connecting and the answer may take together.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection alone says nothing: the operating system accepts it for a process that hangs.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    broker: Broker,
}

pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let asked = async {
        let client = arguments.broker.connect_within(LIMIT).await?;
        Ok(client.topics().await?)
    };
    let address = arguments.broker.address();
    let late = || crate::Error::new(crate::Kind::Timeout, "no answer within 5 s").at(format!("broker {address}"));
    let topics = tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(|_| Err(late()))?;
    let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
    super::say(&format!("ok: {} topics, {partitions} partitions", topics.len()))?;
    Ok(ExitCode::SUCCESS)
}
