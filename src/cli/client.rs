//! What the commands share that are clients.

use std::time::Duration;

use clap::Args;

use crate::booblik::client::Client;
use crate::booblik::wire::{PartitionInfo, TopicInfo};
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
}

/// The partitions of a topic, or those of them that are named.
pub(super) async fn partitions(client: &Client, topic: &str, named: &[i32]) -> Result<Vec<PartitionInfo>> {
    let described: Vec<TopicInfo> = client.metadata(&[topic]).await?;
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
