//! `slipstream broker topics`.

use std::process::ExitCode;

use clap::Args;

use super::client::{self, Broker};
use crate::booblik::wire::TopicInfo;
use crate::error::Result;

/// One line per partition: topic, partition, the first offset that is stored, the next one to be given.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    broker: Broker,
    /// These topics only; all of them without names.
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let client = arguments.broker.connect().await?;
    arguments.topics.iter().try_for_each(|topic| client::check_name(topic))?;
    let described = match client.metadata(&arguments.topics).await {
        Err(error) => return Err(client::explained(&client, &arguments.topics.join(", "), error).await),
        described => described?,
    };
    table(&described).iter().try_for_each(|line| super::say(line))?;
    Ok(ExitCode::SUCCESS)
}

fn table(topics: &[TopicInfo]) -> Vec<String> {
    let widest = topics.iter().map(|topic| topic.name.len()).chain([5]).max().unwrap_or_default();
    let line = |name: &str, partition: &str, start: &str, end: &str| {
        format!("{name:widest$}  {partition:>9}  {start:>12}  {end:>12}")
    };
    let rows = topics.iter().flat_map(|topic| topic.partitions.iter().map(move |info| (topic, info)));
    let rows = rows.map(|(topic, info)| {
        let [start, end] = [info.log_start_offset, info.high_watermark].map(|offset| offset.to_string());
        line(&topic.name, &info.partition.to_string(), &start, &end)
    });
    [line("topic", "partition", "start", "end")].into_iter().chain(rows).collect()
}
