//! What a checkpoint knows when it begins: of a dependency that was read before, by whatever version of the app.

use std::time::Duration;

use slipstream::checkpoint::{Doing, Marker};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::{Memory, SeekTo};

use crate::world::{Running, World, collect};

/// Weather up to here, which is all that there is.
const CLOSING: u64 = 1_000;

struct Guarded {
    checkpoint: Checkpoint<Message<u64>>,
    weather: Topic<u64>,
    app: App,
}

/// An app of this world whose activities wait for the weather, with markers made by `mark`.
fn guarded<K: Marker>(
    world: &World,
    name: &str,
    mark: fn(u64) -> K,
    keep: impl Fn(u64) + Clone + Send + Sync + 'static,
    join: impl Fn(u64) + Clone + Send + Sync + 'static,
) -> Guarded {
    let weather: Topic<u64> = world.topic("weather", 2).broadcast();
    let (activity, dependency): (Topic<u64>, _) = (world.topic("activity", 1), weather.clone());
    let checkpoint = Checkpoint::named(name.to_owned(), move |it| {
        it.dependent(activity.clone(), move |message| mark(message.value))
            .dependency(Dependency::new("weather", dependency.clone(), move |message| mark(message.value)))
            .hold()
    });
    let app = App::new().handle(weather.clone(), move |n: u64| keep(n), ()).handle(
        checkpoint.clone(),
        move |n: u64| join(n),
        (),
    );
    Guarded { checkpoint, weather, app }
}

async fn write(world: &World) -> Result<()> {
    let weather = world.alone::<u64>("weather", 2);
    for key in 0..10_u64 {
        weather.send((key.to_string(), key)).await?;
    }
    for key in 0..10_u64 {
        weather.send((key.to_string(), CLOSING + key)).await?;
    }
    Ok(())
}

/// Handles one activity, and says how many outages there were on the way.
async fn handles(world: &World, guarded: Guarded, n: u64) -> Result<u64> {
    let (seen, keep) = collect();
    let Guarded { checkpoint, app, .. } = guarded;
    let app = app.handle(checkpoint.clone(), move |n: u64| keep(n), ());
    let running = Running::start(app, world.conf(0));
    world.alone::<u64>("activity", 1).send(n).await?;
    until(|| seen.lock().unwrap().contains(&n) || running.is_over()).await;
    let downs = checkpoint.status()?.counts.downs;
    running.stop().await?;
    Ok(downs)
}

