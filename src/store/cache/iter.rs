//! A scan that is running: a RocksDB iterator that keeps its store open, and checks how it ended.

use std::sync::Arc;

use bytes::Bytes;
use rocksdb::{DB, DBRawIteratorWithThreadMode, ReadOptions};

use super::clock::living_len;
use super::open::Open;
use super::retention::Retention;
use super::snapshot::Pin;
use crate::codec::Codec;
use crate::error::Result;

/// The rows that a scan reads.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) open: Arc<Open>,
    pub(crate) family: Option<Arc<str>>,
    pub(crate) pin: Option<Arc<Pin>>,
}

/// Where a scan begins and ends, in bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) prefix: Option<Vec<u8>>,
    pub(crate) order: Order,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Ascending,
    Descending,
}

impl Bounds {
    fn reads(&self) -> ReadOptions {
        let mut reads = ReadOptions::default();
        if let Some(prefix) = &self.prefix {
            reads.set_iterate_lower_bound(prefix.clone());
            if let Some(end) = after_prefix(prefix) {
                reads.set_iterate_upper_bound(end);
            }
        }
        reads
    }
}

/// The first key after all those that start with `prefix`; `None` when nothing sorts behind them.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let (last, head) =
        prefix.iter().rposition(|byte| *byte != u8::MAX).and_then(|at| prefix.get(..=at)?.split_last())?;
    let mut end = head.to_vec();
    end.push(last + 1);
    Some(end)
}

/// RocksDB's iterator with what it reads from. The iterator is dropped first.
struct Cursor {
    rows: DBRawIteratorWithThreadMode<'static, DB>,
    view: View,
}

impl Cursor {
    fn new(view: View, bounds: &Bounds) -> Result<(Self, Retention)> {
        let mut reads = bounds.reads();
        if let Some(pin) = &view.pin {
            pin.apply(&mut reads);
        }
        let place = view.open.place(view.family.as_deref())?;
        let (rows, retention) = (place.iterate(reads), place.retention);
        drop(place);
        // SAFETY: `rows` borrows the `DB` inside the `Arc<Open>`, whose address does not change and which `view` keeps
        // alive; `rows` is declared before `view` and so dropped before it, it is private, and nothing hands out what
        // it borrows for longer than a call.
        #[expect(unsafe_code, reason = "an iterator that owns its store cannot be written without")]
        let rows = unsafe {
            std::mem::transmute::<DBRawIteratorWithThreadMode<'_, DB>, DBRawIteratorWithThreadMode<'static, DB>>(rows)
        };
        Ok((Self { rows, view }, retention))
    }

    fn start(&mut self, bounds: &Bounds) {
        match (bounds.order, &bounds.from) {
            (Order::Ascending, Some(from)) => self.rows.seek(from),
            (Order::Ascending, None) => self.rows.seek_to_first(),
            (Order::Descending, Some(from)) => self.rows.seek_for_prev(from),
            (Order::Descending, None) => self.rows.seek_to_last(),
        }
    }

    fn step(&mut self, order: Order) {
        match order {
            Order::Ascending => self.rows.next(),
            Order::Descending => self.rows.prev(),
        }
    }
}

/// How one row becomes what a scan yields.
pub(crate) type ReadRow<V, T> = fn(&dyn Codec<V>, &[u8], &[u8]) -> Result<T>;

/// The rows of a scan, as they were when it began.
///
/// An error of the store is the last item: a scan that was cut short never looks like one that ended. A row that
/// cannot be decoded is an error too, and the next rows follow.
pub struct Iter<V: 'static, T> {
    cursor: Result<Option<Cursor>, Option<crate::Error>>,
    bounds: Bounds,
    retention: Retention,
    started: bool,
    codec: &'static dyn Codec<V>,
    read: ReadRow<V, T>,
}

impl<V: 'static, T> Iter<V, T> {
    pub(crate) fn new(view: Result<View>, bounds: Bounds, codec: &'static dyn Codec<V>, read: ReadRow<V, T>) -> Self {
        let (cursor, retention) = match view.and_then(|view| Cursor::new(view, &bounds)) {
            Ok((cursor, retention)) => (Ok(Some(cursor)), retention),
            Err(error) => (Err(Some(error)), Retention::Keep),
        };
        Self { cursor, bounds, retention, started: false, codec, read }
    }

    /// The scan is over: how did it end?
    fn end(&mut self) -> Option<Result<T>> {
        let Ok(Some(cursor)) = std::mem::replace(&mut self.cursor, Ok(None)) else { return None };
        let ended = cursor.rows.status();
        let open = &cursor.view.open;
        if matches!(self.retention, Retention::Fifo { .. }) {
            open.watch_evictions();
        }
        ended.err().map(|error| Err(open.failed(error)))
    }
}

impl<V: 'static, T> Iterator for Iter<V, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let cursor = match &mut self.cursor {
                Ok(Some(cursor)) => cursor,
                Ok(None) => return None,
                Err(error) => return error.take().map(Err),
            };
            if std::mem::replace(&mut self.started, true) {
                cursor.step(self.bounds.order);
            } else {
                cursor.start(&self.bounds);
            }
            let Some((key, row)) = cursor.rows.item() else { return self.end() };
            let value = match self.retention {
                Retention::Ttl(time) => {
                    let now = cursor.view.open.clock().now_millis();
                    let Some(value) = living_len(row, time, now).and_then(|len| row.get(..len)) else { continue };
                    value
                }
                _ => row,
            };
            return Some((self.read)(self.codec, key, value));
        }
    }
}

impl<V: 'static, T> std::iter::FusedIterator for Iter<V, T> {}

impl<V: 'static, T> std::fmt::Debug for Iter<V, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

pub(crate) fn read_value<V: 'static>(codec: &dyn Codec<V>, value: &[u8]) -> Result<V> {
    codec.decode(&Bytes::copy_from_slice(value))
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn what_follows_a_prefix_skips_bytes_that_cannot_grow() {
        assert_eq!(after_prefix(b"ab").unwrap(), b"ac");
        assert_eq!(after_prefix(&[1, 0xFF, 0xFF]).unwrap(), [2]);
        assert_eq!(after_prefix(&[0xFF]), None);
        assert_eq!(after_prefix(b""), None);
    }
}
