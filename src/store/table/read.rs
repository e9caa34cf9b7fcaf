//! Reading a table from anywhere: what is stored of the partitions that are here.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;

use super::Table;
use super::open::partition_prefix;
use super::page::{Span, Stretch};
use super::source::OpenTable;
use crate::error::{Error, Kind, Result};
use crate::keys::{self, AsKey, Key, Prefix};

impl<K: Key, V: 'static> Table<K, V> {
    /// The stored value of `key`, or `None`. A disk call for each partition that is here.
    ///
    /// # Errors
    /// [`Kind::Closed`] when no running app has the table; [`Kind::Rebuilding`], worth another try, while a partition
    /// that is here is brought up to date; [`Kind::SeveralPartitions`] when more than one has the key and there is no
    /// [`merge`](Self::merge); [`Kind::Decode`], [`Kind::Corrupt`] naming the damaged file, [`Kind::Store`].
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        let open = self.opened()?;
        let mut found = None;
        for (partition, _) in self.current(&open)? {
            let Some(value) = self.get_in(&open, partition, &key)? else { continue };
            found = Some(match found {
                None => value,
                Some(before) => self.merged(before, value)?,
            });
        }
        Ok(found)
    }

    /// All stored rows of the partitions that are here, in the order of their keys. Rows of one key in several partitions
    /// are merged.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// static SALES: Topic<u32> = Topic::new("sales");
    /// static TOTALS: Table<String, u32> = Table::new("totals");
    ///
    /// fn add(sale: Message<u32>, totals: &mut Rows<String, u32>) -> Result<()> {
    ///     totals.update(sale.key()?, |sum| sum.unwrap_or(0) + sale.value)
    /// }
    ///
    /// let sales = [("tea", 3), ("milk", 2), ("tea", 4), ("sugar", 1)].map(|(name, n)| (name.to_owned(), n));
    /// let run = App::new()
    ///     .conf(Conf::isolated().with("broker", "memory:"))
    ///     .handle(stream::iter(sales), |sale: (String, u32)| sale, &SALES)
    ///     .handle(&SALES, add, ())
    ///     .table(&TOTALS)
    ///     .run();
    /// let handle = run.handle();
    /// let look = async move |_stop| {
    ///     slipstream::testing::until(|| TOTALS.stats().is_ok_and(|stats| stats.stored() == 4)).await;
    ///     let all: Vec<_> = TOTALS.items().iter().collect::<Result<_>>()?;
    ///     assert_eq!(all, [("milk".to_owned(), 2), ("sugar".to_owned(), 1), ("tea".to_owned(), 7)]);
    ///     let last = TOTALS.range(.."t").rev().iter().next().transpose()?;
    ///     assert_eq!(last, Some(("sugar".to_owned(), 1)));
    ///     Ok(handle.trigger())
    /// };
    /// run.beside(look).await
    /// # }).unwrap();
    /// ```
    pub fn items(&self) -> TableScan<K, V> {
        TableScan { table: self.clone(), partition: None, span: Span::default() }
    }

    /// Rows whose keys lie in `range`.
    pub fn range<Q: AsKey<K>>(&self, range: impl RangeBounds<Q>) -> TableScan<K, V> {
        self.items().range(range)
    }

    /// Rows whose keys start with `prefix`: text for text, bytes for bytes, leading elements for tuples.
    pub fn prefix(&self, prefix: impl Prefix<K>) -> TableScan<K, V> {
        self.items().prefix(prefix)
    }

    /// All rows, the last one first.
    pub fn rev(&self) -> TableScan<K, V> {
        self.items().rev()
    }

    /// The partitions whose rows are here and current, with the positions that the rows are as of: the offset to read
    /// next.
    ///
    /// # Errors
    /// [`Kind::Closed`] and [`Kind::Rebuilding`], as [`get`](Self::get).
    pub fn partitions(&self) -> Result<Vec<(i32, i64)>> {
        self.current(&*self.opened()?)
    }

    /// The rows of one partition, of which nothing has to be merged.
    pub fn partition(&self, partition: i32) -> PartitionRows<K, V> {
        PartitionRows { table: self.clone(), partition }
    }

    pub(super) fn current(&self, open: &OpenTable) -> Result<Vec<(i32, i64)>> {
        open.partitions.current().map_err(|error| error.at(self.label()))
    }

    fn get_in(&self, open: &OpenTable, partition: i32, key: &impl AsKey<K>) -> Result<Option<V>> {
        let bytes = keys::with_bytes_behind(&partition_prefix(partition), key, |key| open.rows.get(key))?;
        bytes.map(|bytes| self.decode(&bytes)).transpose()
    }

    fn decode(&self, bytes: &Bytes) -> Result<V> {
        self.codec.decode(bytes).map_err(|error| if error.place().is_some() { error } else { error.at(self.label()) })
    }

    fn merged(&self, a: V, b: V) -> Result<V> {
        let Some(merge) = self.merge else {
            let message = "several partitions have a row of this key: say how to `.merge` them, or key the topic by it";
            return Err(Error::new(Kind::SeveralPartitions, message).at(self.label()));
        };
        Ok(merge(a, b))
    }

    /// The partitions that a scan reads.
    fn scanned(&self, open: &OpenTable, only: Option<i32>) -> Result<Vec<i32>> {
        let here = self.current(open)?.into_iter().map(|(partition, _)| partition);
        match only {
            None => Ok(here.collect()),
            Some(only) => {
                here.into_iter().find(|own| *own == only).map(|own| vec![own]).ok_or_else(|| self.elsewhere(only))
            }
        }
    }

    fn elsewhere(&self, partition: i32) -> Error {
        Error::new(Kind::UnknownTopic, format!("partition {partition} is not here")).at(self.label())
    }
}

