//! A client that only looks things up: topics, the ends of their logs, offsets by time. It belongs to no group, and is
//! a consumer because a producer's questions may create the topic that they ask about.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::groups::GroupList;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{self, Place, Quiet};
use crate::conf::KafkaConfig;
use crate::error::{Error, Kind, Result};
use crate::topic::begin::Bounds;

/// How long one question may take.
pub(super) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Events that a visit takes from the client's queue, which holds its log.
const EVENTS_PER_CALL: usize = 64;
/// What only makes sense for a member of a group.
const GROUP_PROPERTIES: [&str; 5] =
    ["group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "partition.assignment.strategy"];

pub(super) struct Lookup(BaseConsumer<Quiet>);

impl Lookup {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self> {
        let mut client = client::client_config(config);
        for of_groups in GROUP_PROPERTIES {
            client.remove(of_groups);
        }
        // The true end of the log, which an open transaction hides from a reader of committed records.
        client.set("isolation.level", "read_uncommitted");
        client.set("allow.auto.create.topics", "false");
        client.set("statistics.interval.ms", "0");
        client::create(&client, Quiet::default(), config).map(Self)
    }

    /// The client with its log passed on.
    fn client(&self) -> &BaseConsumer<Quiet> {
        let served = &self.0.context().served;
        served.drain(EVENTS_PER_CALL, || self.0.poll(Duration::ZERO).map(drop), |()| {});
        &self.0
    }

    /// How many partitions a topic has; `None` when there is no such topic.
    pub(super) fn partitions(&self, topic: &str) -> KafkaResult<Option<i32>> {
        let metadata = self.client().fetch_metadata(Some(topic), LOOKUP_TIMEOUT)?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else { return Ok(None) };
        match found.error().map(RDKafkaErrorCode::from) {
            None => Ok(i32::try_from(found.partitions().len()).ok().filter(|count| *count > 0)),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Ok(None),
            Some(code) => Err(KafkaError::MetadataFetch(code)),
        }
    }

    /// The ends of the logs of `places`, in their order.
    pub(super) fn bounds(&self, places: &[Place]) -> KafkaResult<Vec<Bounds>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let low = self.offsets(places, Offset::Beginning)?;
        let high = self.offsets(places, Offset::End)?;
        Ok(low.into_iter().zip(high).map(|(low, high)| Bounds { low, high }).collect())
    }

    /// The first offset whose timestamp is not before `millis`; `None` when there is none.
    pub(super) fn by_time(&self, place: &Place, millis: i64) -> KafkaResult<Option<i64>> {
        let found = self.offsets(std::slice::from_ref(place), Offset::Offset(millis))?;
        Ok(found.first().copied().filter(|offset| *offset >= 0))
    }

    /// librdkafka's look-up by time takes the ends of the log as times as well: one request per broker, not one per
    /// partition and end.
    fn offsets(&self, places: &[Place], at: Offset) -> KafkaResult<Vec<i64>> {
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (topic, partition) in places {
            list.add_partition_offset(topic, *partition, at)?;
        }
        let found = self.client().offsets_for_times(list, LOOKUP_TIMEOUT)?;
        let offset_of = |(topic, partition): &Place| {
            let element = found.find_partition(topic, *partition);
            let element = element.ok_or(KafkaError::OffsetFetch(RDKafkaErrorCode::UnknownPartition))?;
            element.error()?;
            Ok(element.offset().to_raw().unwrap_or(-1))
        };
        places.iter().map(offset_of).collect()
    }

    /// What the broker says of a group.
    pub(super) fn group_list(&self, group: &str) -> KafkaResult<GroupList> {
        self.client().client().fetch_group_list(Some(group), LOOKUP_TIMEOUT)
    }

    /// The identity of the cluster; `None` while no broker has told it.
    pub(super) fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.client().client().fetch_cluster_id(timeout)
    }
}

/// Does a look-up on a thread that may block.
pub(super) async fn blocking<T, F>(lookup: &Arc<Lookup>, doing: &'static str, f: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&Lookup) -> KafkaResult<T> + Send + 'static,
{
    let lookup = Arc::clone(lookup);
    match tokio::task::spawn_blocking(move || f(&lookup)).await {
        Ok(result) => result.map_err(|error| client::to_error(&error, doing)),
        Err(_) => Err(Error::new(Kind::Closed, format!("{doing}: the runtime is shutting down"))),
    }
}
