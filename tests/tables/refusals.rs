//! What a table cannot be filled from, and rows that cannot go on: refused by name, or built anew where that is asked
//! for.

use slipstream::prelude::*;
use slipstream::topic::{OutOfRange, SeekTo, Start};
use slipstream::{Kind, Signals};

use crate::support::{World, count, has, keyed, rows, rows_of, run_until, unique};

/// How a run of `app` fails.
async fn refused(app: App) -> slipstream::Error {
    tokio::time::timeout(std::time::Duration::from_mins(1), app.signals(Signals::Ignore).run().into_future())
        .await
        .unwrap()
        .unwrap_err()
}

fn counting(world: &World, counts: &Table<String, u64>) -> App {
    App::new().conf(world.conf()).handle(world.input.clone(), count, ()).table(counts)
}

/// Fills the table and ends.
async fn filled(world: &World, counts: &Table<String, u64>, keys: &[&str]) {
    world.feed(keyed(keys)).await;
    let ends = world.ends().await.into_iter().map(|(_, end)| end).sum();
    run_until(counting(world, counts), || has(counts, ends)).await.unwrap();
}

#[track_caller]
fn assert_says(error: &slipstream::Error, kind: Kind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
}

#[tokio::test]
async fn a_table_needs_one_topic_and_one_lane() {
    let world = World::new();
    let counts: Table<String, u64> = Table::named("counts");
    let fold = |n: u64, counts: &mut Rows<String, u64>| counts.put(n.to_string(), n);
    let app = || App::new().conf(world.conf());

    let stream = app().handle(stream::iter([1_u64]), fold, ()).name("fold").table(&counts);
    assert_says(&refused(stream).await, Kind::Build, &["fold", "needs a topic"]);
    let lanes = app().handle(world.input.clone(), fold, ()).name("fold").table(&counts).concurrency(2);
    assert_says(&refused(lanes).await, Kind::Build, &["concurrency"]);
    let other = Topic::<u64>::named("other");
    let two =
        app().handle(world.input.clone(), count, ()).table(&counts).handle(other, fold, ()).name("fold").table(&counts);
    assert_says(&refused(two).await, Kind::Build, &["table counts", "two source topics", "input", "other"]);
    let piped = slipstream::pipe(world.input.clone(), |input: Piped<Message<u64>>| input);
    let piped = app().handle(piped, count, ()).table(&counts);
    assert_says(&refused(piped).await, Kind::Build, &["pipe"]);
}

#[tokio::test]
async fn handlers_and_tables_must_fit() {
    let world = World::new();
    let (counts, others): (Table<String, u64>, Table<String, String>) =
        (Table::named("counts"), Table::named("others"));
    let app = || App::new().conf(world.conf()).handle(world.input.clone(), count, ());

    assert_says(&refused(app()).await, Kind::Build, &["handler count", "1 times", "0 tables"]);
    assert_says(&refused(app().table(&others)).await, Kind::Build, &["table others", "other types"]);
    assert_says(&refused(app().table(&counts).table(&others)).await, Kind::Build, &["2 tables"]);
    let closure = |message: Message<u64>, counts: &mut Rows<String, u64>| count(message, counts);
    let nameless = App::new().conf(world.conf()).handle(world.input.clone(), closure, ()).table(&counts);
    assert_says(&refused(nameless).await, Kind::Build, &[".name("]);
    let twin: Table<String, u64> = Table::named("counts");
    let twins = app().table(&counts).handle(world.input.clone(), count, ()).name("again").table(&twin);
    assert_says(&refused(twins).await, Kind::Build, &["table counts", "declared twice"]);
}

#[tokio::test]
async fn another_start_and_a_seek_are_refused() -> Result<()> {
    let world = World::new();
    let counts: Table<String, u64> = Table::named("counts");
    let app = |topic| App::new().conf(world.conf()).handle(topic, count, ()).table(&counts);
    let latest = app(Topic::named("input").start(Start::Latest));
    assert_says(&refused(latest).await, Kind::Build, &["topic input", "start"]);
    let configured = app(Topic::named("input")).conf(world.conf().with("auto.offset.reset", "latest"));
    assert_says(&refused(configured).await, Kind::Build, &["topic input", "auto.offset.reset"]);
    let moved = app(Topic::named("input").out_of_range(OutOfRange::Earliest));
    assert_says(&refused(moved).await, Kind::Build, &["topic input", "out_of_range"]);

    let topic: Topic<u64> = Topic::named("input");
    world.feed(keyed(&["a"])).await;
    let run = app(topic.clone().start(Start::Earliest)).signals(Signals::Ignore).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    slipstream::testing::until(|| has(&counts, 1)).await;
    let error = topic.seek(SeekTo::Beginning).await.unwrap_err();
    assert_says(&error, Kind::Seek, &["fold"]);
    handle.trigger();
    task.await.unwrap()
}

