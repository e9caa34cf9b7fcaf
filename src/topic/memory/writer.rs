//! Writing: a record is in its log, and acknowledged, when the call returns.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use chrono::Utc;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::broker::Broker;
use super::state::Written;
use crate::error::Result;
use crate::topic::driver::{Ack, Outgoing, Receipt, Refusal, Refused, Writer};

pub(super) struct MemoryWriter(Arc<Broker>);

impl MemoryWriter {
    pub(super) fn new(broker: Arc<Broker>) -> Self {
        Self(broker)
    }
}

impl Writer for MemoryWriter {
    fn write(&self, record: Outgoing, ack: Ack) -> std::result::Result<(), Refused> {
        let now = Utc::now().timestamp_millis();
        // Before the attempt: room that is made meanwhile only means one attempt more.
        let refusal = self.0.room.refusal();
        match self.0.with(|state| state.append(record, now)) {
            Written::At(receipt) => {
                acknowledge(ack, receipt);
                Ok(())
            }
            Written::Full(record) => Err(Refused::Full(record, ack, refusal)),
            Written::Failed(error) => Err(Refused::Failed(error, ack)),
        }
    }

    fn poll_room(&self, since: Refusal, cx: &Context<'_>) -> Poll<()> {
        self.0.room.poll(since, cx)
    }

    fn flush(&self, _limit: Duration) -> BoxFuture<'static, Result<()>> {
        ready(Ok(())).boxed()
    }

    fn prepare(&self, topic: Arc<str>, partitions: Option<u32>) -> BoxFuture<'static, Result<()>> {
        ready(self.0.with(|state| state.ensure(&topic, partitions))).boxed()
    }
}

fn acknowledge(ack: Ack, receipt: Receipt) {
    match ack {
        Ack::Unit(guard) => guard.ok(),
        // A caller that has gone does not want to know.
        Ack::Reply(reply) => drop(reply.send(Ok(receipt))),
    }
}
