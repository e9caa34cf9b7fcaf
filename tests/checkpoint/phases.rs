//! What a checkpoint says of itself in each phase, and what moves while it waits.

use std::time::Duration;

use slipstream::checkpoint::{AtLimit, Doing, Gap, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Dependency};

use crate::bound::{Bound, PAUSED, counted};
use crate::world::{Running, World, collect};

/// What it does and will do, who pauses the dependent, lanes with a message at the gate, and the outage.
fn says(own: &Bound) -> (Doing, String, bool, usize, Option<u64>) {
    let status = own.status();
    (status.doing, status.next, own.paused_by() == PAUSED, status.held_lanes, status.outage)
}

fn shown(
    doing: Doing,
    next: &str,
    is_paused: bool,
    held_lanes: usize,
    outage: Option<u64>,
) -> (Doing, String, bool, usize, Option<u64>) {
    (doing, next.to_owned(), is_paused, held_lanes, outage)
}

/// With 10 brought, and the messages sent; `phase` waits for what is to be shown.
async fn in_phase(
    messages: &[i64],
    phase: Doing,
    declare: impl Fn(Guard<i64>) -> Guard<i64> + Send + Sync + 'static,
) -> Bound {
    let own = counted(move |guard, [first, _]| declare(guard.dependency(first).threshold(0)));
    own.reaches("first", 10).await;
    for n in messages {
        own.send(*n).await;
    }
    own.is(phase).await;
    own
}

#[tokio::test]
async fn each_phase_says_what_is_done_and_what_comes_next() -> Result<()> {
    let own = in_phase(&[5], Doing::Running, |guard| guard).await;
    until(|| own.handled() == [5]).await;
    assert_eq!(says(&own), shown(Doing::Running, "nothing", false, 0, None));
    own.running.stop().await?;

    let own = in_phase(&[20, 21], Doing::Paused, |guard| guard).await;
    until(|| own.status().held_lanes == 1).await;
    assert_eq!(says(&own), shown(Doing::Paused, "waits for first, then goes on", true, 1, Some(1)));
    own.running.stop().await?;

    let own = in_phase(&[20], Doing::Holding, Guard::hold).await;
    assert_eq!(says(&own), shown(Doing::Holding, "waits for first, then goes on", true, 1, Some(1)));
    own.running.stop().await?;

    // Nothing is paused where that was not asked for.
    let own = in_phase(&[20], Doing::Overridden, |guard| guard.pause_dependent(false)).await;
    assert_eq!(says(&own), shown(Doing::Overridden, "goes on without first; when back, goes on", false, 0, Some(1)));
    own.running.stop().await?;

    for holds in [false, true] {
        let own = in_phase(&[20, 21], if holds { Doing::Holding } else { Doing::Paused }, move |guard| {
            if holds { guard.hold() } else { guard }
        })
        .await;
        assert!(own.resume_anyway());
        until(|| own.handled() == [20, 21]).await;
        let next = "goes on without first; when back, goes on";
        assert_eq!(says(&own), shown(Doing::Overridden, next, false, 0, Some(1)));
        own.running.stop().await?;
    }

    let limited = |guard: Guard<i64>| guard.max_pause(Duration::from_millis(20), AtLimit::Resume);
    let own = in_phase(&[20], Doing::Overridden, limited).await;
    assert_eq!(says(&own), shown(Doing::Overridden, "goes on without first; when back, goes on", false, 0, Some(1)));
    own.running.stop().await?;

    let hangs = |guard: Guard<i64>| guard.on_recovery(|_| std::future::pending::<()>());
    let own = in_phase(&[20], Doing::Paused, hangs).await;
    own.reaches("first", 30).await;
    own.is(Doing::Recovering).await;
    until(|| own.status().next.contains("on_recovery")).await;
    assert_eq!(says(&own), shown(Doing::Recovering, "waits for `on_recovery`, then goes on", true, 0, Some(1)));
    own.running.stop().await
}