/// The rows of one partition of a table; made by [`Table::partition`].
#[derive(Debug)]
pub struct PartitionRows<K, V: 'static> {
    table: Table<K, V>,
    partition: i32,
}

impl<K: Key, V: 'static> PartitionRows<K, V> {
    /// The stored value of `key` in this partition.
    ///
    /// # Errors
    /// As [`Table::get`]; [`Kind::UnknownTopic`] when the partition is not here.
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        let open = self.table.opened()?;
        self.table.scanned(&open, Some(self.partition))?;
        self.table.get_in(&open, self.partition, &key)
    }

    /// All stored rows of this partition, in the order of their keys.
    pub fn items(&self) -> TableScan<K, V> {
        TableScan { table: self.table.clone(), partition: Some(self.partition), span: Span::default() }
    }
}

/// A scan of a table to be run; made by [`Table::items`] and its like.
#[must_use = "a scan does nothing until it is iterated"]
#[derive(Debug)]
pub struct TableScan<K, V: 'static> {
    table: Table<K, V>,
    partition: Option<i32>,
    span: Span,
}

impl<K: Key, V: 'static> TableScan<K, V> {
    /// Only keys in `range`.
    pub fn range<Q: AsKey<K>>(mut self, range: impl RangeBounds<Q>) -> Self {
        self.span = self.span.range(range);
        self
    }

    /// Only keys that start with `prefix`.
    pub fn prefix(mut self, prefix: impl Prefix<K>) -> Self {
        self.span = self.span.prefix(prefix);
        self
    }

    /// Descending.
    pub fn rev(mut self) -> Self {
        self.span = self.span.rev();
        self
    }

    /// Runs it. Each 128 rows of a partition are a disk call; what is stored while it runs may show or not.
    pub fn iter(self) -> TableIter<K, V> {
        let opened = self.table.opened().and_then(|open| {
            let partitions = self.table.scanned(&open, self.partition)?;
            let part = |partition| Part { left: Some(self.span.of_partition(partition)), page: VecDeque::new() };
            Ok((open, partitions.into_iter().map(part).collect()))
        });
        let opened = opened.map_err(Some);
        TableIter { table: self.table, opened, descending: self.span.descending, key: PhantomData }
    }
}

impl<K: Key, V: 'static> IntoIterator for TableScan<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = TableIter<K, V>;

    fn into_iter(self) -> TableIter<K, V> {
        self.iter()
    }
}

/// One partition's share of a scan.
struct Part {
    left: Option<Stretch>,
    page: VecDeque<(Box<[u8]>, Bytes)>,
}

impl Part {
    /// The next key, without its partition.
    fn peek(&mut self, open: &OpenTable) -> Result<Option<&[u8]>> {
        while self.page.is_empty() {
            let Some(mut stretch) = self.left.take() else { return Ok(None) };
            self.page.extend(open.rows.page(&stretch)?);
            if self.page.len() == super::page::PAGE_ROWS
                && let Some((last, _)) = self.page.back()
            {
                stretch.go_on(last);
                self.left = Some(stretch);
            }
        }
        Ok(self.page.front().and_then(|(key, _)| key.get(4..)))
    }
}

/// The rows of a table's scan. An error of the store is the last item: a scan that was cut short never looks like one
/// that ended.
pub struct TableIter<K, V: 'static> {
    table: Table<K, V>,
    /// The error is given once.
    opened: Result<(Arc<OpenTable>, Vec<Part>), Option<Error>>,
    descending: bool,
    key: PhantomData<fn() -> K>,
}

impl<K: Key, V: 'static> TableIter<K, V> {
    fn try_next(&mut self) -> Result<Option<(K, V)>> {
        let (open, parts) = match &mut self.opened {
            Ok((open, parts)) => (open, parts),
            Err(error) => return error.take().map_or(Ok(None), Err),
        };
        let mut next: Option<Vec<u8>> = None;
        for part in parts.iter_mut() {
            let Some(key) = part.peek(open)? else { continue };
            let is_next = next.as_deref().is_none_or(|next| if self.descending { key > next } else { key < next });
            if is_next {
                next = Some(key.to_vec());
            }
        }
        let Some(next) = next else { return Ok(None) };
        let mut found: Option<V> = None;
        for part in parts.iter_mut() {
            if part.peek(open)? != Some(&*next) {
                continue;
            }
            let Some((_, bytes)) = part.page.pop_front() else { continue };
            let value = self.table.decode(&bytes)?;
            found = Some(match found {
                None => value,
                Some(before) => self.table.merged(before, value)?,
            });
        }
        let key = K::decode_last(&next)?;
        Ok(found.map(|value| (key, value)))
    }
}

impl<K: Key, V: 'static> Iterator for TableIter<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.try_next();
        if next.is_err()
            && let Ok((_, parts)) = &mut self.opened
        {
            parts.clear();
        }
        next.transpose()
    }
}

impl<K, V: 'static> std::fmt::Debug for TableIter<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableIter").field("table", &self.table).finish_non_exhaustive()
    }
}
