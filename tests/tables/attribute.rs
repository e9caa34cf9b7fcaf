//! `#[handle(TOPIC, table = TABLE)]` in its shapes. The registry is one for this program, so they all run together.

use std::collections::BTreeMap;

use slipstream::Signals;
use slipstream::prelude::*;

use crate::support::{rows, unique};

static LINES: Topic<String> = Topic::new("lines");
static BY_WORD: Topic<u32> = Topic::new("by-word");
static LONGEST: Topic<String> = Topic::new("longest");

static COUNTS: Table<String, u64> = Table::new("counts");
static LENGTHS: Table<u64, String> = Table::new("lengths");
static SEEN: Table<String, bool> = Table::new("seen");
static ANNOUNCED: Table<String, u32> = Table::new("announced");

#[handle(LINES, sink = [BY_WORD])]
fn split(line: String) -> Vec<(String, u32)> {
    line.split_whitespace().map(|word| (word.to_owned(), 1)).collect()
}

#[handle(BY_WORD, table = COUNTS)]
fn count(message: Message<u32>, counts: &mut Rows<String, u64>) -> Result<()> {
    counts.update(message.key()?, |n| n.unwrap_or(0) + 1)
}

/// Async, other arguments between, several tables, an output.
#[handle(BY_WORD, sink = [LONGEST], table = [LENGTHS, SEEN])]
async fn lengths(
    message: Message<u32>,
    lengths: &mut Rows<u64, String>,
    unit: Unit,
    seen: &mut Rows<String, bool>,
) -> Result<Option<String>> {
    let word = message.key()?;
    tokio::task::yield_now().await;
    seen.put(word, unit.partition() >= 0)?;
    let length = u64::try_from(word.len()).unwrap_or_default();
    if lengths.contains(length)? {
        return Ok(None);
    }
    lengths.put(length, word.clone())?;
    Ok(Some(word.clone()))
}

type Announced = Rows<String, u32>;

#[handle(LONGEST, table = ANNOUNCED)]
fn announce(word: String, announced: &mut Announced) -> Result<()> {
    announced.entry(word)?.and_modify(|n| *n += 1).or_insert(1)
}

#[tokio::test]
async fn words_are_counted() -> Result<()> {
    let name = unique("attribute");
    let _kept = slipstream::topic::Memory::named(&name);
    let conf = Conf::isolated().with("broker", format!("memory:{name}")).with("table.generation.time", "10ms");
    let feed = App::new().handle(stream::iter(["to be or not", "to be"]), |line: &str| line.to_owned(), &LINES);
    feed.conf(conf.clone().with("app.id", "feeder")).run().await?;

    let run = stream().conf(conf).signals(Signals::Ignore);
    let handle = run.handle();
    let look = async move |_stop| {
        let all = || COUNTS.stats().is_ok_and(|stats| stats.stored() == 6);
        slipstream::testing::until(|| all() && LENGTHS.stats().is_ok_and(|stats| stats.stored() == 6)).await;
        let expected = [("be", 2), ("not", 1), ("or", 1), ("to", 2)].map(|(word, n)| (word.to_owned(), n));
        assert_eq!(rows(&COUNTS), BTreeMap::from(expected));
        assert_eq!(rows(&SEEN).len(), 4);
        let sent: i64 = handle.stats().handled("longest").try_into().unwrap_or_default();
        slipstream::testing::until(|| ANNOUNCED.stats().is_ok_and(|stats| stats.stored() >= sent.max(2))).await;
        assert!(rows(&ANNOUNCED).contains_key("not"));
        handle.trigger();
        Ok(())
    };
    run.beside(look).await
}

#[test]
fn handlers_stay_functions_that_can_be_called() -> Result<()> {
    let mut counts = Rows::alone();
    count(Message::new(1).with_key("swift".to_owned()), &mut counts)?;
    assert_eq!(counts.get("swift")?, Some(1));
    Ok(())
}