#[tokio::test]
async fn while_a_dependency_has_its_grace_messages_wait_and_that_is_no_outage() -> Result<()> {
    let own = counted(|guard, [first, _]| guard.dependency(first).threshold(0).grace_on_start(Duration::from_mins(10)));
    own.send(5).await;
    own.is(Doing::Starting).await;
    assert_eq!(says(&own), shown(Doing::Starting, "waits for first to begin", true, 1, None));
    own.reaches("first", 6).await;
    until(|| own.handled() == [5]).await;
    assert_eq!(says(&own), shown(Doing::Running, "nothing", false, 0, None));
    assert_eq!(own.status().counts.downs, 0);
    own.running.stop().await
}

#[tokio::test]
async fn where_it_can_go_back_it_says_so() -> Result<()> {
    let world = World::memory();
    let (weather, activity): (Topic<i64>, Topic<i64>) =
        (world.topic("weather", 1).broadcast(), world.topic("activity", 1));
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = Checkpoint::named("back", move |it| {
        it.dependent(on_activity.clone(), |m| m.value)
            .dependency(Dependency::new("weather", on_weather.clone(), |m| m.value))
            .threshold(0)
            .on_recovery(|_| std::future::pending::<()>())
    });
    let (seen, keep) = collect::<i64>();
    let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), world.conf(0));
    until(|| checkpoint.status().is_ok()).await;
    let (to_weather, to_activity) = (world.alone::<i64>("weather", 1), world.alone::<i64>("activity", 1));
    to_weather.send(10).await?;
    to_activity.send(20).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Paused)).await;
    until(|| seen.lock().unwrap().len() == 1).await;
    assert_eq!(checkpoint.status()?.next, "waits for weather, then goes back in 1 partitions");
    to_weather.send(30).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Recovering)).await;
    until(|| checkpoint.status().is_ok_and(|status| status.next.contains("on_recovery"))).await;
    assert_eq!(checkpoint.status()?.next, "waits for `on_recovery`, then goes back in 1 partitions");
    running.stop().await
}

