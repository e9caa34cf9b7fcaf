//! Management of topics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::KafkaBackend;
use super::client::{self, Quiet};
use super::lookup::{self, Lookup};
use crate::conf::KafkaConfig;
use crate::error::{Error, Kind, Result};
use crate::topic::driver::{Manage, TopicDescription};

/// How long the broker may take to create or delete a topic.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a topic that was created a moment ago may be without leaders before that is an error.
const LEADERLESS_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks at such a topic.
const LEADERLESS_INTERVAL: Duration = Duration::from_millis(50);
/// The replication that the broker has as its default.
const BROKER_DEFAULT: i32 = -1;

/// Creates and deletes topics; its client is made when it is first needed.
#[derive(Clone)]
pub(super) struct Admin {
    config: Arc<KafkaConfig>,
    client: Arc<Mutex<Option<Arc<AdminClient<Quiet>>>>>,
}

impl Admin {
    pub(super) fn new(config: Arc<KafkaConfig>) -> Self {
        Self { config, client: Arc::default() }
    }

    pub(super) fn of(backend: &KafkaBackend) -> Self {
        backend.admin.clone()
    }

    pub(super) fn client(&self) -> Result<Arc<AdminClient<Quiet>>> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*slot {
            return Ok(Arc::clone(client));
        }
        let mut properties = client::client_config(&self.config);
        // It writes no records: without this it asks for a producer's identity, which not everyone may have.
        properties.set("enable.idempotence", "false");
        properties.set("statistics.interval.ms", "0");
        // The wrapper never reads this client's log, which would pile up.
        properties.set_log_level(RDKafkaLogLevel::Emerg);
        let client: Arc<AdminClient<Quiet>> = Arc::new(client::create(&properties, Quiet::default(), &self.config)?);
        *slot = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Creates a topic; `Ok` also if someone else just did.
    pub(super) async fn create(&self, topic: &str, partitions: u32) -> Result<()> {
        match self.try_create(topic, partitions).await? {
            Ok(()) | Err(RDKafkaErrorCode::TopicAlreadyExists) => Ok(()),
            Err(code) => Err(refused("cannot create the topic", topic, code)),
        }
    }

    async fn try_create(&self, topic: &str, partitions: u32) -> Result<std::result::Result<(), RDKafkaErrorCode>> {
        let count = i32::try_from(partitions).ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| Error::new(Kind::Config, "a topic has at least one partition").at(topic))?;
        let client = self.client()?;
        let new = NewTopic::new(topic, count, TopicReplication::Fixed(BROKER_DEFAULT));
        outcome(client.create_topics([&new], &options()).await, "cannot create the topic", topic)
    }

    async fn delete(&self, topic: &str) -> Result<()> {
        let client = self.client()?;
        let results = client.delete_topics(&[topic], &options());
        let outcome = outcome(results.await, "cannot delete the topic", topic)?;
        outcome.map_err(|code| refused("cannot delete the topic", topic, code))
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ADMIN_TIMEOUT)).operation_timeout(Some(ADMIN_TIMEOUT))
}

/// What became of the one topic that was asked for.
fn outcome(
    results: std::result::Result<Vec<TopicResult>, KafkaError>,
    doing: &str,
    topic: &str,
) -> Result<std::result::Result<(), RDKafkaErrorCode>> {
    let results = results.map_err(|error| client::to_error(&error, doing).at(topic))?;
    Ok(match results.into_iter().next() {
        Some(Err((_, code))) => Err(code),
        Some(Ok(_)) | None => Ok(()),
    })
}

fn refused(doing: &str, topic: &str, code: RDKafkaErrorCode) -> Error {
    client::by_code(code, format!("{doing}: {code}")).at(topic)
}

pub(super) struct KafkaManage {
    pub(super) admin: Admin,
    pub(super) lookup: Arc<Lookup>,
}

impl Manage for KafkaManage {
    fn create(&self, topic: Arc<str>, partitions: u32) -> BoxFuture<'static, Result<()>> {
        let (admin, lookup) = (self.admin.clone(), Arc::clone(&self.lookup));
        async move {
            let created = admin.try_create(&topic, partitions).await?;
            created.map_err(|code| refused("cannot create the topic", &topic, code))?;
            // The controller has it; brokers learn of it a little later.
            let known = move |lookup: &Lookup| {
                let began = Instant::now();
                while lookup.partitions(&topic)?.is_none() && began.elapsed() < LEADERLESS_TIMEOUT {
                    std::thread::sleep(LEADERLESS_INTERVAL);
                }
                Ok(())
            };
            lookup::blocking(&lookup, "cannot look the topic up", known).await
        }
        .boxed()
    }

    fn delete(&self, topic: Arc<str>) -> BoxFuture<'static, Result<()>> {
        let admin = self.admin.clone();
        async move { admin.delete(&topic).await }.boxed()
    }

    fn describe(&self, topic: Arc<str>) -> BoxFuture<'static, Result<Option<TopicDescription>>> {
        let lookup = Arc::clone(&self.lookup);
        let describe = move |lookup: &Lookup| {
            let began = Instant::now();
            loop {
                match describe(lookup, &topic) {
                    Err(error) if is_settling(&error) && began.elapsed() < LEADERLESS_TIMEOUT => {
                        std::thread::sleep(LEADERLESS_INTERVAL);
                    }
                    described => return described,
                }
            }
        };
        async move { lookup::blocking(&lookup, "cannot describe the topic", describe).await }.boxed()
    }
}

fn describe(lookup: &Lookup, topic: &Arc<str>) -> KafkaResult<Option<TopicDescription>> {
    let Some(count) = lookup.partitions(topic)? else { return Ok(None) };
    let places: Vec<_> = (0..count).map(|partition| (Arc::clone(topic), partition)).collect();
    let bounds = lookup.bounds(&places)?;
    let partitions = bounds.iter().map(|bounds| (bounds.low, bounds.high)).collect();
    Ok(Some(TopicDescription { name: topic.to_string(), partitions }))
}

/// The broker answers "created" before all leaders know that they are.
fn is_settling(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{LeaderNotAvailable, NotLeaderForPartition};
    matches!(client::code_of(error), Some(LeaderNotAvailable | NotLeaderForPartition))
}
