//! `booblik://`: a log that a broker keeps, over its protocol.

mod reader;
mod sending;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use self::writer::RemoteWriter;
use super::Counts;
use super::driver::LogDriver;
use super::format::Format;
use crate::booblik::client::{Address, Client, ClientError, Resend};
use crate::booblik::wire::{ErrorCode, PartitionInfo};
use crate::conf::{Durability, Encoding, TopicSettings};
use crate::error::{Error, Kind, Result};
use crate::topic::driver::{Backend, Driver, EventSender, Home, Manage, Subscription, TopicDescription, Writer};

/// How long a request may take, connecting included. What is not answered by then is asked again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// An app's use of a broker.
pub(crate) struct RemoteBackend {
    remote: Arc<Remote>,
}

/// A broker and how it is called.
struct Remote {
    client: Client,
    /// As in messages.
    url: String,
    identity: Arc<str>,
    counts: Counts,
}

impl RemoteBackend {
    /// The broker at `host` and `port`; its positions are kept under `id`, or under its address.
    ///
    /// Errors: `Kind::Config` for what is no address.
    pub(crate) fn new(url: String, host: &str, port: u16, id: Option<&str>) -> Result<Self> {
        let bracketed = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let address: Address = bracketed.parse()?;
        let client = Client::builder(address.to_string())
            .request_timeout(REQUEST_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .backoff(BACKOFF_FIRST, BACKOFF_MAX)
            .resend(Resend::Always)
            .build()?;
        let identity = id.map_or_else(|| file_name(host, port), str::to_owned).into();
        Ok(Self { remote: Arc::new(Remote { client, url, identity, counts: Counts::default() }) })
    }

    fn writing(&self, encoding: Option<Encoding>, durability: Durability) -> Arc<dyn Writer> {
        let format = Format::new(encoding, Encoding::Plain);
        Arc::new(RemoteWriter::new(Arc::clone(&self.remote), format, durability))
    }
}

/// Host and port as a part of a file's name.
fn file_name(host: &str, port: u16) -> String {
    let plain: String = host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("{plain}-{port}")
}

impl Remote {
    /// The partitions of a topic; `None` when there is no such topic.
    async fn describe(&self, topic: &str) -> Result<Option<Vec<PartitionInfo>>> {
        match self.client.metadata(&[topic]).await {
            Ok(found) => Ok(found.into_iter().find(|info| info.name == topic).map(|info| info.partitions)),
            Err(ClientError::Refused { code: ErrorCode::UnknownTopicOrPartition, .. }) => Ok(None),
            Err(error) => Err(Error::from(error).at(self.url.clone())),
        }
    }

    /// The same, without the client's patience when the broker has just become unreachable.
    async fn describe_or_say(&self, topic: &str) -> Result<Option<Vec<PartitionInfo>>> {
        let mut away = self.client.away();
        let unreachable = async {
            loop {
                if away.changed().await.is_err() {
                    return std::future::pending().await;
                }
                if let Some(why) = &*away.borrow_and_update() {
                    return format!("the broker cannot be reached: {why}");
                }
            }
        };
        tokio::select! {
            biased;
            described = self.describe(topic) => described,
            why = unreachable => Err(Error::new(Kind::Broker, why).at(self.url.clone()).retryable()),
        }
    }

    /// What is said of a topic that is missing.
    fn missing(&self, topic: &str) -> String {
        let url = &self.url;
        format!(
            "topic {topic} does not exist on {url}, and the protocol has no way to create it: add it where the broker \
             runs"
        )
    }
}

impl Backend for RemoteBackend {
    fn subscribe(&self, subscription: Subscription, events: EventSender) -> Result<Arc<dyn Driver>> {
        Ok(Arc::new(LogDriver::start(Arc::clone(&self.remote), subscription, events)?))
    }

    fn writer(&self) -> Result<Arc<dyn Writer>> {
        Ok(self.writing(None, Durability::default()))
    }

    fn topic_writer(&self, settings: &TopicSettings) -> Result<Arc<dyn Writer>> {
        Ok(self.writing(settings.encoding(), settings.durability()))
    }

    fn manage(&self) -> Result<Arc<dyn Manage>> {
        Ok(Arc::new(RemoteManage(Arc::clone(&self.remote))))
    }

    fn has_groups(&self) -> bool {
        false
    }

    fn own_positions(&self) -> BoxFuture<'static, Result<Home>> {
        ready(Ok(Home::Named(format!("booblik-{}", self.remote.identity)))).boxed()
    }
}

struct RemoteManage(Arc<Remote>);

impl RemoteManage {
    fn cannot(&self, what: &str, topic: &str) -> Error {
        let text = format!("the protocol has no way to {what} a topic: do it where the broker {} runs", self.0.url);
        Error::new(Kind::Unsupported, text).at(topic)
    }
}

impl Manage for RemoteManage {
    fn create(&self, topic: Arc<str>, _partitions: u32) -> BoxFuture<'static, Result<()>> {
        ready(Err(self.cannot("create", &topic))).boxed()
    }

    fn delete(&self, topic: Arc<str>) -> BoxFuture<'static, Result<()>> {
        ready(Err(self.cannot("delete", &topic))).boxed()
    }

    fn describe(&self, topic: Arc<str>) -> BoxFuture<'static, Result<Option<TopicDescription>>> {
        let remote = Arc::clone(&self.0);
        async move {
            let Some(partitions) = remote.describe(&topic).await? else { return Ok(None) };
            let ends: BTreeMap<i32, (i64, i64)> =
                partitions.iter().map(|own| (own.partition, (own.log_start_offset, own.high_watermark))).collect();
            Ok(Some(TopicDescription { name: topic.to_string(), partitions: ends.into_values().collect() }))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_makes_a_file_name_that_is_its_own() {
        assert_eq!(file_name("log.local", 9092), "log.local-9092");
        assert_eq!(file_name("fe80::1%eth0", 1), "fe80--1-eth0-1");
    }
}
