//! Topics: the same checks on every backend.

use std::sync::atomic::{AtomicU64, Ordering};

use slipstream::prelude::*;
use slipstream::testing::until;

use crate::scenarios::{collect, taken};

fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn a_full_ring_does_not_show_the_next_message_as_done() -> Result<()> {
    let memory = slipstream::topic::Memory::named(&unique("broker"));
    let conf = Conf::isolated().with("broker", format!("memory:{}", memory.name().unwrap_or_default()));
    let conf = conf.with("max.in.flight", 4_u64);
    let numbers: Topic<u64> = Topic::named("numbers").partitions(1);
    // Handlers wait until all ids up to theirs are let go. With two lanes, as many units are open as the ring takes.
    let (let_go, held) = tokio::sync::watch::channel(0_u64);
    let handler = move |n: u64| {
        let mut held = held.clone();
        async move { held.wait_for(|to| n < *to).await.map(drop) }
    };
    let keyed = stream::iter((0..8_u64).map(|n| (n.to_string(), n)));
    let run = App::new()
        .handle(keyed, |pair: (String, u64)| pair, numbers.clone())
        .handle(numbers, handler, ())
        .concurrency(2)
        .conf(conf)
        .run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    let lane = || {
        let health = handle.health();
        let lanes = health.sources.into_iter().flat_map(|source| source.lanes);
        lanes.into_iter().find(|lane| lane.partition == 0 && lane.position.is_some())
    };
    until(|| lane().is_some_and(|lane| lane.in_flight == 4)).await;
    for done in 1..=4 {
        let_go.send_replace(done);
        until(|| lane().and_then(|lane| lane.position) >= i64::try_from(done).ok()).await;
        assert_eq!(lane().and_then(|lane| lane.position), i64::try_from(done).ok());
    }
    let_go.send_replace(8);
    until(|| lane().and_then(|lane| lane.position) == Some(8)).await;
    handle.trigger();
    task.await.unwrap()
}

#[tokio::test]
async fn a_stream_goes_through_a_topic_into_a_handler_and_is_committed() -> Result<()> {
    let memory = slipstream::topic::Memory::named(&unique("broker"));
    let conf = || {
        Conf::isolated()
            .with("broker", format!("memory:{}", memory.name().unwrap_or_default()))
            .with("commit.interval", "10ms")
    };
    let words: Topic<String> = Topic::named("words");
    let (seen, sink) = collect::<String>();
    let run = App::new()
        .handle(stream::iter((0..100).map(|n| format!("w{n}"))), |word: String| (word.clone(), word), words.clone())
        .handle(words.clone(), |word: String| word, sink)
        .conf(conf())
        .run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.stats().handled("words") == 100).await;
    handle.trigger();
    task.await.unwrap()?;
    let mut all = taken(&seen);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 100);

    // B-14: a second run begins where the first one ended.
    let (again, sink) = collect::<String>();
    let run = App::new().handle(words.clone(), |word: String| word, sink).conf(conf()).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().sources.iter().any(|source| source.lanes.len() == 4)).await;
    words.send((String::from("k"), String::from("one more"))).await?;
    until(|| handle.stats().handled("words") == 1).await;
    handle.trigger();
    task.await.unwrap()?;
    assert_eq!(taken(&again), ["one more"]);
    Ok(())
}
