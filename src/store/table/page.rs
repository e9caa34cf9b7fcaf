//! Stored rows, a page at a time: a scan holds nothing of the store between two pages.

use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use rocksdb::ReadOptions;

use super::open::{Family, partition_prefix};
use crate::codec;
use crate::error::Result;
use crate::keys::{AsKey, Key, Prefix};
use crate::store::cache::iter::after_prefix;

/// Rows that are read at once.
pub(super) const PAGE_ROWS: usize = 128;

/// Which keys, in bytes without the partition, and in which order.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
    prefix: Option<Vec<u8>>,
    pub(super) descending: bool,
}

impl Default for Span {
    fn default() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded, prefix: None, descending: false }
    }
}

impl Span {
    pub(super) fn range<K: Key, Q: AsKey<K>>(mut self, range: impl RangeBounds<Q>) -> Self {
        let encode = |bound: Bound<&Q>| {
            bound.map(|key| {
                let mut bytes = Vec::new();
                key.encode_last(&mut bytes);
                bytes
            })
        };
        (self.from, self.to) = (encode(range.start_bound()), encode(range.end_bound()));
        self
    }

    pub(super) fn prefix<K: Key>(mut self, prefix: impl Prefix<K>) -> Self {
        let mut bytes = Vec::new();
        prefix.encode_prefix(&mut bytes);
        self.prefix = Some(bytes);
        self
    }

    pub(super) fn rev(mut self) -> Self {
        self.descending = true;
        self
    }

    /// The bounds of the rows of one partition.
    pub(super) fn of_partition(&self, partition: i32) -> Stretch {
        let front = partition_prefix(partition);
        let whole = |bytes: Vec<u8>| [&front[..], &bytes].concat();
        let prefix = self.prefix.clone().map_or_else(|| front.to_vec(), whole);
        let behind = after_prefix(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Stretch {
            lower: higher(self.from.clone().map(whole), Bound::Included(prefix)),
            upper: lower(self.to.clone().map(whole), behind),
            descending: self.descending,
        }
    }
}

/// The stricter of two lower bounds.
fn higher(a: Bound<Vec<u8>>, b: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match (&a, &b) {
        (Bound::Unbounded, _) => b,
        (_, Bound::Unbounded) => a,
        (Bound::Included(one) | Bound::Excluded(one), Bound::Included(two) | Bound::Excluded(two)) => {
            if one >= two {
                a
            } else {
                b
            }
        }
    }
}

/// The stricter of two upper bounds.
fn lower(a: Bound<Vec<u8>>, b: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match (&a, &b) {
        (Bound::Unbounded, _) => b,
        (_, Bound::Unbounded) => a,
        (Bound::Included(one) | Bound::Excluded(one), Bound::Included(two) | Bound::Excluded(two)) => {
            if one < two {
                a
            } else {
                b
            }
        }
    }
}

/// Whether a key lies between two bounds.
pub(super) fn lies_between(key: &[u8], lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let is_behind = match lower {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let is_before = match upper {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    is_behind && is_before
}

/// What is left of a scan in one partition, in whole keys.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) lower: Bound<Vec<u8>>,
    pub(super) upper: Bound<Vec<u8>>,
    pub(super) descending: bool,
}

impl Stretch {
    /// Whether no key can lie in it.
    pub(super) fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            _ => false,
        }
    }

    /// Goes on behind `key`.
    pub(super) fn go_on(&mut self, key: &[u8]) {
        let bound = Bound::Excluded(key.to_vec());
        if self.descending {
            self.upper = bound;
        } else {
            self.lower = bound;
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        lies_between(key, self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice))
    }
}

impl Family {
    /// The first rows of a stretch, in its order: at most [`PAGE_ROWS`]; fewer when there are no more.
    ///
    /// Errors: those of the store; a page that was cut short never looks like the last one.
    pub(super) fn page(&self, stretch: &Stretch) -> Result<Vec<(Box<[u8]>, Bytes)>> {
        let mut page = Vec::new();
        if stretch.is_empty() {
            return Ok(page);
        }
        let mut reads = ReadOptions::default();
        if let Bound::Included(from) | Bound::Excluded(from) = &stretch.lower {
            reads.set_iterate_lower_bound(from.clone());
        }
        if let Bound::Excluded(to) = &stretch.upper {
            reads.set_iterate_upper_bound(to.clone());
        }
        let store = self.store();
        let mut rows = store.db().raw_iterator_cf_opt(&self.handle()?, reads);
        match (stretch.descending, &stretch.lower, &stretch.upper) {
            (true, _, Bound::Included(to) | Bound::Excluded(to)) => rows.seek_for_prev(to),
            (true, ..) => rows.seek_to_last(),
            (false, Bound::Included(from) | Bound::Excluded(from), _) => rows.seek(from),
            (false, ..) => rows.seek_to_first(),
        }
        while let Some((key, value)) = rows.item() {
            if stretch.has(key) {
                page.push((Box::from(key), codec::copied(value)));
            } else if !page.is_empty() {
                break;
            }
            if page.len() == PAGE_ROWS {
                return Ok(page);
            }
            if stretch.descending {
                rows.prev();
            } else {
                rows.next();
            }
        }
        rows.status().map_err(|error| store.failed(error))?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_the_keys_of_its_partition_only() {
        let all = Span::default().of_partition(1);
        assert!(all.has(&[0, 0, 0, 1]) && all.has(&[0, 0, 0, 1, 255]) && !all.has(&[0, 0, 0, 2]));
        let span = Span::default().range::<u8, u8>(3..=5).of_partition(0);
        assert!(span.has(&[0, 0, 0, 0, 3]) && span.has(&[0, 0, 0, 0, 5]) && !span.has(&[0, 0, 0, 0, 6]));
        let prefixed = Span::default().prefix::<String>("ab").range::<String, &str>("aa".."abz").of_partition(0);
        assert!(prefixed.has(b"\0\0\0\0abc") && !prefixed.has(b"\0\0\0\0aa") && !prefixed.has(b"\0\0\0\0abz"));
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        #[expect(clippy::reversed_empty_ranges, reason = "that is the test")]
        let span = Span::default().range::<u8, u8>(5..3).of_partition(0);
        assert!(span.is_empty());
    }
}
