//! What waits in front of a partition's writer.

use std::cell::RefCell;
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

thread_local! {
    /// Where a thread encodes a batch before it adds it to a queue.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

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
    fn add(&mut self, records: u32, acks: Acks, done: Done) {
        self.forced |= acks == Acks::Forced;
        self.records += records as usize;
        self.batches.push(Batch { records, done });
    }

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

    /// Takes a batch, unless there is no room. `records` is asked for only then. Returns when a writer has to be called
    /// for, if it was not yet, or only for later.
    ///
    /// Callers encode beside each other and wait for each other only to add what they have. So each thread may add one
    /// batch more than there was room for.
    ///
    /// # Errors
    ///
    /// Nothing was taken then, and `done` is not told.
    pub(super) fn push<R: AsRef<[u8]>>(
        &self,
        records: &mut Option<impl IntoIterator<Item = R>>,
        acks: Acks,
        done: &mut Option<Done>,
        turn: Turn,
    ) -> Result<Turn, AppendError> {
        self.state().admit(self.limits)?;
        let Some(records) = records.take() else { return Err(AppendError::Empty) };
        let mut stored = SCRATCH.take();
        let count = encode_all(records, self.limits.record_bytes, &mut stored);
        let call = count.and_then(|count| self.add(&stored, count, acks, done, turn));
        stored.clear();
        stored.shrink_to(KEPT_BYTES);
        SCRATCH.set(stored);
        call
    }

    fn add(
        &self,
        stored: &[u8],
        count: u32,
        acks: Acks,
        done: &mut Option<Done>,
        turn: Turn,
    ) -> Result<Turn, AppendError> {
        let mut state = self.state();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        let mut done = done.take().unwrap_or(Done::Nobody);
        let unawaited = if acks == Acks::None { std::mem::replace(&mut done, Done::Nobody) } else { Done::Nobody };
        state.group.stored.extend_from_slice(stored);
        state.group.add(count, acks, done);
        let turn = if state.group.stored.len() >= GATHERED_BYTES { Turn::Now } else { turn };
        let call = state.want(turn);
        drop(state);
        drop(unawaited.tell(Ok(Appended::UNKNOWN)));
        Ok(call)
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

    /// Whether a batch may be added.
    fn admit(&self, limits: Limits) -> Result<(), AppendError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let is_full = self.group.stored.len() >= limits.bytes || self.group.records >= limits.records;
        if is_full { Err(AppendError::Full) } else { Ok(()) }
    }
}

/// Writes the stored form of `records` to `stored`, which is empty. Returns how many they are.
fn encode_all<R: AsRef<[u8]>>(
    records: impl IntoIterator<Item = R>,
    max_bytes: usize,
    stored: &mut Vec<u8>,
) -> Result<u32, AppendError> {
    let mut count = 0;
    for record in records {
        let payload = record.as_ref();
        check(payload.len(), max_bytes, stored.len())?;
        encode(payload, stored);
        count += 1;
    }
    if count == 0 { Err(AppendError::Empty) } else { Ok(count) }
}

/// Whether a payload of `bytes` may follow `before` bytes of its batch.
fn check(bytes: usize, max_bytes: usize, before: usize) -> Result<(), AppendError> {
    if bytes == 0 {
        return Err(AppendError::Empty);
    }
    if bytes > max_bytes {
        return Err(AppendError::TooLarge { max_bytes });
    }
    if before + bytes + HEADER_BYTES > MAX_BATCH_BYTES {
        return Err(AppendError::TooLarge { max_bytes: MAX_BATCH_BYTES });
    }
    Ok(())
}
