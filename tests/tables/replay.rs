//! Rows that are brought up to date from records that the group has committed: outputs do not go out again, siblings
//! without a table are not called, and nobody reads rows that are not current.

use std::sync::{Arc, Mutex};

use slipstream::prelude::*;
use slipstream::{Kind, Signals};

use crate::support::{Disk, World, count, has, keyed, rows, run_until, until_or_ended};

/// What handlers were called with and what went out.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap());
        all.sort();
        all
    }
}

/// Counts and says the count; a sibling says the key.
fn app(conf: Conf, counts: &Table<String, u64>, seen: &Seen) -> App {
    let input: Topic<u64> = Topic::named("input");
    let (out, plain) = (seen.clone(), seen.clone());
    let tally = |message: Message<u64>, counts: &mut Rows<String, u64>| -> Result<String> {
        let key = message.key()?;
        counts.update(key, |n| n.unwrap_or(0) + 1)?;
        Ok(format!("{key}={}", counts.get(key)?.unwrap_or(0)))
    };
    App::new()
        .conf(conf)
        .handle(input.clone(), tally, move |text: String| out.add(text))
        .name("tally")
        .table(counts)
        .handle(input, move |message: Message<u64>| plain.add(message.key.unwrap_or_default()), ())
}

#[tokio::test]
async fn rows_that_were_deleted_are_rebuilt_without_a_word() -> Result<()> {
    let disk = Disk::new();
    let (counts, seen): (Table<String, u64>, _) = (Table::named("counts"), Seen::default());
    disk.feed(keyed(&["a", "b", "a"])).await;
    run_until(app(disk.conf(), &counts, &seen), || has(&counts, 3)).await?;
    assert_eq!(seen.take(), ["a", "a", "a=1", "a=2", "b", "b=1"]);
    std::fs::remove_dir_all(disk.tables()).unwrap();

    run_until(app(disk.conf(), &counts, &seen), || has(&counts, 3)).await?;
    assert_eq!(seen.take(), [""; 0], "everything had been acknowledged");
    disk.feed(keyed(&["a"])).await;
    let mut found = None;
    run_until(app(disk.conf(), &counts, &seen), || {
        found = has(&counts, 4).then(|| rows(&counts));
        found.is_some()
    })
    .await?;
    assert_eq!(found.unwrap().into_iter().collect::<Vec<_>>(), [("a".to_owned(), 3), ("b".to_owned(), 1)]);
    assert_eq!(seen.take(), ["a", "a=3"]);
    Ok(())
}

#[tokio::test]
async fn outputs_are_repeated_where_that_is_asked_for() -> Result<()> {
    let disk = Disk::new();
    let (counts, seen): (Table<String, u64>, _) = (Table::named("counts"), Seen::default());
    disk.feed(keyed(&["a", "b", "a"])).await;
    run_until(app(disk.conf(), &counts, &seen), || has(&counts, 3)).await?;
    seen.take();
    std::fs::remove_dir_all(disk.tables()).unwrap();
    let counts = counts.replay_outputs();
    run_until(app(disk.conf(), &counts, &seen), || has(&counts, 3)).await?;
    assert_eq!(seen.take(), ["a=1", "a=2", "b=1"], "and the sibling is not called again");
    Ok(())
}

#[tokio::test]
async fn rows_ahead_of_the_commit_are_not_written_twice_while_siblings_catch_up() -> Result<()> {
    let disk = Disk::new();
    let (counts, seen): (Table<String, u64>, _) = (Table::named("counts"), Seen::default());
    disk.feed(keyed(&["a", "b", "a"])).await;
    run_until(app(disk.conf(), &counts, &seen), || has(&counts, 3)).await?;
    seen.take();
    // As after a crash between the store and the commit.
    let state = disk.tables().parent().unwrap().parent().unwrap().to_owned();
    let positions = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    let positions = positions.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "positions"));
    std::fs::remove_file(positions.unwrap()).unwrap();
    let again = seen.clone();
    run_until(app(disk.conf(), &counts, &seen), || again.0.lock().unwrap().len() == 3).await?;
    assert_eq!(seen.take(), ["a", "a", "b"], "the sibling sees all, the table nothing");
    let mut found = None;
    run_until(app(disk.conf(), &counts, &seen), || {
        found = has(&counts, 3).then(|| rows(&counts));
        found.is_some()
    })
    .await?;
    assert_eq!(found.unwrap()["a"], 2);
    Ok(())
}

#[tokio::test]
async fn rows_that_are_not_current_are_not_read() -> Result<()> {
    let world = World::with_partitions(1);
    let counts: Table<String, u64> = Table::named("counts");
    let app = |dir: &str| {
        let state = std::env::temp_dir().join(world.memory.name().unwrap()).join(dir);
        App::new().conf(world.conf().with("state.dir", state.display().to_string()))
    };
    assert_eq!(counts.get("a").unwrap_err().kind(), Kind::Closed);
    world.feed(keyed(&["a", "b", "a"])).await;
    run_until(app("one").handle(world.input.clone(), count, ()).table(&counts), || has(&counts, 3)).await?;
    assert_eq!(counts.get("a").unwrap_err().kind(), Kind::Closed);

    // Another member, which has to make the rows itself; the handler waits before the last record.
    let (let_go, held) = tokio::sync::watch::channel(false);
    let slow = move |message: Message<u64>, counts: &mut Rows<String, u64>| {
        let mut held = held.clone();
        let counted = count(message, counts);
        async move {
            counted?;
            let _ = held.wait_for(|go| *go).await;
            Ok::<(), slipstream::Error>(())
        }
    };
    let run = app("two").handle(world.input.clone(), slow, ()).name("count").table(&counts);
    let run = run.signals(Signals::Ignore).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    let is_rebuilding = || counts.get("a").is_err_and(|error| error.to_string().contains("partition 0 is at 0 of 3"));
    until_or_ended(&handle, is_rebuilding).await;
    assert_eq!(counts.get("a").unwrap_err().kind(), Kind::Rebuilding);
    assert!(counts.items().iter().next().unwrap().is_err());
    let_go.send_replace(true);
    until_or_ended(&handle, || matches!(counts.get("a"), Ok(Some(2)))).await;
    handle.trigger();
    task.await.unwrap()
}
