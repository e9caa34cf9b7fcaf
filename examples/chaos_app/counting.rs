//! The app with tables: how often each key came, and the sum of its ids, of which every one is echoed.

use std::collections::BTreeMap;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use slipstream::prelude::*;
use slipstream::table::mistake::{self, Mistake};

use crate::Shared;
use crate::commands::{self, tell};
use crate::settings::{FEED_EVERY, echo};

/// Keys of the rows; ids are told apart by their rest.
const KEYS: u64 = 97;
/// Ids of one life that feeds itself begin behind those of the life before.
const IDS_PER_LIFE: u64 = 1 << 24;

pub async fn run(shared: Arc<Shared>) -> Result<()> {
    match shared.settings.mistake.as_deref() {
        None => {}
        Some("rows-before-position") => mistake::make(Mistake::RowsBeforePosition),
        Some("newest-rows") => mistake::make(Mistake::NewestRows),
        Some(other) => anyhow::bail!("unknown mistake {other}"),
    }
    let input: Topic<String> = Topic::named(shared.settings.input.as_str()).partitions(4);
    let output: Topic<String> = Topic::named(shared.settings.output.as_str());
    let counts: Table<String, u64> = Table::named("counts").merge(|a, b| a + b);
    let sums: Table<String, u64> = Table::named("sums").merge(|a, b| a + b);
    let of_handler = Arc::clone(&shared);
    let fold = move |message: Message<String>, counts: &mut Rows<String, u64>, sums: &mut Rows<String, u64>| {
        of_handler.begin();
        let echoed = count(&message, counts, sums, of_handler.settings.life);
        of_handler.end();
        echoed
    };
    let mut app = App::new()
        .handle(input.clone(), fold, output)
        .name("fold")
        .table(&counts)
        .table(&sums)
        .conf(shared.settings.conf());
    if shared.settings.feeds > 0 {
        let next = AtomicU64::new(u64::from(shared.settings.life) * IDS_PER_LIFE);
        let feeds = shared.settings.feeds;
        let feed = move || -> Vec<(String, String)> {
            let from = next.fetch_add(feeds, Ordering::Relaxed);
            (from..from + feeds).map(|id| (key(id), id.to_string())).collect()
        };
        app = app.handle(every(FEED_EVERY), feed, input.clone()).name("feed");
    }
    let run = app.run();
    commands::obey(run.handle(), input, shared, move || look(&counts, &sums).ok());
    let result = run.into_future().await;
    tell("event ended");
    Ok(result?)
}

fn count(
    message: &Message<String>,
    counts: &mut Rows<String, u64>,
    sums: &mut Rows<String, u64>,
    life: u32,
) -> slipstream::Result<(String, String)> {
    let not_an_id = |error| slipstream::Error::new(slipstream::Kind::Decode, "not an id").because(error);
    let id: u64 = message.value.parse().map_err(not_an_id)?;
    counts.update(key(id), |n| n.unwrap_or(0) + 1)?;
    sums.update(key(id), |sum| sum.unwrap_or(0) + id)?;
    Ok((message.value.clone(), echo(id, message.partition, message.offset, life)))
}

fn key(id: u64) -> String {
    format!("key-{}", id % KEYS)
}

/// Positions by partition, and the rows of these, as JSON. Only of use while nothing is written.
fn look(counts: &Table<String, u64>, sums: &Table<String, u64>) -> Result<String> {
    let positions: BTreeMap<_, _> = counts.partitions()?.into_iter().collect();
    let rows = |table: &Table<String, u64>| table.items().iter().collect::<slipstream::Result<BTreeMap<_, _>>>();
    Ok(serde_json::to_string(&(positions, rows(counts)?, rows(sums)?))?)
}
