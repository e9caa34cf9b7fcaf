//! Rows of one member: what handlers see, what is stored, what a restart goes on with.

use std::sync::{Arc, Mutex};

use slipstream::prelude::*;

use crate::support::{World, count, has, keyed, rows, run_until};

fn expected(pairs: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
    pairs.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect()
}

#[tokio::test]
async fn counts_equal_the_fold_and_go_on_after_a_restart() -> Result<()> {
    let world = World::new();
    world.feed(keyed(&["a", "b", "a", "c"])).await;
    let counts: Table<String, u64> = Table::named("counts");
    let app = || App::new().conf(world.conf()).handle(world.input.clone(), count, ()).table(&counts);
    let mut found = None;
    run_until(app(), || {
        found = has(&counts, 4).then(|| rows(&counts));
        found.is_some()
    })
    .await?;
    assert_eq!(found.unwrap(), expected(&[("a", 2), ("b", 1), ("c", 1)]));
    world.feed(keyed(&["a", "d"])).await;
    let mut found = None;
    run_until(app(), || {
        found = has(&counts, 6).then(|| rows(&counts));
        found.is_some()
    })
    .await?;
    assert_eq!(found.unwrap(), expected(&[("a", 3), ("b", 1), ("c", 1), ("d", 1)]));
    Ok(())
}

#[tokio::test]
async fn an_async_handler_keeps_rows_and_gives_outputs() -> Result<()> {
    async fn running(message: Message<u64>, unit: Unit, sums: &mut Rows<String, u64>) -> Result<(String, u64)> {
        tokio::task::yield_now().await;
        assert_eq!(unit.offset(), Some(message.offset));
        let key = message.key()?.clone();
        let sum = sums.get(&key)?.unwrap_or(0) + message.value;
        tokio::task::yield_now().await;
        sums.put(&key, sum)?;
        Ok((key, sum))
    }
    let world = World::with_partitions(1);
    world.feed([("a".to_owned(), 3), ("b".to_owned(), 5), ("a".to_owned(), 4)]).await;
    let sums: Table<String, u64> = Table::named("sums");
    let out = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&out);
    let app = App::new()
        .conf(world.conf())
        .handle(world.input.clone(), running, move |pair: (String, u64)| seen.lock().unwrap().push(pair))
        .table(&sums);
    run_until(app, || has(&sums, 3)).await?;
    assert_eq!(*out.lock().unwrap(), [("a".to_owned(), 3), ("b".to_owned(), 5), ("a".to_owned(), 7)]);
    Ok(())
}
