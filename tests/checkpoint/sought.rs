//! Partitions that are read from another place: dependencies after a seek, dependents whose log has dropped what they go
//! back to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::checkpoint::Doing;
use slipstream::prelude::*;
use slipstream::testing::until;
#[cfg(feature = "booblik")]
use slipstream::topic::OutOfRange;
use slipstream::topic::{Memory, MemoryLimits};
use slipstream::{Checkpoint, Conf, Dependency};

use crate::world::{Running, World, collect};

#[cfg(feature = "kafka")]
struct Shared {
    app: App,
    weather: Topic<u64>,
    rows: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// One group reads both: partitions of both come in one event.
#[cfg(feature = "kafka")]
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
#[cfg(feature = "kafka")]
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
        weather.seek(slipstream::topic::SeekTo::Beginning).await?;
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

/// Numbers that are joined to the latest one of the weather, and corrected.
struct Corrected {
    running: Running,
    checkpoint: Checkpoint<Message<u64>>,
    weather: Topic<u64>,
    rows: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Corrected {
    /// Paused after 20, when the weather is at 10.
    async fn paused(weather: Topic<u64>, activity: Topic<u64>, conf: Conf) -> Result<Self> {
        let (dependent, dependency) = (activity.clone(), weather.clone());
        let checkpoint = Checkpoint::named("corrected", move |it| {
            it.dependent(dependent.clone(), |message: &Message<u64>| message.value)
                .dependency(Dependency::new("weather", dependency.clone(), |message: &Message<u64>| message.value))
                .threshold(0)
        });
        let latest = Arc::new(AtomicU64::new(0));
        let (store, lookup) = (Arc::clone(&latest), latest);
        let (rows, row) = collect();
        let app = App::new().handle(weather.clone(), move |n: u64| store.store(n, Ordering::SeqCst), ()).handle(
            checkpoint.clone(),
            move |n: u64| (n, lookup.load(Ordering::SeqCst)),
            row,
        );
        let own = Self { running: Running::start(app, conf), checkpoint, weather, rows };
        until(|| own.running.is_reading()).await;
        own.weather.send(10).await?;
        let is_at_10 = |status: slipstream::checkpoint::Status| status.dependencies[0].marker.as_deref() == Some("10");
        until(|| own.checkpoint.status().is_ok_and(is_at_10)).await;
        activity.send(20).await?;
        own.is(Doing::Paused).await;
        let committed = |own: &slipstream::app::SourceHealth| own.lanes.iter().map(|lane| lane.committed).collect();
        let of_activity = || -> Option<Vec<Option<i64>>> {
            let health = own.running.handle.health();
            health.sources.iter().find(|own| own.name.ends_with("activity")).map(committed)
        };
        until(|| of_activity().is_some_and(|all| all.contains(&Some(1)))).await;
        Ok(own)
    }

    async fn is(&self, doing: Doing) {
        until(|| self.checkpoint.status().is_ok_and(|status| status.doing == doing)).await;
    }

    fn last_of(&self, n: u64) -> Option<u64> {
        self.rows.lock().unwrap().iter().rev().find(|row| row.0 == n).map(|row| row.1)
    }
}

/// The log drops what was handled too early during the outage, and more than that, which was not read yet.
#[cfg(feature = "booblik")]
async fn after_retention(policy: OutOfRange) -> Result<(Vec<(u64, u64)>, Result<()>)> {
    use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions, TopicOptions};
    let folder = tempfile::tempdir()?;
    let keep = TopicOptions { segment_bytes: 400, retention_bytes: Some(1500), ..TopicOptions::default() };
    let options =
        BrokerOptions { default: keep, retention_check: Duration::from_millis(20), ..BrokerOptions::default() };
    let broker = Broker::open(folder.path().join("log"), options).await?;
    for name in ["weather", "activity"] {
        broker.ensure_topic(name, 1).await?;
    }
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
    let conf = Conf::isolated()
        .with("broker", format!("booblik://{}", server.local_addr()))
        .with("encoding", "envelope")
        .with("app.id", "retention")
        .with("state.dir", folder.path().join("state").display().to_string())
        .with("commit.interval", "5ms");
    let activity: Topic<u64> = Topic::named("activity").out_of_range(policy);
    let own = Corrected::paused(Topic::named("weather"), activity.clone(), conf).await?;
    for n in 21..=220 {
        activity.send(n).await?;
    }
    let log = broker.partition("activity", 0)?;
    // It goes on in steps, until what is left is small enough.
    let (mut last, mut looks) = (0, 0);
    let is_settled = || {
        let start = log.log_start();
        looks = if start == last { looks + 1 } else { 0 };
        last = start;
        start > 100 && looks > 100
    };
    until(is_settled).await;
    own.weather.send(10_000).await?;
    until(|| own.running.is_over() || own.checkpoint.status().is_ok_and(|status| status.doing == Doing::Running)).await;
    let result = if own.running.is_over() {
        own.running.ended().await
    } else {
        activity.send(300).await?;
        let is_there = || own.rows.lock().unwrap().iter().any(|row| row.0 == 300);
        until(is_there).await;
        assert_eq!(own.checkpoint.status()?.counts.rewinds, 1, "what is gone is not gone back to again");
        own.running.stop().await
    };
    server.shutdown().await;
    let rows = own.rows.lock().unwrap().clone();
    Ok((rows, result))
}

#[cfg(feature = "booblik")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_retention_has_passed_the_position_the_policy_says_where_a_rewind_goes() -> Result<()> {
    let (rows, result) = after_retention(OutOfRange::Earliest).await?;
    result?;
    let numbers: Vec<u64> = rows.iter().map(|row| row.0).collect();
    let (first, rest) = (numbers[0], &numbers[1..]);
    let whole: Vec<u64> = (rest[0]..=220).chain([300]).collect();
    assert!(first == 20 && rest[0] > 21 && rest == whole, "{numbers:?}");
    assert!(rows[1..].iter().all(|row| row.1 == 10_000), "{rows:?}");

