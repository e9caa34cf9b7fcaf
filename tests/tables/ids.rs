//! Outputs with stable ids: what is repeated upstream counts once downstream.

use std::collections::BTreeMap;

use slipstream::prelude::*;
use slipstream::table::SeenIds;
use slipstream::{Kind, Signals, StableId};

use crate::support::{World, has, keyed, rows, run_until};

fn out() -> Topic<u64> {
    Topic::named("out").stable_ids()
}

/// Two outputs for each message, under its key.
fn twice(message: &Message<u64>) -> Result<[(String, u64); 2]> {
    let key = message.key()?;
    Ok([(key.clone(), message.value), (key.clone(), 10 * message.value)])
}

/// What is downstream: the sums of all records, and those of records that were not seen before.
struct Sums {
    all: Table<String, u64>,
    once: Table<String, u64>,
    seen: Table<String, SeenIds>,
}

impl Sums {
    fn new() -> Self {
        Self { all: Table::named("all"), once: Table::named("once"), seen: Table::named("seen") }
    }

    /// Reads `records` records, and says the sums of all and of those that were not seen before.
    async fn of(&self, world: &World, records: i64) -> Result<(BTreeMap<String, u64>, BTreeMap<String, u64>)> {
        let add = |message: Message<u64>,
                   seen: &mut Rows<String, SeenIds>,
                   once: &mut Rows<String, u64>,
                   all: &mut Rows<String, u64>| {
            let key = message.key()?;
            all.update(key, |sum| sum.unwrap_or(0) + message.value)?;
            if seen.is_first(&message.headers)? {
                once.update(key, |sum| sum.unwrap_or(0) + message.value)?;
            }
            Ok::<(), slipstream::Error>(())
        };
        let app = App::new().conf(world.conf().with("app.id", "downstream")).handle(out(), add, ()).name("add");
        let mut found = None;
        run_until(app.table(&self.seen).table(&self.once).table(&self.all), || {
            found = has(&self.all, records).then(|| (rows(&self.all), rows(&self.once)));
            found.is_some()
        })
        .await?;
        Ok(found.unwrap())
    }
}

fn sums(a: u64, b: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)])
}

#[tokio::test]
async fn outputs_that_a_replay_repeats_count_once_downstream() -> Result<()> {
    let (world, downstream) = (World::new(), Sums::new());
    world.feed(keyed(&["a", "b", "a"])).await;
    let counts: Table<String, u64> = Table::named("counts").replay_outputs();
    let tally = |message: Message<u64>, counts: &mut Rows<String, u64>| {
        counts.update(message.key()?, |n| n.unwrap_or(0) + 1)?;
        twice(&message)
    };
    let state = tempfile::tempdir()?;
    for (round, dir) in (1..).zip(["one", "two"]) {
        // A member whose rows are made anew, with all outputs.
        let conf = world.conf().with("state.dir", state.path().join(dir).display().to_string());
        let app = App::new().conf(conf).handle(world.input.clone(), tally, out()).name("tally").table(&counts);
        run_until(app, || has(&counts, 3)).await?;
        let (all, once) = downstream.of(&world, 6 * round).await?;
        let round = u64::try_from(round).unwrap();
        assert_eq!(all, sums(22 * round, 11 * round), "the outputs are there {round} times");
        assert_eq!(once, sums(22, 11));
    }
    Ok(())
}

