//! librdkafka's callbacks of a consumer. They run inside `poll`, so on the reading thread; what they learn waits in an
//! [`Inbox`] until that thread's next turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;

use super::client::{self, Place, Served};

pub(super) type Consumer = BaseConsumer<Context>;

/// What the group wants of this member.
pub(super) enum Rebalance {
    Assign(Vec<Place>),
    Revoke { partitions: Vec<Place>, lost: bool },
}

#[derive(Default)]
pub(super) struct Inbox(Mutex<Arrived>);

#[derive(Default)]
struct Arrived {
    rebalances: VecDeque<Rebalance>,
    commit: Option<KafkaResult<()>>,
    errors: VecDeque<(RDKafkaErrorCode, String)>,
    closing: bool,
}

/// Errors that may wait; the first ones say more than the later ones.
const ERRORS_MAX: usize = 64;

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_rebalance(&self) -> Option<Rebalance> {
        self.lock().rebalances.pop_front()
    }

    /// How the commit that was on its way ended.
    pub(super) fn end_of_commit(&self) -> Option<KafkaResult<()>> {
        self.lock().commit.take()
    }

    pub(super) fn commit_ended(&self, result: KafkaResult<()>) {
        self.lock().commit = Some(result);
    }

    pub(super) fn next_error(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.lock().errors.pop_front()
    }

    /// Partitions to be taken although no group gave them.
    pub(super) fn take_without_group(&self, partitions: Vec<Place>) {
        self.lock().rebalances.push_back(Rebalance::Assign(partitions));
    }

    /// From here on the group gets what it wants at once, and nobody is asked.
    pub(super) fn close(&self) {
        self.lock().closing = true;
    }

    pub(super) fn add_error(&self, code: RDKafkaErrorCode, reason: String) {
        let mut arrived = self.lock();
        if arrived.errors.len() < ERRORS_MAX {
            arrived.errors.push_back((code, reason));
        }
    }
}

pub(super) struct Context {
    pub inbox: Arc<Inbox>,
    pub served: Served,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.served.one();
        client::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            self.inbox.add_error(code, reason.to_owned());
        }
    }

    fn stats_raw(&self, _: &[u8]) {
        self.served.one();
    }
}

impl ConsumerContext for Context {
    /// The group waits for the answer to this, and only for this member: nothing is done here, so that the partitions
    /// that stay go on while others drain.
    fn rebalance(&self, consumer: &Consumer, code: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        self.served.one();
        let lost = consumer.assignment_lost();
        let is_assign = code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        let mut arrived = self.inbox.lock();
        if arrived.closing {
            drop(arrived);
            let answer = if is_assign { assign } else { unassign };
            // The consumer ends: there is nothing to do about an error.
            let _ending = answer(consumer, partitions);
            return;
        }
        let partitions = places(partitions);
        arrived.rebalances.push_back(if is_assign {
            Rebalance::Assign(partitions)
        } else {
            Rebalance::Revoke { partitions, lost }
        });
    }
}

pub(super) fn places(list: &TopicPartitionList) -> Vec<Place> {
    list.elements().iter().map(|element| (Arc::from(element.topic()), element.partition())).collect()
}

/// Takes partitions, in the way that the group's protocol asks for.
pub(super) fn assign(consumer: &Consumer, list: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Eager => consumer.assign(list),
        RebalanceProtocol::Cooperative | RebalanceProtocol::None => consumer.incremental_assign(list),
    }
}

/// Gives partitions up, in the way that the group's protocol asks for.
pub(super) fn unassign(consumer: &Consumer, list: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Eager => consumer.unassign(),
        RebalanceProtocol::Cooperative | RebalanceProtocol::None => consumer.incremental_unassign(list),
    }
}
