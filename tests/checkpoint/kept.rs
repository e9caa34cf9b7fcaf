//! What is kept of dependencies and of outages, over restarts.

use slipstream::checkpoint::{Doing, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;

use crate::joined::Joined;
use crate::world::World;

const CLOSING: i64 = i64::MAX;

fn in_mode(holds: bool) -> impl Fn(Guard<Message<i64>>) -> Guard<Message<i64>> + Send + Sync {
    move |guard| {
        let guard = guard.threshold(0);
        if holds { guard.hold() } else { guard }
    }
}

/// A dependency that has said all it had to say is not down after a restart, although it brings nothing more.
async fn what_a_dependency_has_brought_is_known_after_a_restart(
    world: impl Fn() -> Option<World>,
    kills: bool,
) -> Result<()> {
    for (holds, is_shared) in [(false, false), (false, true), (true, false), (true, true)] {
        let Some(world) = world() else { return Ok(()) };
        let own = if is_shared {
            Joined::shared(world, &["weather"], in_mode(holds))
        } else {
            Joined::new(world, &["weather"], 1, in_mode(holds))
        };
        let running = own.start();
        until(|| own.checkpoint.status().is_ok()).await;
        for n in [10, CLOSING] {
            own.send("weather", n).await;
        }
        // What is kept does not go down.
        until(|| own.committed(&running, "weather") == Some(2)).await;
        own.send("weather", 9).await;
        own.send("activity", 15).await;
        own.has(1).await;
        until(|| own.committed(&running, "weather") == Some(3) && own.committed(&running, "activity") == Some(1)).await;
        if kills {
            running.crash().await;
        } else {
            running.stop().await?;
        }

        own.send("activity", 20).await;
        let running = own.start();
        own.has(2).await;
        let status = own.checkpoint.status()?;
        let what = format!("holds {holds}, shared {is_shared}: {status:?}");
        assert_eq!((status.counts.downs, status.outage, status.doing), (0, None, Doing::Running), "{what}");
        assert_eq!(status.dependencies[0].marker, Some(CLOSING.to_string()), "{what}");
        assert_eq!(own.rows(), [(15, vec![Some(10)]), (20, vec![Some(10)])], "{what}");
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn cp_2_on_memory_what_a_dependency_has_brought_is_known_after_a_restart() -> Result<()> {
    for kills in [false, true] {
        what_a_dependency_has_brought_is_known_after_a_restart(|| Some(World::memory()), kills).await?;
    }
    Ok(())
}

#[cfg(feature = "booblik")]
#[tokio::test]
async fn cp_2_in_a_log_in_the_process_what_a_dependency_has_brought_is_known_after_a_restart() -> Result<()> {
    for kills in [false, true] {
        what_a_dependency_has_brought_is_known_after_a_restart(|| Some(World::embedded()), kills).await?;
    }
    Ok(())
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cp_2_on_kafka_what_a_dependency_has_brought_is_known_after_a_restart() -> Result<()> {
    what_a_dependency_has_brought_is_known_after_a_restart(World::kafka, false).await
}

#[tokio::test]
async fn whichever_of_two_was_down_a_restart_waits_for_it_before_the_first_dispatch() -> Result<()> {
    for (up, down) in [("weather", "news"), ("news", "weather")] {
        let own = Joined::new(World::memory(), &["weather", "news"], 1, in_mode(false));
        let running = own.start();
        until(|| own.checkpoint.status().is_ok()).await;
        own.reaches(up, 30).await;
        own.reaches(down, 10).await;
        own.send("activity", 20).await;
        own.send("activity", 21).await;
        own.has(1).await;
        until(|| own.committed(&running, "activity") == Some(1)).await;
        running.crash().await;

        let running = own.start();
        own.is(Doing::Paused).await;
        let status = own.checkpoint.status()?;
        assert_eq!(status.next, format!("waits for {down}, then goes on"), "it begins there");
        assert!(status.dependencies.iter().all(|own| own.is_down == (own.name == down)), "{status:?}");
        own.reaches(down, 15).await;
        assert_eq!(own.numbers(), [20]);
        own.reaches(down, 22).await;
        own.has(3).await;
        assert_eq!(own.rows()[1..], [(20, late(down, 15)), (21, late(down, 15))]);
        running.stop().await?;
    }
    Ok(())
}

/// Nothing is known of the one, for it is at 30; of the other this.
fn late(down: &str, known: i64) -> Vec<Option<i64>> {
    if down == "weather" { vec![Some(known), None] } else { vec![None, Some(known)] }
}

#[tokio::test]
async fn what_was_covered_meanwhile_does_not_come_again_after_a_restart() -> Result<()> {
    let own = Joined::new(World::memory(), &["weather"], 1, |guard| guard.threshold(100));
    let running = own.start();
    until(|| own.checkpoint.status().is_ok()).await;
    own.reaches("weather", 10).await;
    own.send("activity", 20).await; // within the threshold, and not covered
    own.has(1).await;
    until(|| own.committed(&running, "activity") == Some(1)).await;
    // The position does not move, what is kept with it does.
    own.reaches("weather", 21).await;
    running.stop().await?;

    own.send("activity", 5).await;
    let running = own.start();
    own.has(2).await;
    assert_eq!(own.numbers(), [20, 5]);
    assert_eq!(own.checkpoint.status()?.counts.downs, 0);
    running.stop().await
}

#[tokio::test]
async fn what_is_not_covered_by_then_comes_again_after_a_restart() -> Result<()> {
    let own = Joined::new(World::memory(), &["weather"], 1, |guard| guard.threshold(100));
    let running = own.start();
    until(|| own.checkpoint.status().is_ok()).await;
    own.reaches("weather", 10).await;
    own.send("activity", 20).await;
    own.has(1).await;
    until(|| own.committed(&running, "activity") == Some(1)).await;
    running.crash().await;

    own.send("weather", 15).await;
    let running = own.start();
    own.has(2).await;
    assert_eq!(own.numbers(), [20, 20]);
    running.stop().await
}
