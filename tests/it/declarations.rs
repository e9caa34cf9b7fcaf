//! What several declarations and several brokers in one app mean to each other.

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::Memory;
use slipstream::{Conf, Error, Kind};

use crate::scenarios::{collect, memory, taken};

/// Writes `count` numbers to a topic of a broker in memory.
async fn fill(broker: &str, topic: &str, count: u32) -> Result<()> {
    let topic: Topic<u32> = Topic::named(topic);
    let conf = Conf::isolated().with("broker", format!("memory:{broker}"));
    App::new().handle(stream::iter(0..count), |n: u32| n, topic).conf(conf).run().await
}

/// Reads until `count` messages have come and are committed, then stops.
async fn read(app: App, name: &str, count: u64) -> Result<()> {
    let run = app.run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.stats().handled(name) >= count).await;
    handle.trigger();
    task.await.unwrap()
}

#[tokio::test]
async fn positions_of_a_broadcast_topic_belong_to_their_broker() -> Result<()> {
    let state = tempfile::tempdir()?;
    let conf = || {
        let conf = Conf::isolated().with("broker", "memory:other-broker").with("app.id", "reader");
        conf.with("state.dir", state.path().display().to_string())
    };
    // Another broker under the same name has fewer records than the first, then more.
    for (count, expected) in [(100, 100), (40, 40), (150, 150)] {
        let broker = Memory::named("other-broker");
        fill("other-broker", "all", count).await?;
        let (seen, sink) = collect::<u32>();
        let topic: Topic<u32> = Topic::named("all").broadcast();
        read(App::new().handle(topic, |n: u32| n, sink).conf(conf()), "all", expected).await?;
        assert_eq!(taken(&seen).len() as u64, expected);
        drop(broker);
    }
    Ok(())
}

#[tokio::test]
async fn a_broadcast_topic_goes_on_where_it_was_on_the_same_broker() -> Result<()> {
    let state = tempfile::tempdir()?;
    let brokers = [Memory::named("twice-x"), Memory::named("twice-y")];
    let (seen, sink) = collect::<u32>();
    for round in 1..=2 {
        fill("twice-x", "x", 10).await?;
        fill("twice-y", "y", 10).await?;
        let x: Topic<u32> = Topic::named("x").broadcast().conf(&[("broker", "memory:twice-x")]);
        let y: Topic<u32> = Topic::named("y").broadcast().conf(&[("broker", "memory:twice-y")]);
        let conf = memory().with("app.id", "both").with("state.dir", state.path().display().to_string());
        let app = App::new().handle(x, |n: u32| n, sink.clone()).handle(y, |n: u32| n, sink.clone()).conf(conf);
        let run = app.run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        until(|| seen.lock().unwrap().len() == 20 * round).await;
        handle.trigger();
        task.await.unwrap()?;
        assert_eq!(seen.lock().unwrap().len(), 20 * round);
    }
    drop(brokers);
    Ok(())
}

/// The error of a run that cannot be built.
async fn refused(app: App) -> Error {
    app.run().await.unwrap_err()
}

#[tokio::test]
async fn one_name_for_two_brokers_is_refused_and_both_are_named() {
    let from: Topic<u32> = Topic::named("orders").conf(&[("broker", "memory:mirror-a")]);
    let to: Topic<u32> = Topic::named("orders").conf(&[("broker", "memory:mirror-b")]);
    let error = refused(App::new().handle(from, |n: u32| n, to).conf(memory())).await;
    assert_eq!(error.kind(), Kind::AlreadyOpen, "{error:?}");
    for part in ["orders", "memory:mirror-a", "memory:mirror-b", "`name`"] {
        assert!(error.to_string().contains(part), "{part} is missing: {error}");
    }
}

#[tokio::test]
async fn a_mirror_with_a_name_of_its_own_copies_from_one_broker_to_the_other() -> Result<()> {
    let brokers = [Memory::named("from-a"), Memory::named("to-b")];
    fill("from-a", "orders", 10).await?;
    let from: Topic<u32> = Topic::named("orders").conf(&[("broker", "memory:from-a")]);
    let to: Topic<u32> = Topic::named("copies").conf(&[("broker", "memory:to-b"), ("name", "orders")]);
    let app = App::new().handle(from, |n: u32| n, to).conf(memory().with("app.id", "mirror"));
    read(app, "orders", 10).await?;
    let (seen, sink) = collect::<u32>();
    let copies: Topic<u32> = Topic::named("orders").conf(&[("broker", "memory:to-b")]);
    read(App::new().handle(copies, |n: u32| n, sink).conf(memory()), "orders", 10).await?;
    drop(brokers);
    let mut arrived = taken(&seen);
    arrived.sort_unstable();
    assert_eq!(arrived, (0..10).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn two_declarations_of_one_topic_cannot_both_read_it() {
    let a: Topic<u32> = Topic::named("a").conf(&[("name", "shared")]);
    let b: Topic<u32> = Topic::named("b").conf(&[("name", "shared")]);
    let error = refused(App::new().handle(a, |_: u32| (), ()).handle(b, |_: u32| (), ()).conf(memory())).await;
    assert_eq!(error.kind(), Kind::Build, "{error:?}");
    for part in ["`a`", "topic b", "`shared`"] {
        assert!(error.to_string().contains(part), "{part} is missing: {error}");
    }
}
