//! `slipstream broker health`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::client::{self, Broker};
use crate::booblik::wire::Acks;
use crate::error::Result;

/// How long connecting and the answer may take together.
const LIMIT: Duration = Duration::from_secs(5);
/// What is written to find out whether that is possible. A small record would fit the block that the last one began.
const RECORD: [u8; 4096] = [b'.'; 4096];

/// A connection alone says nothing: the operating system accepts it for a process that hangs.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    broker: Broker,
    /// Also appends a record to each partition of this topic, which is best one of its own: a broker that cannot write,
    /// because its disk is full, answers everything else as always.
    #[arg(long, value_name = "TOPIC")]
    write: Option<String>,
}

pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let asked = async {
        let client = arguments.broker.connect_within(LIMIT).await?;
        let topics = client.topics().await?;
        if let Some(topic) = &arguments.write {
            for info in client::partitions(&client, topic, &[]).await? {
                client.produce(topic, info.partition, Acks::Forced, &[RECORD]).await?;
            }
        }
        Ok(topics)
    };
    let address = arguments.broker.address();
    let late = || crate::Error::new(crate::Kind::Timeout, "no answer within 5 s").at(format!("broker {address}"));
    let topics = tokio::time::timeout(LIMIT, asked)
        .await
        .unwrap_or_else(|_| Err(late()))
        .map_err(|error| arguments.broker.placed(error))?;
    let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
    super::say(&format!("ok: {} topics, {partitions} partitions", topics.len()))?;
    Ok(ExitCode::SUCCESS)
}
