//! Requests to append.

use std::sync::Arc;

use bytes::Bytes;

use crate::booblik::wire::{Acks, ErrorCode, Produce};

use super::super::done::{Acknowledge, AppendError, Done};
use super::super::partition::Partition;
use super::answers::code_of;
use super::counts::count;
use super::session::{Session, Waiting};

impl Session {
    /// Hands the records over to their partition. The answer is given when the partition says so, in its turn.
    pub(super) fn produce(&mut self, frame: &Bytes, correlation_id: i32, produce: &Produce<'_>) {
        let is_silent = produce.acks == Acks::None;
        let Some(partition) = self.find(produce.topic, produce.partition) else {
            return self.refuse(correlation_id, ErrorCode::UnknownTopicOrPartition, is_silent);
        };
        if produce.records.largest_bytes() > partition.max_record_bytes() {
            return self.refuse(correlation_id, ErrorCode::RecordTooLarge, is_silent);
        }
        let done = if is_silent { Done::Nobody } else { self.expect(correlation_id, &partition) };
        let Err(error) = partition.submit(produce.records.iter(), produce.acks, done) else {
            count(&self.shared.counts.produces);
            return self.touch(partition);
        };
        if !is_silent {
            self.answers.unexpect();
        }
        if error == AppendError::Full {
            self.waiting = Some(Waiting::Room(frame.clone(), partition));
        } else {
            self.refuse(correlation_id, code_of(&error), is_silent);
        }
    }

    fn expect(&self, correlation_id: i32, partition: &Partition) -> Done {
        let token = self.answers.expect(correlation_id, partition.clone());
        Done::Token(Arc::clone(&self.answers) as Arc<dyn Acknowledge>, token)
    }

    fn touch(&mut self, partition: Partition) {
        if !self.touched.iter().any(|touched| Arc::ptr_eq(&touched.0, &partition.0)) {
            self.touched.push(partition);
        }
    }
}
