//! What the commands share that are clients.

use std::time::Duration;

use clap::Args;

use crate::booblik::client::{Client, ClientError};
use crate::booblik::wire::{ErrorCode, PartitionInfo, TopicInfo, is_topic_name};
use crate::error::{Error, Kind, Result};

/// The environment variable that names the broker, as in the conformance kit of the protocol.
const VARIABLE: &str = "BOOBLIK_BROKER";
const DEFAULT: &str = "127.0.0.1:9092";

/// Which broker is meant.
#[derive(Debug, Args)]
pub(super) struct Broker {
    /// The broker: host:port, or [address]:port; otherwise `BOOBLIK_BROKER`, otherwise 127.0.0.1:9092.
    #[arg(long, short, value_name = "HOST:PORT")]
    broker: Option<String>,
}

impl Broker {
    pub(super) fn address(&self) -> String {
        let named = self.broker.clone().or_else(|| std::env::var(VARIABLE).ok());
        named.filter(|address| !address.trim().is_empty()).unwrap_or_else(|| DEFAULT.to_owned())
    }

    pub(super) async fn connect(&self) -> Result<Client> {
        let address = self.address();
        let connected = Client::connect(&address).await;
        connected.map_err(|error| {
            let error = Error::from(error);
            if error.place().is_none() { error.at(format!("broker {address}")) } else { error }
        })
    }

    /// With all answers within `limit`.
    pub(super) async fn connect_within(&self, limit: Duration) -> Result<Client> {
        let builder = Client::builder(self.address()).connect_timeout(limit).request_timeout(limit);
        Ok(builder.connect().await?)
    }

    /// Says which broker an error is about that does not say where it happened.
    pub(super) fn placed(&self, error: Error) -> Error {
        if error.place().is_none() { error.at(format!("broker {}", self.address())) } else { error }
    }
}

/// Refuses what cannot be the name of a topic, without asking a broker.
pub(super) fn check_name(topic: &str) -> Result<()> {
    if is_topic_name(topic) {
        return Ok(());
    }
    let text = "no topic can have this name: 1 to 249 of letters, digits, `.`, `_` and `-`";
    Err(Error::new(Kind::Config, text).at(format!("topic {topic:?}")))
}

/// Says which topics there are when `topic` is none of them.
pub(super) async fn explained(client: &Client, topic: &str, error: ClientError) -> Error {
    if error.code() != Some(ErrorCode::UnknownTopicOrPartition) {
        return error.into();
    }
    let there: Vec<String> = client.topics().await.unwrap_or_default().into_iter().map(|topic| topic.name).collect();
    let there = if there.is_empty() { "it has none".to_owned() } else { format!("it has {}", there.join(", ")) };
    Error::new(Kind::UnknownTopic, format!("broker {} has no such topic; {there}", client.address()))
        .at(format!("topic {topic}"))
}

/// The partitions of a topic, or those of them that are named.
pub(super) async fn partitions(client: &Client, topic: &str, named: &[i32]) -> Result<Vec<PartitionInfo>> {
    check_name(topic)?;
    let described: Vec<TopicInfo> = match client.metadata(&[topic]).await {
        Err(error) => return Err(explained(client, topic, error).await),
        described => described?,
    };
    let mut found: Vec<_> = described.into_iter().flat_map(|topic| topic.partitions).collect();
    if let Some(missing) = named.iter().find(|number| found.iter().all(|info| info.partition != **number)) {
        let text = format!("there is no partition {missing}; it has {}", found.len());
        return Err(Error::new(Kind::UnknownTopic, text).at(format!("topic {topic}")));
    }
    if !named.is_empty() {
        found.retain(|info| named.contains(&info.partition));
    }
    Ok(found)
}
