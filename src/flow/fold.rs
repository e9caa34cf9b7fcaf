//! How tables come to handlers and lanes, whatever keeps their rows: handlers borrow rows of the lane for a call, lanes
//! tell what was read and learn up to where it is stored.

#![cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "tables ask for it"))]

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Env, UnitCx};
use crate::error::Result;
use crate::message::Record;

/// Makes what one source's tables have in common.
pub(crate) type FoldMaker = fn(&FoldPlan, &Env) -> Result<Arc<dyn SourceFold>>;

/// A declared table without its types.
#[derive(Clone)]
pub struct TableRef {
    pub(crate) name: Arc<str>,
    /// Equal for all clones of one declaration.
    pub(crate) id: usize,
    pub(crate) table: Arc<dyn Any + Send + Sync>,
    pub(crate) fold: FoldMaker,
}

impl fmt::Debug for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableRef").field(&self.name).finish()
    }
}

/// What a handler asks of its source beside messages: the tables that it writes, none for most.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandlerTables {
    pub handler: Arc<str>,
    pub tables: Vec<TableRef>,
    /// Its outputs carry ids, which are made of the message's place in a log.
    pub has_ids: bool,
    /// It reads the source through a pipe.
    pub is_piped: bool,
}

/// A source and all its handlers.
pub(crate) struct FoldPlan<'a> {
    /// As the broker knows it.
    pub source: Arc<str>,
    pub handlers: &'a [HandlerTables],
}

/// Where the tables of a broker's topics are kept.
pub(crate) struct FoldHome {
    pub dir: PathBuf,
    /// Kept as long as the store is open.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Something that a handler borrows for one call: the rows of a table.
pub trait Lent: Sized + Send + 'static {
    /// What is found when the app is built.
    type Prepared: Send + Sync + 'static;

    /// Finds it.
    ///
    /// # Errors
    /// [`Kind::Build`](crate::Kind::Build) when the table is of other types.
    fn prepare(table: &TableRef, handler: &str) -> Result<Self::Prepared>;

    /// What is lent for one message.
    ///
    /// # Errors
    /// When the lane has no such rows.
    fn lend(prepared: &Self::Prepared, unit: &UnitCx) -> Result<Self>;
}

/// A declaration of a table that lends `S`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of `{S}`",
    label = "not the table that the handler takes rows of",
    note = "the n-th `&mut Rows<K, V>` of a handler is lent by the n-th table of `table = …`, with the same `K` and `V`"
)]
pub trait TableOf<S: Lent> {
    /// The table without its types.
    fn table_ref(&self) -> TableRef;
}

impl<T: TableOf<S>, S: Lent> TableOf<S> for &T {
    fn table_ref(&self) -> TableRef {
        (**self).table_ref()
    }
}

/// The rows that one lane lends, by the id of their table.
pub(crate) type LaneTables = Arc<[(usize, Arc<dyn Any + Send + Sync>)]>;

/// The ends of a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEnds {
    /// The oldest offset that it has.
    pub low: i64,
    /// The offset that the next record gets.
    pub high: i64,
}

/// The tables of one source in one run.
pub(crate) trait SourceFold: Send + Sync {
    /// Opens the store and compares what it says of itself with what is declared. Blocks.
    fn open(&self, home: FoldHome) -> Result<()>;

    /// Whether each handler, in the order of the plan, belongs to a group of tables, and to which.
    fn groups(&self) -> Arc<[Option<usize>]>;

    /// Where reading of a partition begins.
    fn from(&self, partition: i32, committed: Option<i64>, ends: LogEnds) -> i64;

    /// Takes a partition. Blocks; called before anything of it is dispatched.
    ///
    /// Errors: the log is not the one that the rows were made of, or does not have what is missing in them.
    fn begin(&self, partition: i32, committed: Option<i64>, log: &[LogEnds]) -> Result<Box<dyn LaneFold>>;

    /// Whether the rows of a partition are what they were when its position was committed.
    fn is_current(&self, partition: i32) -> bool;

    /// The partition is no longer ours: its rows are not current from now on.
    fn leave(&self, partition: i32);
}