async fn learns_from_the_last_message(world: World) -> Result<()> {
    write(&world).await?;
    let plain = guarded(&world, "first", |n| n, |_| (), |_| ());
    assert!(handles(&world, plain, 1).await? <= 1, "at most until the weather is there");
    let renamed = guarded(&world, "second", |n| n, |_| (), |_| ());
    handles(&world, renamed, 2).await?;
    let retyped = guarded(&world, "second", Duration::from_secs, |_| (), |_| ());
    handles(&world, retyped, 3).await?;
    let same = guarded(&world, "second", Duration::from_secs, |_| (), |_| ());
    assert_eq!(handles(&world, same, 4).await?, 0, "what was kept is there before it is compared");
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_of_another_name_or_kind_of_marker_learns_from_the_last_message_on_memory() -> Result<()> {
    learns_from_the_last_message(World::memory()).await
}

#[cfg(feature = "booblik")]
#[tokio::test]
async fn a_checkpoint_of_another_name_or_kind_of_marker_learns_from_the_last_message_on_a_log() -> Result<()> {
    learns_from_the_last_message(World::embedded()).await
}

#[cfg(feature = "kafka")]
#[tokio::test]
async fn a_checkpoint_of_another_name_or_kind_of_marker_learns_from_the_last_message_on_kafka() -> Result<()> {
    let Some(world) = World::kafka() else { return Ok(()) };
    learns_from_the_last_message(world).await
}

/// Where a partition has to begin is asked for when it is given to us, and the broker may be away just then.
#[tokio::test]
async fn a_partition_begins_when_its_broker_is_back() -> Result<()> {
    let world = World::memory();
    write(&world).await?;
    handles(&world, guarded(&world, "first", |n| n, |_| (), |_| ()), 1).await?;
    Memory::named(&world.id).be_silent(7);
    handles(&world, guarded(&world, "second", |n| n, |_| (), |_| ()), 2).await.map(drop)
}

#[tokio::test]
async fn a_dependency_that_is_sought_back_covers_nothing_until_it_is_there_again() -> Result<()> {
    let world = World::memory();
    write(&world).await?;
    let (seen, join) = collect();
    let own = guarded(&world, "join", |n| n, |_| (), join);
    let running = Running::start(own.app, world.conf(0));
    let activity = world.alone::<u64>("activity", 1);
    activity.send(1).await?;
    until(|| seen.lock().unwrap().len() == 1).await;
    own.weather.pause();
    own.weather.seek(SeekTo::Beginning).await?;
    activity.send(2).await?;
    until(|| own.checkpoint.status().is_ok_and(|status| status.doing == Doing::Holding)).await;
    assert_eq!(own.checkpoint.status()?.dependencies[0].marker, None);
    own.weather.resume();
    until(|| seen.lock().unwrap().len() == 2).await;
    running.stop().await
}

/// The joined state is a table that the dependency's handler fills: after a restart it may have to be built anew first.
#[cfg(all(feature = "rocksdb", feature = "booblik"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_stays_closed_until_the_dependency_s_table_is_current() -> Result<()> {
    let world = World::embedded();
    write(&world).await?;
    for life in 0..6_u64 {
        let table: Table<u64, u64> = Table::named("weather");
        let weather: Topic<u64> = world.topic("weather", 2).broadcast();
        let (activity, dependency): (Topic<u64>, _) = (world.topic("activity", 1), weather.clone());
        let checkpoint = Checkpoint::named("join", move |it| {
            it.dependent(activity.clone(), |message| message.value)
                .dependency(Dependency::new("weather", dependency.clone(), |message| message.value))
                .hold()
        });
        let (seen, join) = collect();
        let lookup = table.clone();
        let app = App::new()
            .handle(weather, |n: u64, rows: &mut Rows<u64, u64>| rows.put(n, n), ())
            .name("keep")
            .table(&table)
            .handle(checkpoint, move |n: u64| lookup.get(n).map(&join), ());
        if life % 2 == 1 {
            // As on another machine: rows and positions are gone, the topics are not.
            world.forget(0);
        }
        world.alone::<u64>("activity", 1).send(life).await?;
        let running = Running::start(app, world.conf(0));
        until(|| !seen.lock().unwrap().is_empty() || running.is_over()).await;
        assert!(seen.lock().unwrap().iter().all(Option::is_some), "looked up too early");
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_moves_a_partition_that_could_not_begin_yet_too() -> Result<()> {
    let world = World::memory();
    write(&world).await?;
    handles(&world, guarded(&world, "first", |n| n, |_| (), |_| ()), 1).await?;
    let (seen, keep) = collect();
    let own = guarded(&world, "second", |n| n, keep, |_| ());
    // Of two partitions one finds its broker silent.
    Memory::named(&world.id).be_silent(2);
    let running = Running::start(own.app, world.conf(0));
    let lanes = || {
        let health = running.handle.health();
        let weather = health.sources.iter().filter(|source| source.name.contains("weather"));
        weather.map(|source| source.lanes.len()).sum::<usize>()
    };
    until(|| lanes() == 1).await;
    own.weather.seek(SeekTo::Beginning).await?;
    until(|| lanes() == 2).await;
    let all = || (0..10).chain(1000..1010).all(|n| seen.lock().unwrap().contains(&n));
    until(all).await;
    running.stop().await
}
