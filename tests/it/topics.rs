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
