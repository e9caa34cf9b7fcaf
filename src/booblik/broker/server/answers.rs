//! The answers of a connection, in the order of its requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;

use crate::booblik::wire::{ErrorCode, Produced, encode_produced, encode_refusal};

use super::super::done::{Acknowledge, AppendError, Outcome};
use super::super::partition::Partition;

/// Requests that are under way. The writers' threads say what became of them.
#[derive(Debug, Default)]
pub(super) struct Answers {
    state: Mutex<State>,
    changed: AtomicBool,
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
}

#[derive(Debug)]
struct Slot {
    correlation_id: i32,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// The partition is about to say.
    Awaited(Partition),
    Written(Partition, i64),
    Refused(ErrorCode),
}

impl Answers {
    /// A place for the answer of a produce; its number.
    pub(super) fn expect(&self, correlation_id: i32, partition: Partition) -> u64 {
        self.state().push(correlation_id, Answer::Awaited(partition))
    }

    /// The produce that got the last place was not accepted after all.
    pub(super) fn unexpect(&self) {
        self.state().slots.pop_back();
    }

    /// Answers with an error when everything before it is answered.
    pub(super) fn refuse(&self, correlation_id: i32, code: ErrorCode) {
        self.state().push(correlation_id, Answer::Refused(code));
    }

    /// Requests that are not answered.
    pub(super) fn len(&self) -> usize {
        self.state().slots.len()
    }

    /// Writes the answers that are due. Returns how many of them are refusals.
    pub(super) fn write(&self, out: &mut BytesMut) -> u64 {
        let mut state = self.state();
        let mut refusals = 0;
        while let Some(slot) = state.slots.pop_front_if(|slot| !matches!(slot.answer, Answer::Awaited(_))) {
            state.first += 1;
            match slot.answer {
                Answer::Refused(code) => {
                    refusals += 1;
                    encode_refusal(out, slot.correlation_id, code);
                }
                Answer::Written(partition, base_offset) => {
                    let produced = Produced { base_offset, log_end_offset: partition.high_watermark() };
                    encode_produced(out, slot.correlation_id, produced);
                }
                Answer::Awaited(_) => {}
            }
        }
        refusals
    }

    /// Waits until something was said since the last time.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, correlation_id: i32, answer: Answer) -> u64 {
        self.slots.push_back(Slot { correlation_id, answer });
        self.first + self.slots.len() as u64 - 1
    }
}

impl Acknowledge for Answers {
    fn acknowledge(&self, token: u64, outcome: Outcome) {
        let mut state = self.state();
        let at = token.checked_sub(state.first).and_then(|at| usize::try_from(at).ok());
        let Some(slot) = at.and_then(|at| state.slots.get_mut(at)) else { return };
        if let Answer::Awaited(partition) = &slot.answer {
            slot.answer = match outcome {
                Ok(appended) => Answer::Written(partition.clone(), appended.base_offset),
                Err(error) => Answer::Refused(code_of(&error)),
            };
        }
        self.changed.store(true, Ordering::Release);
    }

    fn group_ended(&self) {
        if self.changed.swap(false, Ordering::AcqRel) {
            self.ready.notify_one();
        }
    }
}

/// The number for a batch that was not written.
pub(super) fn code_of(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::TooLarge { .. } => ErrorCode::RecordTooLarge,
        AppendError::Empty => ErrorCode::CorruptRequest,
        // The protocol has one code for what may succeed later. `Full` is waited for and does not come here.
        AppendError::Full | AppendError::Unavailable { .. } | AppendError::Closed => ErrorCode::PartitionUnavailable,
    }
}
