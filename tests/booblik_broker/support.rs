//! A broker for one test.

use std::path::PathBuf;
use std::time::Duration;

use slipstream::booblik::broker::{Broker, BrokerOptions, Server, ServerOptions, TopicOptions};
use tempfile::TempDir;

use super::peer::Peer;

/// A broker with a topic `t` of two partitions and a server.
pub struct Serving {
    pub broker: Broker,
    pub server: Server,
    pub directory: TempDir,
}

pub async fn serving() -> Serving {
    serving_with(BrokerOptions::default(), ServerOptions::default()).await
}

pub async fn serving_with(options: BrokerOptions, server: ServerOptions) -> Serving {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), options).await.unwrap();
    broker.ensure_topic("t", 2).await.unwrap();
    let server = broker.listen("127.0.0.1:0", server).await.unwrap();
    Serving { broker, server, directory }
}

/// Segments of 1,024 bytes.
pub fn small_segments() -> BrokerOptions {
    let topic = TopicOptions { segment_bytes: 1024, ..TopicOptions::default() };
    BrokerOptions { default: topic, ..BrokerOptions::default() }
}

impl Serving {
    pub async fn peer(&self) -> Peer {
        Peer::connect(self.server.local_addr()).await
    }

    /// A file of the partition `t-0`.
    pub fn segment(&self, base: i64) -> PathBuf {
        self.directory.path().join(format!("t-0/{base:020}.log"))
    }

    /// Stops server and broker; what is left is the directory.
    pub async fn stop(self) -> TempDir {
        self.server.shutdown().await;
        self.broker.close().await.unwrap();
        self.directory
    }
}

/// Waits until `what` holds.
pub async fn until(what: impl Fn() -> bool) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(tokio::time::Instant::now() < limit, "it does not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
