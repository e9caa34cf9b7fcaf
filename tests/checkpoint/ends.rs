//! Nothing hangs: a dependency that ends, one that never starts, silence, and the end of a run while something waits.

use std::time::Duration;

use slipstream::checkpoint::{AtLimit, Doing};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Conf, Dependency, Kind, SharedStream};

use crate::world::{Running, World, collect};

fn ahead(_: u32) {
    panic!("it is ahead");
}

#[tokio::test]
async fn d_9_a_dependency_that_ends_covers_everything_and_the_run_ends() -> Result<()> {
    for hold in [true, false] {
        let plan = move |it: slipstream::checkpoint::Begin| {
            let guard = it
                .dependent(stream::iter(0..100_u32), |n| *n)
                .dependency(Dependency::new("short", stream::iter([3_u32]), |n| *n))
                .threshold(0);
            if hold { guard.hold() } else { guard }
        };
        let (seen, keep) = collect::<u32>();
        let app = App::new().handle(Checkpoint::named("ended", plan), keep, ());
        Running::start(app, Conf::isolated()).ended().await?;
        assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b_44_a_dependency_that_never_starts_is_reported_and_its_limit_ends_the_run_or_the_pause() -> Result<()> {
    for then in [AtLimit::Stop, AtLimit::Resume] {
        let silent = Proxy::<u32>::named("silent").external();
        let plan = move |it: slipstream::checkpoint::Begin| {
            it.dependent(stream::iter(0..3_u32).chain(stream::pending()), |n| *n)
                .dependency(Dependency::new("silent", silent.clone(), |n| *n))
                .threshold(0)
                .max_pause(Duration::from_mins(5), then)
        };
        let checkpoint = Checkpoint::named("limited", plan);
        let (seen, keep) = collect::<u32>();
        let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), Conf::isolated());
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(*seen.lock().unwrap(), [0], "the first is handled, then it pauses");
        let health = running.handle.health();
        assert!(!health.ok && health.notices[0].starts_with("checkpoint limited: for more than 60s"), "{health:?}");
        assert_eq!(checkpoint.status()?.dependencies[0].held_back_by, [0]);
        tokio::time::sleep(Duration::from_mins(4)).await;
        if then == AtLimit::Stop {
            let error = running.ended().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Timeout);
            assert!(error.to_string().contains("waits for silent"), "{error}");
        } else {
            assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
            assert_eq!(checkpoint.status()?.doing, Doing::Overridden);
            running.stop().await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dependency_has_its_grace_and_then_the_first_message_reveals_that_it_is_missing() -> Result<()> {
    let late = Proxy::<u32>::named("late").external();
    let dependency = late.clone();
    let checkpoint = Checkpoint::named("grace", move |it| {
        it.dependent(stream::iter(0..3_u32).chain(stream::pending()), |n| *n)
            .dependency(Dependency::new("late", dependency.clone(), |n| *n))
            .threshold(0)
            .grace_on_start(Duration::from_secs(10))
    });
    let (seen, keep) = collect::<u32>();
    let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), Conf::isolated());
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(checkpoint.status()?.counts.downs, 0);
    late.send(9).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    running.stop().await
}

#[tokio::test(start_paused = true)]
async fn b_41_a_silent_partition_leaves_the_minimum_when_that_is_declared() -> Result<()> {
    let world = World::memory();
    let weather: Topic<u32> = world.topic("weather", 4).broadcast();
    let dependency = weather.clone();
    let checkpoint = Checkpoint::named("idle", move |it| {
        let weather = Dependency::new("weather", dependency.clone(), |m| m.value).idle_after(Duration::from_secs(30));
        it.dependent(stream::iter(0..3_u32).chain(stream::pending()), |n| *n).dependency(weather).hold()
    });
    let (seen, keep) = collect::<u32>();
    let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), world.conf(0));
    let writer = world.alone::<u32>("weather", 4);
    writer.send(("key".to_owned(), 8)).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(checkpoint.status()?.dependencies[0].held_back_by.len(), 3);
    writer.send(("key".to_owned(), 9)).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2], "{:?}", checkpoint.status());
    running.stop().await
}