/// The rows of one source's tables in one lane, and what of them is stored.
///
/// Writes are gathered in the open generation. A sealed one is written, with the position behind its last unit, when all
/// outputs of its units are acknowledged; its units are done by that.
pub(crate) trait LaneFold: Send {
    fn tables(&self) -> LaneTables;

    /// The first offset that somebody needs.
    fn begins_at(&self) -> i64;

    /// Whoever counts what is done has heard of what is before this offset, and is to hear of what is known from there on.
    fn tell_from(&mut self, offset: i64);

    /// Looks at the next record.
    ///
    /// Errors: it is not the record that was read there before.
    fn admit(&mut self, record: &Record, unit: &mut UnitCx) -> Result<Admitted>;

    /// A unit has ended with all its handlers: its writes belong to the open generation. `end` is the number of the next
    /// one.
    fn end_unit(&mut self, end: u64) -> Result<()>;

    /// Whether no further unit may begin before something is stored.
    fn is_full(&self) -> bool;

    /// Ends the open generation, as far as there is one.
    fn seal(&mut self) -> Result<()>;

    /// Begins and ends writing; the outputs of all units before `acked` are acknowledged. Registers the task for the end
    /// of the write and for the time to seal.
    fn poll(&mut self, acked: u64, cx: &mut Context<'_>) -> Result<()>;

    /// Seals, and is ready when everything before `acked` is stored that can be.
    fn poll_last(&mut self, acked: u64, cx: &mut Context<'_>) -> Poll<Result<()>>;

    /// The position that may be committed when all units before `acked` are acknowledged.
    fn committable(&self, acked: i64) -> i64;

    /// Units that are done, and those that are not stored.
    fn progress(&self) -> (u64, u64);
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// It goes to the handlers.
    Taken,
    /// It is known, and nobody is to get it.
    Known,
    /// The same, and whoever counts what is done has not heard of it. `is_sure`: what was read so far is of the log that the
    /// rows were made of.
    Untold { is_sure: bool },
    /// The log is another one: the rows are to be built anew, from its beginning.
    StartOver,
}

/// What is known of a partition's past: who is not called again, and whose outputs do not go out again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Past {
    /// Everything below is done for handlers without tables, and was acknowledged by the sinks of all.
    pub committed: i64,
    /// By group: everything below is in its rows; and whether its outputs go out again.
    pub groups: Vec<(i64, Outputs)>,
}

/// What happens to outputs below the group's committed position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    Muted,
    Repeated,
}

impl Past {
    /// From here on there is nothing to tell apart.
    pub(crate) fn end(&self) -> i64 {
        self.groups.iter().map(|(from, _)| *from).fold(self.committed, i64::max)
    }

    /// Whether a handler of `group` is called for the record at `offset`, and with what outputs.
    pub(crate) fn call(&self, offset: i64, group: Option<usize>) -> Option<Outputs> {
        let below = offset < self.committed;
        let Some(group) = group else { return (!below).then_some(Outputs::Repeated) };
        let (from, outputs) = self.groups.get(group).copied()?;
        let muted = below && outputs == Outputs::Muted;
        (offset >= from).then_some(if muted { Outputs::Muted } else { Outputs::Repeated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_the_commit_only_tables_are_filled_and_their_outputs_are_muted() {
        let past = Past { committed: 10, groups: vec![(4, Outputs::Muted), (12, Outputs::Repeated)] };
        assert_eq!(past.end(), 12);
        assert_eq!(past.call(3, Some(0)), None);
        assert_eq!(past.call(4, Some(0)), Some(Outputs::Muted));
        assert_eq!(past.call(10, Some(0)), Some(Outputs::Repeated));
        assert_eq!(past.call(9, None), None);
        assert_eq!(past.call(10, None), Some(Outputs::Repeated));
        assert_eq!(past.call(11, Some(1)), None, "its rows have it");
    }

    #[test]
    fn outputs_are_repeated_where_that_is_asked_for() {
        let past = Past { committed: 10, groups: vec![(0, Outputs::Repeated)] };
        assert_eq!(past.call(3, Some(0)), Some(Outputs::Repeated));
    }
}