    let (rows, result) = after_retention(OutOfRange::Latest).await?;
    result?;
    assert_eq!(rows, [(20, 10), (300, 10_000)]);

    let (_, result) = after_retention(OutOfRange::Stop).await?;
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.place()), (slipstream::Kind::OutOfRange, Some("activity[0]@1")), "{error}");
    assert!(error.to_string().contains("Say with `.out_of_range(…)` where to go on"), "{error}");
    Ok(())
}

/// Its bounded log keeps what the app has to read again, as it does for groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_topic_in_memory_keeps_what_is_to_be_corrected_for_who_reads_it_whole() -> Result<()> {
    const BOUND: usize = 4000;
    for is_broadcast in [false, true] {
        let world = World::memory();
        let name = world.name(&format!("small-{is_broadcast}"));
        let memory = Memory::named_with(&name, MemoryLimits::default().topic_bytes(BOUND).partitions(1))?;
        let conf = world.conf(0).with("broker", format!("memory:{name}"));
        let activity: Topic<u64> = Topic::named("activity");
        let activity = if is_broadcast { activity.broadcast() } else { activity };
        let own = Corrected::paused(Topic::named("weather").broadcast(), activity.clone(), conf).await?;
        let more = tokio::spawn(async move {
            for n in 21..=220 {
                activity.send(n).await?;
            }
            Ok::<_, slipstream::Error>(())
        });
        // Full, all but for one record of 64 bytes and some; nothing more can be written until it is over.
        until(|| memory.size_bytes() > BOUND - 80).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!more.is_finished(), "is_broadcast: {is_broadcast}");
        own.weather.send(10_000).await?;
        more.await.unwrap()?;
        until(|| own.last_of(220).is_some()).await;
        for n in 20..=220 {
            assert_eq!(own.last_of(n), Some(10_000), "{n}, is_broadcast: {is_broadcast}");
        }
        own.running.stop().await?;
    }
    Ok(())
}
