//! What waits in front of a partition's writer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::booblik::log::{HEADER_BYTES, encode};
use crate::booblik::wire::Acks;

use super::done::{AppendError, Appended, Done, Outcome};

/// The most that one batch may hold, as it is stored.
pub(super) const MAX_BATCH_BYTES: usize = 16 << 20;

/// What is written at once, whoever waits for it.
const GATHERED_BYTES: usize = 64 << 10;

/// A buffer that grew beyond this is given back when there is nothing more to write.
const KEPT_BYTES: usize = 64 << 10;

/// Batches in the order in which they will be written, already in their stored form.
#[derive(Debug)]
pub(super) struct Queue {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) bytes: usize,
    pub(super) records: usize,
    pub(super) record_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    group: Group,
    /// A buffer that was written and can be filled again.
    spare: Vec<u8>,
    /// Why nothing is accepted.
    refusal: Option<AppendError>,
    /// When someone will come to write.
    called: Turn,
    /// When someone should come for what has been taken in since the last group was.
    wanted: Turn,
}

/// When a writer will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Turn {
    /// None was called.
    #[default]
    Never,
    /// After a while.
    Soon,
    /// As soon as there is a thread.
    Now,
}

/// What is written together.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) stored: Vec<u8>,
    pub(super) batches: Vec<Batch>,
    pub(super) records: usize,
    /// Someone waits for stable storage.
    pub(super) forced: bool,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: u32,
    pub(super) done: Done,
}

impl Group {
    /// Tells everyone what became of their records, and then that all have been told. `outcome` gets the number of
    /// records of each batch, in order.
    pub(super) fn tell(&mut self, mut outcome: impl FnMut(u32) -> Outcome) {
        let told: Vec<_> = self.batches.drain(..).filter_map(|batch| batch.done.tell(outcome(batch.records))).collect();
        told.iter().for_each(|acknowledge| acknowledge.group_ended());
    }

    /// Tells everyone that nothing was written.
    pub(super) fn fail(&mut self, error: &AppendError) {
        self.tell(|_| Err(error.clone()));
    }
}

/// A group that is dropped, because its thread panicked, was not written as far as anyone can tell.
impl Drop for Group {
    fn drop(&mut self) {
        self.fail(&AppendError::Closed);
    }
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Takes a batch, unless there is no room. `records` is asked for only then. Returns when a writer has
    /// to be called for, if it was not yet, or only for later.
    ///
    /// # Errors
    ///
    /// Nothing was taken then, and `done` is not told.
    pub(super) fn push<R: AsRef<[u8]>>(
        &self,
        records: &mut Option<impl IntoIterator<Item = R>>,
        ack: Acks,
        done: &mut Option<Done>,
        turn: Turn,
    ) -> Result<Turn, AppendError> {
        let mut state = self.state();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        if state.group.stored.len() >= self.limits.bytes || state.group.records >= self.limits.records {
            return Err(AppendError::Full);
        }
        let Some(records) = records.take() else { return Err(AppendError::Empty) };
        let count = state.encode(records, self.limits.record_bytes)?;
        state.add(count, ack, done.take().unwrap_or(Done::Nobody));
        let turn = if state.group.stored.len() >= GATHERED_BYTES { Turn::Now } else { turn };
        Ok(state.want(turn))
    }

    /// Says that a writer is wanted now. Returns whether it has to be called.
    pub(super) fn hurry(&self) -> bool {
        let mut state = self.state();
        !state.group.batches.is_empty() && state.want(Turn::Now) == Turn::Now
    }

    /// Everything that waits. Room is free from now on. The one who takes it comes back with [`finish`](Self::finish).
    pub(super) fn take(&self) -> Group {
        let mut state = self.state();
        (state.called, state.wanted) = (Turn::Now, Turn::Never);
        let group = std::mem::take(&mut state.group);
        state.group.stored = std::mem::take(&mut state.spare);
        group
    }

    /// The writer of `group` has finished. Returns when it has to come again.
    pub(super) fn finish(&self, mut group: Group) -> Turn {
        let mut state = self.state();
        let mut buffer = std::mem::take(&mut group.stored);
        buffer.clear();
        if state.wanted > Turn::Never || buffer.capacity() <= KEPT_BYTES {
            state.spare = buffer;
        }
        state.called = state.wanted;
        state.wanted
    }

    /// Accepts nothing from now on; everything again with `None`.
    pub(super) fn refuse(&self, error: Option<AppendError>) {
        let mut state = self.state();
        if state.refusal != Some(AppendError::Closed) {
            state.refusal = error;
        }
    }

    /// Why nothing is accepted, if so.
    pub(super) fn refusal(&self) -> Option<AppendError> {
        self.state().refusal.clone()
    }

    /// Batches and bytes that wait.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let state = self.state();
        (state.group.batches.len(), state.group.stored.len())
    }

    /// Whether a batch would be taken.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state();
        state.group.stored.len() < self.limits.bytes && state.group.records < self.limits.records
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns when a writer has to be called for: `Never` if one comes in time anyway.
    fn want(&mut self, turn: Turn) -> Turn {
        self.wanted = self.wanted.max(turn);
        if turn <= self.called {
            return Turn::Never;
        }
        self.called = turn;
        turn
    }

    /// Adds `records` to the group's bytes, all or none. Returns how many.
    fn encode<R: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = R>,
        max_bytes: usize,
    ) -> Result<u32, AppendError> {
        let mut adding = Adding { before: self.group.stored.len(), stored: &mut self.group.stored, keep: false };
        let mut count = 0;
        for record in records {
            adding.add(record.as_ref(), max_bytes)?;
            count += 1;
        }
        if count == 0 {
            return Err(AppendError::Empty);
        }
        adding.keep = true;
        Ok(count)
    }

    fn add(&mut self, records: u32, ack: Acks, done: Done) {
        let done = if ack == Acks::None {
            drop(done.tell(Ok(Appended::UNKNOWN)));
            Done::Nobody
        } else {
            done
        };
        self.group.forced |= ack == Acks::Forced;
        self.group.records += records as usize;
        self.group.batches.push(Batch { records, done });
    }
}

/// Bytes that are taken out again unless the batch as a whole is good, also when the caller's iterator panics.
struct Adding<'a> {
    before: usize,
    stored: &'a mut Vec<u8>,
    keep: bool,
}

impl Adding<'_> {
    fn add(&mut self, payload: &[u8], max_bytes: usize) -> Result<(), AppendError> {
        if payload.is_empty() {
            return Err(AppendError::Empty);
        }
        if payload.len() > max_bytes {
            return Err(AppendError::TooLarge { max_bytes });
        }
        if self.stored.len() - self.before + payload.len() + HEADER_BYTES > MAX_BATCH_BYTES {
            return Err(AppendError::TooLarge { max_bytes: MAX_BATCH_BYTES });
        }
        encode(payload, self.stored);
        Ok(())
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.stored.truncate(self.before);
        }
    }
}