#[tokio::test]
async fn outputs_that_a_crash_repeats_count_once_downstream() -> Result<()> {
    let (world, downstream) = (World::with_partitions(1), Sums::new());
    world.feed(keyed(&["a", "b", "a"])).await;
    let app = |is_slow: bool| {
        let outputs = move |message: Message<u64>| {
            stream! {
                for output in twice(&message).unwrap() {
                    yield output;
                    if is_slow {
                        std::future::pending::<()>().await;
                    }
                }
            }
        };
        App::new().conf(world.conf()).handle(world.input.clone(), outputs, out()).name("twice")
    };
    let task = tokio::spawn(app(true).signals(Signals::Ignore).run().into_future());
    let (all, once) = downstream.of(&world, 1).await?;
    assert_eq!((all["a"], once["a"]), (1, 1), "the first output of the first message");
    // Gone as in a crash: that message is not done.
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());

    let task = tokio::spawn(app(false).signals(Signals::Ignore).run().into_future());
    let (all, once) = downstream.of(&world, 7).await?;
    assert_eq!((all, once), (sums(23, 11), sums(22, 11)));
    task.abort();
    Ok(())
}

#[tokio::test]
async fn an_id_says_which_output_of_which_message_it_is() -> Result<()> {
    let world = World::with_partitions(1);
    world.feed(keyed(&["a", "b"])).await;
    let (out_to, ids) = std::sync::mpsc::channel();
    let read = move |message: Message<u64>| {
        let id = StableId::of(&message.headers)?;
        let _ = out_to.send(id.map(|id| id.to_string()).unwrap_or_default());
        Ok::<(), slipstream::Error>(())
    };
    let app = App::new()
        .conf(world.conf())
        .handle(world.input.clone(), |message: Message<u64>| twice(&message), out())
        .name("twice")
        .handle(out(), read, ());
    let mut found = Vec::new();
    run_until(app, || {
        found.extend(ids.try_iter());
        found.len() == 4
    })
    .await?;
    assert_eq!(found, ["twice/input-0-0-0-0", "twice/input-0-0-1-0", "twice/input-0-1-0-0", "twice/input-0-1-1-0"]);
    Ok(())
}

#[tokio::test]
async fn lanes_per_key_keep_ids_apart() -> Result<()> {
    let (world, downstream) = (World::new(), Sums::new());
    let all: Vec<_> = ["a", "b"].into_iter().cycle().take(40).collect();
    world.feed(keyed(&all)).await;
    let app = App::new()
        .conf(world.conf())
        .handle(world.input.clone(), |message: Message<u64>| twice(&message), out())
        .name("twice")
        .concurrency(3);
    let run = app.signals(Signals::Ignore).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    let (all, once) = downstream.of(&world, 80).await?;
    assert_eq!((all, once), (sums(220, 220), sums(220, 220)));
    handle.trigger();
    task.await.unwrap()
}

async fn refused(app: App) -> String {
    let error = app.conf(Conf::isolated().with("broker", "memory:")).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error}");
    error.to_string()
}

#[tokio::test]
async fn ids_need_records_with_headers() {
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::isolated().with("broker", format!("embedded:{}", dir.path().display())).with("encoding", "plain");
    let app = App::new().handle(Topic::<u64>::named("input"), |n: u64| n, out()).name("same");
    let error = app.conf(conf).run().await.unwrap_err();
    assert!(error.to_string().contains("these need `encoding = \"envelope\"`"), "{error}");
}

#[tokio::test]
async fn what_has_no_place_in_a_log_has_no_id() {
    let input: Topic<u64> = Topic::named("input");
    let same = |n: u64| n;
    let app = App::new().handle(stream::iter([1, 2]), same, out()).name("same");
    assert!(refused(app).await.contains("handler same writes stable ids, which need a topic"));
    let piped = slipstream::pipe(input.clone(), |all: Piped<Message<u64>>| all.map(|message| message.value));
    assert!(refused(App::new().handle(piped, same, out()).name("same")).await.contains("`pipe` with stable ids"));
    let app = App::new().handle(input.clone(), same, out());
    assert!(refused(app).await.contains("give it one that stays"));
    let app = App::new().handle(input.clone(), same, out()).name("same").handle(input.clone(), same, out());
    assert!(refused(app.name("same")).await.contains("under the name of another one"));
    let app = App::new().handle(input, same, (out(), out())).name("same");
    assert!(refused(app).await.contains("two sinks of one handler"));
}
