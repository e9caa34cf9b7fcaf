//! Proxies and caches as dependent and as dependency: a message counts when all that it brought about is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(feature = "rocksdb")]
use slipstream::app::State;
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Dependency};

use crate::world::{Running, World, collect};

/// Numbers of a proxy wait until those of another one are done, each of which takes a while.
async fn waits_for_slow_work(bind: impl FnOnce(App, Proxy<u32>, Arc<AtomicU32>) -> App) -> Result<()> {
    let (fast, slow) = (Proxy::<u32>::named("fast").external(), Proxy::<u32>::named("slow").external());
    let (dependent, dependency) = (fast.clone(), slow.clone());
    let checkpoint = Checkpoint::named("slow", move |it| {
        it.dependent(dependent.clone(), |n| *n).dependency(Dependency::new("slow", dependency.clone(), |n| *n)).hold()
    });
    let done = Arc::new(AtomicU32::new(0));
    let (seen, keep) = collect();
    let looks = Arc::clone(&done);
    let app = bind(App::new(), slow.clone(), done).handle(
        checkpoint.clone(),
        move |n: u32| (n, looks.load(Ordering::SeqCst)),
        keep,
    );
    let running = Running::start(app, World::memory().conf(0));
    until(|| running.is_reading()).await;
    let bring = async {
        for n in 1..=20_u32 {
            slow.send(n).await?;
        }
        Ok::<_, slipstream::Error>(())
    };
    let ask = async {
        for n in 1..20_u32 {
            fast.send(n).await?;
        }
        Ok(())
    };
    tokio::try_join!(bring, ask)?;
    until(|| seen.lock().unwrap().len() == 19).await;
    let early: Vec<(u32, u32)> = seen.lock().unwrap().iter().copied().filter(|(n, done)| done <= n).collect();
    assert!(early.is_empty(), "handled before what they depend on was done: {early:?}");
    running.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_with_lanes_of_its_own_counts_when_they_are_through() -> Result<()> {
    waits_for_slow_work(|app, slow, done| {
        let work = move |n: u32| {
            let done = Arc::clone(&done);
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(n % 3) * 8)).await;
                // In the order of the numbers, so that it says up to which all are done.
                until(|| done.compare_exchange(n - 1, n, Ordering::SeqCst, Ordering::SeqCst).is_ok()).await;
            }
        };
        app.handle(slow, work, ()).concurrency(4).key(|n: &u32| *n)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_whose_outputs_travel_counts_when_they_have_arrived() -> Result<()> {
    waits_for_slow_work(|app, slow, done| {
        let hop = Proxy::<u32>::named("hop");
        let arrive = move |n: u32| {
            let done = Arc::clone(&done);
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                done.store(n, Ordering::SeqCst);
            }
        };
        app.handle(slow, |n: u32| n, hop.clone()).handle(hop, arrive, ())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_messages_than_may_be_in_flight_pass_a_guarded_proxy() -> Result<()> {
    let (numbers, other) = (Proxy::<u32>::named("numbers"), Proxy::<u32>::named("other"));
    let (dependent, dependency) = (numbers.clone(), other.clone());
    let checkpoint = Checkpoint::named("many", move |it| {
        it.dependent(dependent.clone(), |n| *n).dependency(Dependency::new("other", dependency.clone(), |n| *n)).hold()
    });
    let (seen, keep) = collect::<u32>();
    let app = App::new()
        .handle(stream::iter(0..5000_u32), |n: u32| n, numbers)
        .handle(stream::iter(0..5001_u32), |n: u32| n, other.clone())
        .handle(other, |_: u32| (), ())
        .handle(checkpoint, |n: u32| n, keep);
    let conf = World::memory().conf(0).with("max.in.flight", "16");
    Running::start(app, conf).ended().await?;
    assert_eq!(*seen.lock().unwrap(), (0..5000).collect::<Vec<_>>());
    Ok(())
}
#[cfg(feature = "rocksdb")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_are_dependents_and_dependencies() -> Result<()> {
    let world = World::memory();
    let (weather, activity): (Cache<u64, u64>, Cache<u64, u64>) =
        (Cache::named("weather").external(), Cache::named("activity").external());
    let (dependent, dependency) = (activity.clone(), weather.clone());
    let checkpoint = Checkpoint::named("caches", move |it| {
        it.dependent(dependent.clone(), |change| change.0)
            .dependency(Dependency::new("weather", dependency.clone(), |change| change.0))
            .hold()
    });
    let (seen, keep) = collect();
    let of_join = weather.clone();
    let join =
        move |change: (u64, Option<u64>)| -> Result<(u64, Option<u64>)> { Ok((change.0, of_join.get(change.0)?)) };
    let times = 30_u64;
    let app = App::new().handle(checkpoint, join, keep).handle(weather.clone(), |_: (u64, Option<u64>)| (), ());
    let running = Running::start(app, world.conf(0));
    // Before that nobody reads the changes.
    until(|| running.handle.health().state == State::Running).await;
    for time in 0..times {
        activity.send(time, time).await?;
    }
    assert!(seen.lock().unwrap().is_empty(), "nothing is there yet");
    for time in 0..=times {
        weather.send(time, time * 10).await?;
    }
    until(|| seen.lock().unwrap().len() as u64 == times).await;
    assert_eq!(*seen.lock().unwrap(), (0..times).map(|time| (time, Some(time * 10))).collect::<Vec<_>>());
    running.stop().await
}

/// A topic fills a cache, whose changes are the dependency of another topic.
#[cfg(feature = "rocksdb")]
async fn a_cache_is_known_after_a_restart(world: World, holds: bool, is_crash: bool) -> Result<()> {
    let bring = async |part: &str, numbers: &[u32]| {
        let topic = world.alone::<u32>(part, 1);
        for n in numbers {
            topic.send((n.to_string(), *n)).await?;
        }
        topic.close().await
    };
    let (seen, keep) = collect();
    let start = || {
        let weather: Cache<u32, u32> = Cache::named("weather");
        let dependency = weather.clone();
        let activity: Topic<u32> = world.topic("activity", 1);
        let checkpoint = Checkpoint::named("join", move |it| {
            let it = it.dependent(activity.clone(), |message: &Message<u32>| message.value).dependency(
                Dependency::new("weather", dependency.clone(), |(at, _): &(u32, Option<u32>)| *at).threshold(0),
            );
            let it = it.single_member();
            if holds { it.hold() } else { it }
        });
        let rows = weather.clone();
        let join = move |n: u32| -> Result<(u32, u32)> {
            let last = rows.items().from(n).rev().iter().next().transpose()?;
            Ok((n, last.map_or(0, |(at, _)| at)))
        };
        let app = App::new().handle(world.topic::<u32>("readings", 1), |n: u32| (n, n), weather).handle(
            checkpoint.clone(),
            join,
            keep.clone(),
        );
        (checkpoint, Running::start(app, world.conf(0)))
    };
    bring("readings", &[10, 20, u32::MAX]).await?;
    bring("activity", &[15]).await?;
    let (_, running) = start();
    until(|| seen.lock().unwrap().contains(&(15, 10))).await;
    let lanes = || running.handle.health().sources.into_iter().flat_map(|own| own.lanes);
    until(|| lanes().all(|lane| lane.in_flight == 0 && lane.committed == lane.position)).await;
    if is_crash {
        running.crash().await;
    } else {
        running.stop().await?;
    }
    bring("activity", &[25]).await?;
    // A crash within the process lets go of the cache a moment later.
    let (checkpoint, running) = loop {
        let (checkpoint, running) = start();
        until(|| running.is_reading() || running.is_over()).await;
        if !is_crash || !running.is_over() {
            break (checkpoint, running);
        }
        assert_eq!(running.ended().await.unwrap_err().kind(), slipstream::Kind::Locked);
    };
    let is_there = || seen.lock().unwrap().contains(&(25, 20)) || running.is_over();
    let waited = tokio::time::timeout(Duration::from_secs(8), until(is_there)).await;
    assert!(waited.is_ok(), "{:?} {:?}", seen.lock().unwrap(), checkpoint.status());
    running.stop().await?;
    assert!(seen.lock().unwrap().contains(&(25, 20)));
    Ok(())
}

#[cfg(all(feature = "rocksdb", feature = "booblik"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cache_has_brought_is_known_after_a_restart() -> Result<()> {
    for (holds, is_crash) in [(true, false), (false, false), (true, true)] {
        a_cache_is_known_after_a_restart(World::embedded(), holds, is_crash).await?;
        a_cache_is_known_after_a_restart(World::memory(), holds, is_crash).await?;
    }
    Ok(())
}
