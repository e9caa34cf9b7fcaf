//! Scans of a handler over its rows: what is stored, what is not yet, and what it has just written itself.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::page::{PAGE_ROWS, Span, Stretch};
use super::rows::Rows;
use crate::error::Result;
use crate::keys::{AsKey, Key, Prefix};

impl<K: Key, V: Clone + Send + 'static> Rows<K, V> {
    /// All rows of the partition, in the order of their keys. A handler that scans sees its own writes.
    ///
    /// ```
    /// # use slipstream::Rows;
    /// let mut seen: Rows<(String, u32), u8> = Rows::alone();
    /// for hour in 0..10 {
    ///     seen.put(("JFK", hour), 1)?;
    /// }
    /// seen.put(("LGA", 3), 2)?;
    /// seen.delete(("JFK", 7))?;
    /// let last = seen.prefix(("JFK",)).range(..("JFK", 9)).rev().iter().next().transpose()?;
    /// assert_eq!(last, Some((("JFK".to_owned(), 8), 1)));
    /// assert_eq!(seen.items().iter().count(), 10);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn items(&self) -> RowsScan<'_, K, V> {
        RowsScan { rows: self, span: Span::default() }
    }

    /// Rows whose keys lie in `range`.
    pub fn range<Q: AsKey<K>>(&self, range: impl RangeBounds<Q>) -> RowsScan<'_, K, V> {
        self.items().range(range)
    }

    /// Rows whose keys start with `prefix`: text for text, bytes for bytes, leading elements for tuples.
    pub fn prefix(&self, prefix: impl Prefix<K>) -> RowsScan<'_, K, V> {
        self.items().prefix(prefix)
    }

    /// All rows, the last one first.
    pub fn rev(&self) -> RowsScan<'_, K, V> {
        self.items().rev()
    }
}

/// A scan of a handler to be run; made by [`Rows::items`] and its like.
#[must_use = "a scan does nothing until it is iterated"]
pub struct RowsScan<'a, K, V: 'static> {
    rows: &'a Rows<K, V>,
    span: Span,
}

impl<'a, K: Key, V: Clone + Send + 'static> RowsScan<'a, K, V> {
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

    /// Runs it. Each 128 rows are a disk call.
    pub fn iter(self) -> RowsIter<'a, K, V> {
        let partition = i32::from_be_bytes(self.rows.lane.prefix);
        RowsIter {
            rows: self.rows,
            stretch: Some(self.span.of_partition(partition)),
            page: VecDeque::new(),
            key: PhantomData,
        }
    }
}

impl<'a, K: Key, V: Clone + Send + 'static> IntoIterator for RowsScan<'a, K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = RowsIter<'a, K, V>;

    fn into_iter(self) -> RowsIter<'a, K, V> {
        self.iter()
    }
}

/// The rows of a handler's scan. An error of the store is the last item: a scan that was cut short never looks like one
/// that ended.
pub struct RowsIter<'a, K, V: 'static> {
    rows: &'a Rows<K, V>,
    /// What is left; `None` when the page is the last.
    stretch: Option<Stretch>,
    page: VecDeque<(Box<[u8]>, V)>,
    key: PhantomData<fn() -> K>,
}

impl<K: Key, V: Clone + Send + 'static> RowsIter<'_, K, V> {
    /// Reads the next page, which may be empty though it is not the last.
    fn read(&mut self, mut stretch: Stretch) -> Result<()> {
        if stretch.is_empty() {
            return Ok(());
        }
        let lane = &self.rows.lane;
        let mut hot = lane.hot();
        let stored = hot.behind().as_ref().map(|rows| rows.page(&stretch)).transpose()?.unwrap_or_default();
        let bounds = (stretch.lower.as_ref().map(Vec::as_slice), stretch.upper.as_ref().map(Vec::as_slice));
        let unstored = hot.unstored(bounds.0, bounds.1, stretch.descending, PAGE_ROWS);
        let is_whole = stored.len() < PAGE_ROWS;
        let stored_to = stored.last().filter(|_| !is_whole).map(|(key, _)| key.clone());
        let horizon = nearest(stretch.descending, stored_to, unstored.horizon);
        let mut found: BTreeMap<Box<[u8]>, V> = BTreeMap::new();
        for (key, bytes) in stored {
            if !unstored.rows.contains_key(&key) {
                let value = lane.codec.decode(&bytes).map_err(|error| match hot.behind() {
                    Some(rows) => rows.here(error),
                    None => error,
                })?;
                found.insert(key, value);
            }
        }
        found.extend(unstored.rows.into_iter().filter_map(|(key, value)| Some((key, value?))));
        if let Some(horizon) = &horizon {
            found.retain(|key, _| if stretch.descending { key >= horizon } else { key <= horizon });
        }
        if stretch.descending {
            self.page.extend(found.into_iter().rev());
        } else {
            self.page.extend(found);
        }
        self.stretch = horizon.map(|horizon| {
            stretch.go_on(&horizon);
            stretch
        });
        Ok(())
    }
}

/// Up to where both sides are known.
fn nearest(descending: bool, a: Option<Box<[u8]>>, b: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if descending { a.max(b) } else { a.min(b) }),
        (a, b) => a.or(b),
    }
}

impl<K: Key, V: Clone + Send + 'static> Iterator for RowsIter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.page.pop_front() {
                return Some(K::decode_last(key.get(4..).unwrap_or_default()).map(|key| (key, value)));
            }
            let stretch = self.stretch.take()?;
            if let Err(error) = self.read(stretch) {
                return Some(Err(error));
            }
        }
    }
}

impl<K: Key, V: Clone + Send + 'static> std::iter::FusedIterator for RowsIter<'_, K, V> {}

impl<K, V: 'static> std::fmt::Debug for RowsScan<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsScan").field("span", &self.span).finish_non_exhaustive()
    }
}

impl<K, V: 'static> std::fmt::Debug for RowsIter<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsIter").field("left", &self.stretch).finish_non_exhaustive()
    }
}