#[tokio::test]
async fn what_waits_at_the_gate_does_not_hold_up_the_end_and_comes_again() -> Result<()> {
    let world = World::memory();
    let (weather, activity): (Topic<u32>, Topic<u32>) =
        (world.topic("weather", 1).broadcast(), world.topic("activity", 1));
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = Checkpoint::named("held", move |it| {
        it.dependent(on_activity.clone(), |m| m.value)
            .dependency(Dependency::new("weather", on_weather.clone(), |m| m.value))
            .hold()
    });
    let writer = world.alone::<u32>("activity", 1);
    writer.send(7).await?;
    let began = std::time::Instant::now();
    for _ in 0..2 {
        let app = App::new().handle(checkpoint.clone(), ahead, ());
        let running = Running::start(app, world.conf(0));
        until(|| checkpoint.status().is_ok_and(|status| status.held_lanes == 1)).await;
        running.stop().await?;
    }
    assert!(began.elapsed() < Duration::from_secs(20), "far below the drain timeout");
    world.alone::<u32>("weather", 1).send(8).await?;
    let (seen, keep) = collect::<u32>();
    let running = Running::start(App::new().handle(checkpoint, keep, ()), world.conf(0));
    until(|| *seen.lock().unwrap() == [7]).await;
    running.stop().await
}

#[tokio::test]
async fn the_wait_at_the_gate_counts_towards_no_timeout() -> Result<()> {
    static SLOW: SharedStream<u32> = SharedStream::new("slow", || {
        stream::once(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            9
        })
        .boxed()
    });
    static CHECKPOINT: Checkpoint<u32> = Checkpoint::new("patient", |it| {
        it.dependent(stream::iter(0..3_u32), |n| *n).dependency(Dependency::new("slow", &SLOW, |n| *n)).hold()
    });
    let (seen, keep) = collect::<u32>();
    let app =
        App::new().handle(&CHECKPOINT, keep, ()).timeout(Duration::from_millis(50)).handle(&SLOW, |_: u32| (), ());
    Running::start(app, Conf::isolated()).ended().await?;
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_held_proxy_does_not_hold_up_the_end() -> Result<()> {
    let (a, b) = (Proxy::<u32>::named("a"), Proxy::<u32>::named("b").external());
    let (on_a, on_b) = (a.clone(), b.clone());
    let checkpoint = Checkpoint::named("proxies", move |it| {
        it.dependent(on_a.clone(), |n| *n).dependency(Dependency::new("b", on_b.clone(), |n| *n)).hold()
    });
    let numbers = stream::iter(0..5_000_u32).chain(stream::pending());
    let app = App::new().handle(numbers, |n: u32| n, a).handle(checkpoint.clone(), ahead, ());
    let running = Running::start(app, Conf::isolated());
    until(|| checkpoint.status().is_ok_and(|status| status.held_lanes == 1)).await;
    let began = std::time::Instant::now();
    running.stop().await?;
    assert!(began.elapsed() < Duration::from_secs(20), "far below the drain timeout");
    Ok(())
}

#[tokio::test]
async fn a_marker_that_panics_ends_the_run_and_says_whose_it_is() {
    for side in ["dependent", "dependency"] {
        let checkpoint = Checkpoint::named("panics", move |it| {
            let fail = move |own: &str| assert!(own != side, "no marker");
            it.dependent(stream::iter([5_u32]), move |n| {
                fail("dependent");
                *n
            })
            .dependency(Dependency::new("it", stream::iter([6_u32]), move |n| {
                fail("dependency");
                *n
            }))
            .hold()
        });
        let app = App::new().handle(checkpoint, |_: u32| (), ());
        let error = Running::start(app, Conf::isolated()).ended().await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Panic, "checkpoint panics: panicked: no marker"));
    }
}
