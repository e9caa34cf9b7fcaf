//! Dependencies that are read from another place than the one that was kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::SeekTo;
use slipstream::{Checkpoint, Dependency};

use crate::world::{Running, World, collect};

struct Shared {
    app: App,
    weather: Topic<u64>,
    rows: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// One group reads both: partitions of both come in one event.
fn shared(world: &World, latest: &Arc<AtomicU64>) -> Shared {
    let (weather, activity): (Topic<u64>, Topic<u64>) = (world.topic("weather", 1), world.topic("activity", 1));
    let dependency = weather.clone();
    let checkpoint = Checkpoint::named("sought", move |it| {
        it.dependent(activity.clone(), |message: &Message<u64>| message.value)
            .dependency(Dependency::new("weather", dependency.clone(), |message: &Message<u64>| message.value))
            .single_member()
            .hold()
    });
    let (store, lookup) = (Arc::clone(latest), Arc::clone(latest));
    let (rows, row) = collect();
    let slowly = move |n: u64| {
        let store = Arc::clone(&store);
        async move {
            // Whatever passes by what was kept has left by now.
            tokio::time::sleep(Duration::from_millis(300)).await;
            store.store(n, Ordering::SeqCst);
        }
    };
    let app = App::new().handle(weather.clone(), slowly, ()).handle(
        checkpoint,
        move |n: u64| (n, lookup.load(Ordering::SeqCst)),
        row,
    );
    Shared { app, weather, rows }
}

/// Where an assignment takes a while, a seek comes before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_that_comes_before_the_assignment_takes_back_what_was_kept() -> Result<()> {
    let Some(world) = World::kafka() else { return Ok(()) };
    let latest = Arc::new(AtomicU64::new(0));
    let (to_weather, to_activity) = (world.alone::<u64>("weather", 1), world.alone::<u64>("activity", 1));
    for n in [10, 1000] {
        to_weather.send(n).await?;
    }
    to_activity.send(5).await?;
    let own = shared(&world, &latest);
    let running = Running::start(own.app, world.conf(0));
    until(|| own.rows.lock().unwrap().len() == 1 && latest.load(Ordering::SeqCst) == 1000).await;
    running.stop().await?;
    // What its handlers have kept is gone, and so is to be the position.
    latest.store(0, Ordering::SeqCst);
    to_activity.send(500).await?;
    let Shared { app, weather, rows } = shared(&world, &latest);
    let run = app.run().conf(world.conf(0)).signals(slipstream::Signals::Ignore);
    let handle = run.handle();
    let seen = Arc::clone(&rows);
    run.beside(async move |_stop| {
        until(|| handle.health().sources.len() == 2).await;
        weather.seek(SeekTo::Beginning).await?;
        assert!(handle.health().sources.iter().all(|own| own.lanes.is_empty()), "it came too late");
        until(|| !seen.lock().unwrap().is_empty()).await;
        handle.trigger();
        Ok(())
    })
    .await?;
    assert_eq!(*rows.lock().unwrap(), [(500, 1000)], "covered by a marker that the seek took back");
    to_weather.close().await?;
    to_activity.close().await
}
