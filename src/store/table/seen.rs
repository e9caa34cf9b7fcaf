//! Dropping what was seen before, by stable ids.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Rows;
use crate::error::Result;
use crate::message::{Headers, StableId};

/// Offsets that one row stands for.
const OFFSETS: i64 = 1024;
const WORD_BITS: usize = u64::BITS as usize;

/// A row of a table that knows which [`StableId`]s were seen: a bit for each of 1,024 neighbouring offsets of the topic
/// that the ids name. It does not forget: a million messages of one partition with one output each take 125 kB.
///
/// What [`Rows::is_first`] lets through counts **once in the tables of the same handler**, since the rows are stored
/// together. Sinks of that handler get it at least once, as everybody's; give their topic ids of its own.
///
/// Limits: equal ids meet only where they go to **one partition**, so records need a key. A handler whose outputs are
/// told apart by their number `n` must give them in the same order when it gets a message again. A topic upstream that
/// was deleted and made anew begins with offset 0 again, and its ids are taken for those that were seen: delete this
/// table's rows with it. A record without an id is always a first one.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::table::SeenIds;
///
/// # slipstream::testing::block_on(async {
/// static ORDERS: Topic<u64> = Topic::new("orders");
/// static PRICED: Topic<u64> = Topic::new("priced").stable_ids();
/// static SEEN: Table<String, SeenIds> = Table::new("seen");
/// static SALES: Table<String, u64> = Table::new("sales");
///
/// fn price(order: Message<u64>) -> Result<(String, u64)> {
///     Ok((order.key()?.clone(), order.value * 3))
/// }
///
/// fn add(priced: Message<u64>, seen: &mut Rows<String, SeenIds>, sales: &mut Rows<String, u64>) -> Result<()> {
///     if seen.is_first(&priced.headers)? {
///         sales.update(priced.key()?, |sum| sum.unwrap_or(0) + priced.value)?;
///     }
///     Ok(())
/// }
///
/// let run = App::new()
///     .conf(Conf::isolated().with("broker", "memory:"))
///     .handle(stream::iter([2, 5]), |n: u64| ("tea".to_owned(), n), &ORDERS)
///     .handle(&ORDERS, price, &PRICED)
///     .name("price")
///     .handle(&PRICED, add, ())
///     .table(&SEEN)
///     .table(&SALES)
///     .run();
/// let handle = run.handle();
/// let look = async move |_stop| {
///     slipstream::testing::until(|| matches!(SALES.get("tea"), Ok(Some(21)))).await;
///     Ok(handle.trigger())
/// };
/// run.beside(look).await
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenIds([u64; 16]);

impl SeenIds {
    /// Sets a bit; whether it was not set.
    fn add(&mut self, at: usize) -> bool {
        let Some(word) = self.0.get_mut(at / WORD_BITS) else { return true };
        let before = std::mem::replace(word, *word | 1 << (at % WORD_BITS));
        before != *word
    }
}

impl Rows<String, SeenIds> {
    /// Whether a record with these headers is the first one with its id, and remembers it. One without an id always is.
    ///
    /// # Errors
    /// [`Kind::Decode`](crate::Kind::Decode) for a header that is not an id, and those of [`get`](Self::get).
    pub fn is_first(&mut self, headers: &Headers) -> Result<bool> {
        let Some(id) = StableId::of(headers)? else { return Ok(true) };
        let (row, at) = place(&id);
        let entry = self.entry(row)?;
        let mut seen = entry.value().copied().unwrap_or_default();
        let is_first = seen.add(at);
        if is_first {
            entry.insert(seen)?;
        }
        Ok(is_first)
    }
}

/// The row of an id, and its bit.
fn place(id: &StableId) -> (String, usize) {
    let StableId { origin, partition, offset, n, outage } = id;
    let mut row = String::with_capacity(origin.len() + 24);
    let _ = write!(row, "{origin}-{partition}-{outage}-{n}-{}", offset.div_euclid(OFFSETS));
    (row, usize::try_from(offset.rem_euclid(OFFSETS)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(id: &str) -> Headers {
        Headers::new().with(StableId::HEADER, id.to_owned())
    }

    #[test]
    fn an_id_is_first_once_and_differs_in_each_of_its_parts() {
        let mut seen = Rows::alone();
        for id in
            ["f/t-0-0-0-0", "g/t-0-0-0-0", "f/u-0-0-0-0", "f/t-1-0-0-0", "f/t-0-1-0-0", "f/t-0-0-1-0", "f/t-0-0-0-1"]
        {
            assert!(seen.is_first(&headers(id)).unwrap(), "{id}");
            assert!(!seen.is_first(&headers(id)).unwrap(), "{id}");
        }
        for id in ["f/t-0-1024-0-0", "f/t-0-1023-0-0", "f/t-0-64-0-0", "f/t-0-9223372036854775807-0-0"] {
            assert!(seen.is_first(&headers(id)).unwrap(), "{id}");
        }
        assert!(!seen.is_first(&headers("f/t-0-0-0-0")).unwrap());
    }

    #[test]
    fn what_has_no_id_is_first_and_what_is_none_is_refused() {
        let mut seen = Rows::alone();
        assert!(seen.is_first(&Headers::new()).unwrap());
        assert!(seen.is_first(&Headers::new()).unwrap());
        assert!(seen.is_first(&headers("f/t")).is_err());
    }

    proptest! {
        #[test]
        fn it_knows_what_a_set_knows(offsets in prop::collection::vec((0..4000_i64, 0..2_u32), 1..500)) {
            let (mut seen, mut model) = (Rows::alone(), std::collections::HashSet::new());
            for (offset, n) in offsets {
                let is_first = seen.is_first(&headers(&format!("f/t-0-{offset}-{n}-0"))).unwrap();
                prop_assert_eq!(is_first, model.insert((offset, n)));
            }
        }
    }
}
