//! Futures that are dropped before they are ready (B-10, B-46): nothing is lost or comes twice inside the process, and
//! what they were made from stays usable.

use std::collections::BTreeMap;
use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;
#[cfg(feature = "rocksdb")]
use std::time::Duration;

use slipstream::Conf;
use slipstream::app::State;
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::{Memory, MemoryLimits};

use crate::scenarios::{collect, memory, taken};

/// Polls a future at most so often, and drops it if it is not ready by then.
async fn dropped_after<F: IntoFuture>(polls: usize, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future.into_future()), polls);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// B-10: one record per tick, raced against a timer 10⁵ times; a receive that lost its race has taken nothing with it.
#[tokio::test]
async fn b10_a_send_that_loses_a_race_against_a_timer_is_whole_or_nothing() -> Result<()> {
    const ROUNDS: u32 = 100_000;
    let proxy: Proxy<u32> = Proxy::named("raced").external().capacity(1);
    let (seen, sink) = collect::<u32>();
    let slow = |n: u32| async move {
        if n.is_multiple_of(3) {
            tokio::task::yield_now().await;
        }
        n
    };
    let run = App::new().handle(proxy.clone(), slow, sink).conf(memory()).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().state == State::Running).await;
    let mut accepted = Vec::new();
    for n in 0..ROUNDS {
        tokio::select! {
            biased;
            sent = proxy.send(n) => { sent?; accepted.push(n); }
            () = tokio::task::yield_now() => {}
        }
    }
    handle.trigger();
    task.await.unwrap()?;
    let all = taken(&seen);
    assert!(all.is_sorted(), "out of order");
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "one came twice");
    assert_eq!(all, accepted, "what was accepted and what arrived differ");
    assert!(accepted.len() > 1000, "the race was never won: {}", accepted.len());
    Ok(())
}

/// B-46: `deliver` dropped at each of its polls: the message arrives at most once, and the next one goes through.
#[tokio::test]
async fn b46_a_deliver_that_is_dropped_at_any_poll_leaves_the_proxy_usable() -> Result<()> {
    let proxy: Proxy<u32> = Proxy::named("delivered").external().capacity(1);
    let (seen, sink) = collect::<u32>();
    let slow = |n: u32| async move {
        tokio::task::yield_now().await;
        n
    };
    let run = App::new().handle(proxy.clone(), slow, sink).conf(memory()).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().state == State::Running).await;
    let mut done = Vec::new();
    for n in 0..2000_u32 {
        if let Some(delivered) = dropped_after(n as usize % 5, proxy.deliver(n)).await {
            delivered?;
            done.push(n);
        }
    }
    proxy.deliver(u32::MAX).await?;
    handle.trigger();
    task.await.unwrap()?;
    let all = taken(&seen);
    assert_eq!(all.last(), Some(&u32::MAX));
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "out of order, or twice: {all:?}");
    assert!(done.iter().all(|n| all.binary_search(n).is_ok()), "one that was done is missing");
    Ok(())
}

/// B-46: `Topic::send` dropped at each of its polls, most of them while the log is full.
#[tokio::test]
async fn b46_a_topic_send_that_is_dropped_at_any_poll_is_written_once_or_not_at_all() -> Result<()> {
    let limits = MemoryLimits::default().topic_bytes(256).partitions(1);
    let _broker = Memory::named_with("dropped-send", limits)?;
    let topic: Topic<u32> = Topic::named("sent").conf(&[("broker", "memory:dropped-send")]);
    let (seen, sink) = collect::<u32>();
    let conf = Conf::isolated().with("broker", "memory:dropped-send").with("commit.interval", "1ms");
    let run = App::new().handle(topic.clone(), |n: u32| n, sink).conf(conf).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().state == State::Running).await;
    let mut done = Vec::new();
    for n in 0..500_u32 {
        if let Some(receipt) = dropped_after(n as usize % 6, topic.send(n)).await {
            receipt?;
            done.push(n);
        }
    }
    topic.send(u32::MAX).await?;
    until(|| seen.lock().unwrap().last() == Some(&u32::MAX)).await;
    handle.trigger();
    task.await.unwrap()?;
    let mut times: BTreeMap<u32, usize> = BTreeMap::new();
    taken(&seen).into_iter().for_each(|n| *times.entry(n).or_default() += 1);
    assert!(times.values().all(|count| *count == 1), "{times:?}");
    assert!(done.iter().all(|n| times.contains_key(n)), "one that was acknowledged is missing");
    Ok(())
}

/// B-46: the whole run dropped after each number of polls: the next run begins where nothing is missing.
#[tokio::test]
async fn b46_a_run_that_is_dropped_at_any_poll_loses_nothing() -> Result<()> {
    const RECORDS: u32 = 200;
    let _broker = Memory::named("dropped-run");
    let conf = || {
        let conf = Conf::isolated().with("broker", "memory:dropped-run");
        conf.with("commit.interval", "1ms").with("max.in.flight", "8")
    };
    let topic: Topic<u32> = Topic::named("runs").partitions(2);
    App::new().handle(stream::iter(0..RECORDS), |n: u32| (n.to_string(), n), topic.clone()).conf(conf()).run().await?;
    let (seen, sink) = collect::<u32>();
    let app = || {
        let slow = |n: u32| async move {
            tokio::task::yield_now().await;
            n
        };
        App::new().handle(topic.clone(), slow, sink.clone()).conf(conf()).run()
    };
    for polls in 0..100 {
        // Woken at each turn of the runtime, so that the run is dropped at every stage of its life.
        let _gone = dropped_after(polls, futures::future::select(app().into_future(), pin!(ticking()))).await;
    }
    let run = app();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| (0..RECORDS).all(|n| seen.lock().unwrap().contains(&n))).await;
    handle.trigger();
    task.await.unwrap()
}

/// Wakes its task all the time.
async fn ticking() {
    loop {
        tokio::task::yield_now().await;
    }
}

/// B-46: a transaction that is dropped while it waits for a lock leaves no lock behind.
#[cfg(feature = "rocksdb")]
#[tokio::test]
async fn b46_a_transaction_dropped_while_it_waits_leaves_no_lock() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<u32, u32> = Cache::named("waiting");
    cache.open_in(dir.path())?;
    for polls in 0..50 {
        let held = cache.transaction(1).await?;
        let waits = cache.transaction_over([0, 1, 2]).into_future();
        assert!(dropped_after(polls % 4, futures::future::select(waits, pin!(ticking()))).await.is_none());
        drop(held);
        let mut next = cache.transaction_over([0, 1, 2]).timeout(Duration::from_secs(5)).await?;
        next.put(0, 1)?;
        next.commit()?;
    }
    let late = cache.transaction(0).await?;
    let refused = cache.transaction(0).timeout(Duration::from_millis(20)).await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(slipstream::Kind::Timeout));
    drop(late);
    cache.close()
}