#[tokio::test]
async fn how_far_behind_a_dependency_is_moves_during_the_outage() -> Result<()> {
    for holds in [false, true] {
        let own = counted(move |guard, [first, _]| {
            let guard = guard.dependency(first).threshold(0);
            if holds { guard.hold() } else { guard }
        });
        own.reaches("first", 10).await;
        own.send(1_000).await;
        own.is(if holds { Doing::Holding } else { Doing::Paused }).await;
        assert_eq!(own.behind("first"), Some("990".to_owned()));
        for (marker, behind) in [(500, "500"), (990, "10"), (1_000, "0")] {
            own.reaches("first", marker).await;
            assert_eq!(own.behind("first"), Some(behind.to_owned()), "at {marker}");
        }
        own.reaches("first", 1_001).await;
        own.is(Doing::Running).await;
        assert_eq!(own.behind("first"), None);
        own.running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn each_outage_has_the_whole_of_its_limit() -> Result<()> {
    let own = counted(|guard, [first, _]| {
        guard.dependency(first).threshold(0).max_pause(Duration::from_millis(20), AtLimit::Resume)
    });
    for (at, overrides) in [(10, 1), (100, 2), (200, 3)] {
        own.reaches("first", at).await;
        own.is(Doing::Running).await;
        own.send(at + 10).await;
        until(|| own.status().counts.overrides == overrides).await;
        own.is(Doing::Overridden).await;
    }
    own.running.stop().await
}

#[tokio::test]
async fn what_was_let_through_by_hand_stays_open_until_the_dependency_is_back() -> Result<()> {
    let own = counted(|guard, [first, _]| guard.dependency(first).hold());
    own.reaches("first", 10).await;
    own.send(100).await;
    own.is(Doing::Holding).await;
    assert!(own.resume_anyway());
    until(|| own.handled() == [100]).await;
    own.reaches("first", 50).await;
    assert_eq!(own.pulse(101).await.unwrap().to_string(), "first: 51");
    own.reaches("first", 102).await;
    own.is(Doing::Running).await;
    own.send(200).await;
    own.is(Doing::Holding).await;
    assert_eq!((own.handled(), own.status().outage), (vec![100, 101], Some(2)));
    own.running.stop().await
}

/// Its answer takes longer than the time between two heartbeats.
#[tokio::test(start_paused = true)]
async fn a_slow_check_lets_the_dependent_go_on_however_often_the_dependency_is_heard() -> Result<()> {
    let (asked, ask) = collect();
    let own = counted(move |guard, [first, _]| {
        let ask = ask.clone();
        let check = move |gap: Gap| {
            ask(());
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                gap.marker >= gap.dependency_marker
            }
        };
        guard.dependency(first.downtime_check(check)).threshold(0)
    });
    own.reaches("first", 1_000).await;
    let heartbeats = async {
        for n in 1_001.. {
            own.bring("first", n).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let messages = async {
        for n in 0..20 {
            own.send(n).await;
        }
        until(|| own.handled().len() == 20).await;
    };
    let began = tokio::time::Instant::now();
    tokio::select! {
        () = heartbeats => {}
        () = messages => {}
    }
    assert_eq!(own.handled(), (0..20).collect::<Vec<_>>());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(asked.lock().unwrap().len() <= 22, "asked {} times", asked.lock().unwrap().len());
    own.running.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_check_that_never_answers_is_said_aloud() -> Result<()> {
    let conf = slipstream::Conf::isolated().with("watchdog.timeout", "30s");
    let own = crate::bound::counted_with(conf, |guard, [first, _]| {
        guard.dependency(first.downtime_check(|_: Gap| std::future::pending::<bool>())).threshold(0)
    });
    own.reaches("first", 10).await;
    own.send(5).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let health = own.running.handle.health();
    let is_told = |notice: &String| notice.ends_with("for more than 30s it waits for the answer of a check");
    assert!(!health.ok && health.notices.iter().any(is_told), "{health:?}");
    assert_eq!(own.checkpoint.status()?.doing, Doing::Asking);
    own.running.stop().await
}

/// For each of the first partitions of four a key that lies there.
async fn keys_of(world: &World, partitions: usize) -> Result<Vec<String>> {
    let other = world.alone::<i64>("keys", 4);
    let mut keys = vec![None; partitions];
    for n in 0.. {
        let key = n.to_string();
        let receipt = other.send((key.clone(), 0)).await?;
        if let Some(own) = usize::try_from(receipt.partition).ok().and_then(|partition| keys.get_mut(partition)) {
            own.get_or_insert(key);
        }
        if keys.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(keys.into_iter().flatten().collect())
}

/// 4 partitions, one empty; all input stops, at whatever moment of the clock's looks.
#[tokio::test(start_paused = true)]
async fn b_41_when_all_fall_silent_together_the_empty_partition_holds_nothing_back() -> Result<()> {
    for delay in [None, Some(0), Some(40), Some(90), Some(130), Some(210), Some(390)] {
        let world = World::memory();
        let (keys, writer) = (keys_of(&world, 3).await?, world.alone::<i64>("weather", 4));
        let write = async || {
            for key in &keys {
                writer.send((key.clone(), 9)).await?;
            }
            Ok::<_, slipstream::Error>(())
        };
        if delay.is_none() {
            // All of it is read at once.
            write().await?;
        }
        let weather: Topic<i64> = world.topic("weather", 4).broadcast();
        let dependency = weather.clone();
        let checkpoint = Checkpoint::named("silent", move |it| {
            let weather =
                Dependency::new("weather", dependency.clone(), |m| m.value).idle_after(Duration::from_millis(400));
            it.dependent(stream::iter(0..3_i64).chain(stream::pending()), |n| *n).dependency(weather).hold()
        });
        let (seen, keep) = collect::<i64>();
        let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), world.conf(0));
        until(|| checkpoint.status().is_ok()).await;
        if let Some(delay) = delay {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            write().await?;
        }
        until(|| seen.lock().unwrap().len() == 3).await;
        assert_eq!(checkpoint.status()?.counts.late, 0);
        // Late arrivals are counted.
        writer.send((keys[1].clone(), 1)).await?;
        until(|| checkpoint.status().is_ok_and(|status| status.counts.late == 1)).await;
        running.stop().await?;
    }
    Ok(())
}