#[tokio::test]
async fn a_changed_set_of_handlers_or_tables_is_refused_or_built_anew() -> Result<()> {
    let world = World::new();
    let counts: Table<String, u64> = Table::named("counts");
    filled(&world, &counts, &["a", "b", "a"]).await;
    let renamed = App::new().conf(world.conf()).handle(world.input.clone(), count, ()).name("tally").table(&counts);
    assert_says(&refused(renamed).await, Kind::Build, &["table counts", "count with counts", "tally with counts"]);
    let sums: Table<String, u64> = Table::named("sums");
    let add = |message: Message<u64>, counts: &mut Rows<String, u64>, sums: &mut Rows<String, u64>| -> Result<()> {
        sums.update(message.key()?, |n| n.unwrap_or(0) + message.value)?;
        count(message, counts)
    };
    let more = |counts: &Table<String, u64>| {
        App::new().conf(world.conf()).handle(world.input.clone(), add, ()).name("count").table(counts).table(&sums)
    };
    assert_says(&refused(more(&counts)).await, Kind::Build, &["count with counts, sums"]);

    let rebuilt = counts.clone().rebuild();
    run_until(more(&rebuilt), || has(&sums, 3) && rows(&counts).get("a") == Some(&2)).await?;
    // Now that is what belongs together.
    run_until(more(&counts), || has(&sums, 3)).await
}

#[tokio::test]
async fn another_topic_is_refused() {
    let world = World::new();
    let counts: Table<String, u64> = Table::named("counts");
    filled(&world, &counts, &["a"]).await;
    let elsewhere = App::new().conf(world.conf()).handle(Topic::<u64>::named("other"), count, ()).table(&counts);
    assert_says(&refused(elsewhere).await, Kind::Build, &["on topic input", "on topic other"]);
}

#[tokio::test]
async fn another_number_of_partitions_is_refused_or_built_anew() -> Result<()> {
    let world = World::new();
    let counts: Table<String, u64> = Table::named("counts");
    filled(&world, &counts, &["a", "b"]).await;
    world.replace_log(3).await;
    world.feed(keyed(&["a", "c"])).await;
    assert_says(&refused(counting(&world, &counts)).await, Kind::OutOfRange, &["3 partitions", "had 2"]);
    let rebuilt = counts.clone().rebuild();
    run_until(counting(&world, &rebuilt), || has(&counts, 2)).await?;
    Ok(())
}

#[tokio::test]
async fn a_log_that_was_replaced_is_refused_or_built_anew() -> Result<()> {
    let world = World::with_partitions(1);
    let counts: Table<String, u64> = Table::named(unique("counts"));
    filled(&world, &counts, &["a", "b", "a"]).await;
    // Shorter than what was read.
    world.replace_log(1).await;
    world.feed(keyed(&["x"])).await;
    assert_says(&refused(counting(&world, &counts)).await, Kind::OutOfRange, &["3, which is 2 beyond the end"]);
    // As long as that, and another one.
    world.feed(keyed(&["x", "y", "z"])).await;
    assert_says(&refused(counting(&world, &counts)).await, Kind::OutOfRange, &["input[0]@2", "replaced", "checksum"]);
    let rebuilt = counts.clone().rebuild();
    run_until(counting(&world, &rebuilt), || has(&counts, 4) && !rows(&counts).contains_key("a")).await
}

#[tokio::test]
async fn a_log_without_its_beginning_is_refused_or_taken_as_it_is() -> Result<()> {
    let world = World::with_partitions(1);
    let counts: Table<String, u64> = Table::named(unique("counts"));
    world.feed(keyed(&["a", "b", "c"])).await;
    world.drop_oldest("elsewhere", 0).await;
    let error = refused(counting(&world, &counts)).await;
    assert_says(&error, Kind::OutOfRange, &["begins at 3", "no rows here yet"]);
    let rebuilt = counts.clone().rebuild();
    run_until(counting(&world, &rebuilt), || rows_of(&counts).is_some_and(|rows| rows.keys().eq(["filler"]))).await
}

#[tokio::test]
async fn records_that_are_gone_before_they_were_read_are_refused() {
    let world = World::with_partitions(1);
    let counts: Table<String, u64> = Table::named(unique("counts"));
    filled(&world, &counts, &["a"]).await;
    world.feed(keyed(&["b", "c"])).await;
    world.drop_oldest("counter", 1).await;
    let error = refused(counting(&world, &counts)).await;
    assert_says(&error, Kind::OutOfRange, &["as of offset 1", "begins at 3", "2 records"]);
}
