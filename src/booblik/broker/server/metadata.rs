//! Requests to describe topics.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::booblik::wire::{ErrorCode, Names, PartitionInfo, TopicInfo, encode_described};

use super::super::partition::Partition;
use super::super::topics::Served;
use super::counts::count;
use super::session::Session;

impl Session {
    /// Answers with the topics that were asked for, by name, each once. One that is missing fails them all.
    pub(super) fn metadata(&mut self, correlation_id: i32, names: Names<'_>) {
        count(&self.shared.counts.metadata);
        let served = self.shared.broker.0.topics().served();
        let Some(topics) = describe(&served, names) else {
            return self.refuse(correlation_id, ErrorCode::UnknownTopicOrPartition, false);
        };
        if encode_described(&mut self.out, correlation_id, &topics).is_err() {
            tracing::warn!("the topics do not fit into an answer");
            self.refuse(correlation_id, ErrorCode::CorruptRequest, false);
        }
    }
}

fn describe(served: &Served, names: Names<'_>) -> Option<Vec<TopicInfo>> {
    if names.is_empty() {
        return Some(served.iter().map(|(name, partitions)| topic(name, partitions)).collect());
    }
    let mut wanted: BTreeMap<&str, &Arc<[Partition]>> = BTreeMap::new();
    for name in names.iter() {
        wanted.insert(name, served.get(name)?);
    }
    Some(wanted.into_iter().map(|(name, partitions)| topic(name, partitions)).collect())
}

fn topic(name: &str, partitions: &[Partition]) -> TopicInfo {
    let info = |partition: &Partition| PartitionInfo {
        partition: partition.number(),
        log_start_offset: partition.log_start(),
        high_watermark: partition.high_watermark(),
    };
    TopicInfo { name: name.to_owned(), partitions: partitions.iter().map(info).collect() }
}
