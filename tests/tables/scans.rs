//! What a handler and a reader see: own writes, stored and unstored rows in order, several partitions, several tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use slipstream::Kind;
use slipstream::prelude::*;

use crate::support::{Disk, World, has, keyed, rows, run_until};

#[tokio::test]
async fn a_handler_scans_what_is_stored_and_what_is_not() -> Result<()> {
    let disk = Disk::new();
    let seen: Table<u32, u64> = Table::named("seen");
    let model: Arc<Mutex<BTreeMap<u32, u64>>> = Arc::default();
    let expected = Arc::clone(&model);
    // Everything of one key, so that all lies in one partition.
    let fold = move |message: Message<u64>, seen: &mut Rows<u32, u64>| -> Result<()> {
        let mut model = expected.lock().unwrap();
        let n = u32::try_from(message.value).unwrap_or_default();
        let key = n.wrapping_mul(2_654_435_761) % 1000;
        if n % 3 == 0 {
            seen.delete(key)?;
            model.remove(&key);
        } else {
            seen.put(key, message.value)?;
            model.insert(key, message.value);
        }
        let (from, to) = (key.saturating_sub(200), key + 100);
        let all: Vec<_> = seen.range(from..to).iter().collect::<Result<_>>()?;
        let wanted: Vec<_> = model.range(from..to).map(|(key, value)| (*key, *value)).collect();
        assert_eq!(all, wanted, "at {n}");
        let back: Vec<_> = seen.range(..=to).rev().iter().take(150).collect::<Result<_>>()?;
        let wanted: Vec<_> = model.range(..=to).rev().take(150).map(|(key, value)| (*key, *value)).collect();
        assert_eq!(back, wanted, "backwards at {n}");
        Ok(())
    };
    disk.feed((0..1500).map(|n| ("same".to_owned(), n))).await;
    // Few rows in memory, so that most come from the store.
    let conf = disk.conf().with("table.generation.units", 100).with("table.hot.bytes", "256KiB");
    let app = App::new().conf(conf).handle(Topic::<u64>::named("input"), fold, ()).name("fold").table(&seen);
    let mut found = None;
    run_until(app, || {
        found = has(&seen, 1500).then(|| rows(&seen));
        found.is_some()
    })
    .await?;
    assert_eq!(found.unwrap(), *model.lock().unwrap());
    Ok(())
}

#[tokio::test]
async fn rows_of_several_partitions_are_merged_or_refused() -> Result<()> {
    let world = World::with_partitions(4);
    let (plain, merged): (Table<String, u64>, Table<String, u64>) =
        (Table::named("plain"), Table::named("merged").merge(|a, b| a + b));
    // All keys count under one name, in each partition.
    let tally = |_: Message<u64>, plain: &mut Rows<String, u64>, merged: &mut Rows<String, u64>| -> Result<()> {
        plain.update("all", |n| n.unwrap_or(0) + 1)?;
        merged.update("all", |n| n.unwrap_or(0) + 1)
    };
    let keys: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    world.feed(keys.into_iter().map(|key| (key, 1))).await;
    let app = App::new().conf(world.conf()).handle(world.input.clone(), tally, ()).name("tally");
    let app = app.table(&plain).table(&merged);
    let mut checked = false;
    run_until(app, || {
        checked = has(&plain, 20);
        if checked {
            assert_eq!(merged.get("all").unwrap(), Some(20));
            assert_eq!(rows(&merged), BTreeMap::from([("all".to_owned(), 20)]));
            assert_eq!(plain.get("all").unwrap_err().kind(), Kind::SeveralPartitions);
            assert_eq!(plain.items().iter().next().unwrap().unwrap_err().kind(), Kind::SeveralPartitions);
            let parts = plain.partitions().unwrap();
            let sum: u64 = parts.iter().filter_map(|(part, _)| plain.partition(*part).get("all").unwrap()).sum();
            assert_eq!((parts.len(), sum), (4, 20));
            assert_eq!(plain.partition(9).get("all").unwrap_err().kind(), Kind::UnknownTopic);
        }
        checked
    })
    .await
}

#[tokio::test]
async fn several_handlers_share_a_table_and_see_each_other() -> Result<()> {
    let world = World::with_partitions(1);
    let table: Table<String, u64> = Table::named("shared");
    let first = |message: Message<u64>, rows: &mut Rows<String, u64>| rows.put(message.key()?, message.value);
    let second = |message: Message<u64>, rows: &mut Rows<String, u64>| -> Result<()> {
        assert_eq!(rows.get(message.key()?)?, Some(message.value), "what the first wrote for this message");
        rows.update("sum", |sum| sum.unwrap_or(0) + message.value)
    };
    world.feed([("a".to_owned(), 3), ("b".to_owned(), 4), ("a".to_owned(), 5)]).await;
    let app = App::new()
        .conf(world.conf())
        .handle(world.input.clone(), first, ())
        .name("first")
        .table(&table)
        .handle(world.input.clone(), second, ())
        .name("second")
        .table(&table);
    let mut found = None;
    run_until(app, || {
        found = has(&table, 3).then(|| rows(&table));
        found.is_some()
    })
    .await?;
    let expected = [("a", 5), ("b", 4), ("sum", 12)].map(|(key, n)| (key.to_owned(), n));
    assert_eq!(found.unwrap(), BTreeMap::from(expected));
    Ok(())
}

#[tokio::test]
async fn rows_beyond_the_bound_in_memory_are_read_from_the_store() -> Result<()> {
    let disk = Disk::new();
    let table: Table<String, String> = Table::named("large").hot_bytes(1);
    let append = |message: Message<u64>, rows: &mut Rows<String, String>| {
        rows.update(message.key()?, |text| text.unwrap_or_default() + &"x".repeat(100))
    };
    let keys: Vec<_> = (0..3).flat_map(|_| (0..2000).map(|n| format!("key-{n}"))).collect();
    disk.feed(keys.into_iter().map(|key| (key, 1))).await;
    let conf = disk.conf().with("table.generation.units", 50);
    let app = App::new().conf(conf).handle(Topic::<u64>::named("input"), append, ()).name("append").table(&table);
    let mut found = None;
    run_until(app, || {
        found = has(&table, 6000).then(|| (table.stats().unwrap(), rows(&table)));
        found.is_some()
    })
    .await?;
    let (stats, rows) = found.unwrap();
    assert_eq!(rows.len(), 2000);
    assert!(rows.values().all(|text| text.len() == 300));
    assert!(stats.hot_rows < 1500, "{stats:?}");
    Ok(())
}

#[tokio::test]
async fn a_value_that_cannot_be_written_ends_the_run() {
    let world = World::with_partitions(1);
    let table: Table<String, f64> = Table::with_codec("floats", &slipstream::codec::Json);
    let bad = |message: Message<u64>, rows: &mut Rows<String, f64>| rows.put(message.key()?, f64::NAN);
    world.feed(keyed(&["a"])).await;
    let app = App::new().conf(world.conf()).handle(world.input.clone(), bad, ()).name("bad").table(&table);
    let error = app.signals(slipstream::Signals::Ignore).run().into_future().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Encode, "{error}");
}
