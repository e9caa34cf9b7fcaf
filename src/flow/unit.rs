//! What a stage knows of the unit of work in its hands: where it came from, and how to hold it open.

use std::sync::Arc;

use super::fold::{LaneTables, Outputs, Past};
use super::tap::View;
use super::{Env, Guard, Tracker};
use crate::error::Error;

/// Of a carried message's number: room for offsets, below its partition.
const CARRIED_OFFSET_BITS: u32 = 44;

/// The unit of work in the hands of a lane.
///
/// Sinks that acknowledge later take a guard from it; handlers see it as [`Unit`](crate::Unit).
pub struct UnitCx {
    tracker: Tracker,
    carried: Option<Guard>,
    source: Arc<str>,
    partition: i32,
    offset: i64,
    /// The place is of another source than the one that is read here.
    is_carried: bool,
    key_hash: Option<u64>,
    refused: bool,
    views: Vec<View>,
    bound: Option<Arc<str>>,
    tables: Option<LaneTables>,
    past: Option<Arc<Past>>,
    muted: bool,
    output: u32,
    outage: u64,
}

impl UnitCx {
    pub(crate) fn new(source: Arc<str>, max_in_flight: u32) -> Self {
        let tracker = Tracker::new(max_in_flight);
        Self {
            tracker,
            carried: None,
            source,
            partition: 0,
            offset: -1,
            is_carried: false,
            key_hash: None,
            refused: false,
            views: Vec::new(),
            bound: None,
            tables: None,
            past: None,
            muted: false,
            output: 0,
            outage: 0,
        }
    }

    /// Holds the unit open until the guard ends.
    #[inline]
    pub fn guard(&mut self) -> Guard {
        match &self.carried {
            Some(guard) => guard.clone(),
            None => self.tracker.guard(),
        }
    }

    /// The name of the source.
    #[inline]
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// The partition; 0 when the source has none.
    #[inline]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offset; -1 when the source has none.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// How errors and logs name it.
    pub fn place(&self) -> String {
        if self.offset < 0 {
            return self.source.to_string();
        }
        crate::message::place(&self.source, self.partition, self.offset)
    }

    #[inline]
    pub(crate) fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    /// Ends the run with the error that a lane failed with. True when the lane is to wait, as in a drain, for what it
    /// dispatched before: not when a sink failed late and that is the cause of all.
    pub(crate) fn fail_run(&self, error: Error, env: &Env) -> bool {
        let is_late = self.tracker.has_failed();
        let is_cause = env.fail_as_first(error);
        !(is_late && is_cause)
    }

    /// A pipe that has ended meanwhile did not take the message.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Whether a pipe did not take the message; asked once.
    pub(crate) fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    #[inline]
    pub(crate) fn set_place(&mut self, partition: i32, offset: i64) {
        self.partition = partition;
        self.offset = offset;
    }

    /// Of a message that is carried on: the place of the one that it came from, in another source.
    #[inline]
    pub(crate) fn set_origin(&mut self, partition: i32, offset: i64) {
        self.set_place(partition, offset);
        self.is_carried = true;
    }

    /// The offset in the source that is read here; of a message that is carried on, which has none there, a number below
    /// -1 for the message that it came from. -1 when nothing tells.
    #[inline]
    pub(crate) fn own_offset(&self) -> i64 {
        if !self.is_carried || self.offset < 0 {
            return self.offset;
        }
        -2 - (((i64::from(self.partition) << CARRIED_OFFSET_BITS) | self.offset) & (i64::MAX >> 1))
    }

    /// The rows that handlers borrow here.
    pub(crate) fn set_tables(&mut self, tables: LaneTables) {
        self.tables = Some(tables);
    }

    /// The rows of a table in this lane, by its id.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "tables ask for it"))]
    #[inline]
    pub(crate) fn table(&self, id: usize) -> Option<&Arc<dyn std::any::Any + Send + Sync>> {
        self.tables.as_ref()?.iter().find(|(own, _)| *own == id).map(|(_, rows)| rows)
    }

    /// What this lane's past decides for the units to come; `None` when it is over.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "tables ask for it"))]
    pub(crate) fn set_past(&mut self, past: Option<Arc<Past>>) {
        self.past = past;
        self.muted = false;
    }

    /// Whether a past decides who is called.
    #[inline]
    pub(crate) fn has_past(&self) -> bool {
        self.past.is_some()
    }

    /// Whether a handler of `group` is called for this unit; its outputs are muted if need be.
    pub(crate) fn enter(&mut self, group: Option<usize>) -> bool {
        let Some(past) = &self.past else { return true };
        let call = past.call(self.offset, group);
        self.muted = call == Some(Outputs::Muted);
        call.is_some()
    }

    /// Whether outputs were acknowledged before and do not go out again.
    #[inline]
    pub(crate) fn is_muted(&self) -> bool {
        self.muted
    }

    /// Which output of the handler is on its way, from 0; 0 also between handlers.
    #[inline]
    pub(crate) fn output(&self) -> u32 {
        self.output
    }

    /// How often the partition was sent back before, to correct what was handled too early.
    #[inline]
    pub(crate) fn outage(&self) -> u64 {
        self.outage
    }

    pub(crate) fn set_outage(&mut self, outage: u64) {
        self.outage = outage;
    }

    /// Which output comes next.
    #[inline]
    pub(crate) fn set_output(&mut self, number: u32) {
        self.output = number;
    }

    /// The sinks have accepted an output.
    #[inline]
    pub(crate) fn next_output(&mut self) {
        self.output = self.output.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn key_hash(&self) -> Option<u64> {
        self.key_hash
    }

    #[inline]
    pub(crate) fn set_key_hash(&mut self, hash: Option<u64>) {
        self.key_hash = hash;
    }

    /// The unit is one that another lane tracks.
    #[inline]
    pub(crate) fn carry(&mut self, guard: Guard) {
        self.carried = Some(guard);
    }

    /// What taps say of the message in hand, in the order in which they watch its source.
    pub(crate) fn views(&mut self) -> &mut Vec<View> {
        &mut self.views
    }

    /// The same for whoever only looks.
    pub(crate) fn seen(&self) -> &[View] {
        &self.views
    }

    /// The checkpoint that the handler at work is bound to, if it is bound to one.
    pub(crate) fn bound(&self) -> Option<&Arc<str>> {
        self.bound.as_ref()
    }

    pub(crate) fn bound_mut(&mut self) -> &mut Option<Arc<str>> {
        &mut self.bound
    }

    /// Ends the carried unit's part here; `None` if nothing was carried.
    #[inline]
    pub(crate) fn put_down(&mut self) -> Option<Guard> {
        self.carried.take()
    }
}
