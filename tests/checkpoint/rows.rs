//! A dependency whose handlers fill tables: what lies in the rows is done, whether or not a position tells of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::checkpoint::{Begin, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::topic::Memory;
use slipstream::{Checkpoint, Conf, Dependency, Kind};

use crate::world::{Running, World, collect};

/// Weather up to here, which is all that there is.
const CLOSING: u64 = 1_000_000;

/// Who else reads the dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    Plain,
}

const BOTH: [Beside; 2] = [Beside::Nobody, Beside::Plain];

struct Own {
    world: World,
    /// The group shares the dependency, and has one member.
    is_shared: bool,
    beside: Beside,
    /// How often each weather was counted.
    table: Table<u64, u64>,
    /// Activities, and whether the weather of hour 10 was there.
    seen: Arc<Mutex<Vec<(u64, bool)>>>,
    /// What the others have read.
    read: Arc<Mutex<Vec<u64>>>,
}

impl Own {
    fn new(world: World, is_shared: bool, beside: Beside) -> Self {
        let (seen, read) = (Arc::default(), Arc::default());
        Self { world, is_shared, beside, table: Table::named("weather"), seen, read }
    }

    fn start(&self, name: &str, conf: Conf) -> (Checkpoint<Message<u64>>, Running) {
        let weather: Topic<u64> = self.world.topic("weather", 1);
        let weather = if self.is_shared { weather } else { weather.broadcast() };
        let (activity, dependency, is_shared) = (self.world.topic("activity", 1), weather.clone(), self.is_shared);
        let checkpoint = Checkpoint::named(name.to_owned(), move |it: Begin| -> Guard<Message<u64>> {
            let weather = Dependency::new("weather", dependency.clone(), |m: &Message<u64>| m.value);
            let guard = it.dependent(activity.clone(), |m: &Message<u64>| m.value).dependency(weather).hold();
            if is_shared { guard.single_member() } else { guard }
        });
        let (lookup, seen, read) = (self.table.clone(), Arc::clone(&self.seen), Arc::clone(&self.read));
        let join = move |n: u64| -> Result<()> {
            let found = lookup.get(10)?.is_some();
            seen.lock().unwrap().push((n, found));
            Ok(())
        };
        let count = |n: u64, rows: &mut Rows<u64, u64>| rows.update(n, |count| count.unwrap_or(0) + 1);
        let app = App::new().handle(weather.clone(), count, ()).name("count").table(&self.table);
        let keep = move |n: u64| read.lock().unwrap().push(n);
        let app = match self.beside {
            Beside::Nobody => app,
            Beside::Plain => app.handle(weather, keep, ()),
        };
        (checkpoint.clone(), Running::start(app.handle(checkpoint, join, ()), conf))
    }

    /// Positions are stored at the beginning, and not again.
    fn without_commits(&self) -> Conf {
        self.world.conf(0).with("commit.interval", "1h")
    }

    async fn send(&self, weather: impl IntoIterator<Item = u64>) {
        let topic = self.world.alone::<u64>("weather", 1);
        for n in weather {
            topic.send(n).await.unwrap();
        }
    }

    async fn stores(&self, records: i64) {
        until(|| self.table.stats().is_ok_and(|stats| stats.stored() == records)).await;
    }

    async fn crash(&self, running: Running) {
        running.crash().await;
        until(|| self.table.stats().is_err()).await;
    }

    /// An activity that needs all of the weather is handled, with it.
    async fn handles(&self, n: u64) {
        self.world.alone::<u64>("activity", 1).send(n).await.unwrap();
        until(|| self.seen.lock().unwrap().contains(&(n, true))).await;
    }

    fn committed(&self, running: &Running) -> Option<i64> {
        let (health, name) = (running.handle.health(), self.world.name("weather"));
        health.sources.iter().find(|source| source.name == name)?.lanes.first()?.committed
    }

    fn counts(&self) -> Vec<(u64, u64)> {
        self.table.items().iter().collect::<Result<_>>().unwrap()
    }
}

/// The last message is not the highest one.
async fn what_only_the_rows_have_seen_is_known_after_a_crash(own: Own) -> Result<()> {
    let (checkpoint, running) = own.start("rows", own.without_commits());
    until(|| checkpoint.status().is_ok()).await;
    own.send([10, CLOSING, 11]).await;
    own.stores(3).await;
    assert_eq!(own.committed(&running), Some(0));
    own.crash(running).await;

    let (_, running) = own.start("rows", own.world.conf(0));
    own.handles(20).await;
    until(|| own.committed(&running) == Some(3)).await;
    own.crash(running).await;

    let (_, running) = own.start("rows", own.without_commits());
    own.handles(21).await;
    assert_eq!(own.counts(), [(10, 1), (11, 1), (CLOSING, 1)], "beside it: {:?}", own.beside);
    running.stop().await?;
    let read = own.read.lock().unwrap().clone();
    let expected = if own.beside == Beside::Nobody { vec![] } else { vec![10, CLOSING, 11, 10, CLOSING, 11] };
    assert_eq!(read, expected, "whoever has no rows gets again what no position tells of");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_rows_have_seen_is_known_after_a_crash_on_memory() -> Result<()> {
    for (is_shared, beside) in BOTH.into_iter().flat_map(|beside| [(false, beside), (true, beside)]) {
        what_only_the_rows_have_seen_is_known_after_a_crash(Own::new(World::memory(), is_shared, beside)).await?;
    }
    Ok(())
}

#[cfg(feature = "booblik")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_rows_have_seen_is_known_after_a_crash_on_a_log_in_the_process() -> Result<()> {
    for beside in BOTH {
        what_only_the_rows_have_seen_is_known_after_a_crash(Own::new(World::embedded(), false, beside)).await?;
    }
    Ok(())
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_rows_have_seen_is_known_after_a_crash_on_kafka() -> Result<()> {
    let Some(world) = World::kafka() else { return Ok(()) };
    what_only_the_rows_have_seen_is_known_after_a_crash(Own::new(world, false, Beside::Nobody)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_no_position_is_kept_with_tell_all_that_they_have() -> Result<()> {
    let own = Own::new(World::memory(), true, Beside::Nobody);
    let (checkpoint, running) = own.start("rows", own.world.conf(0));
    until(|| checkpoint.status().is_ok()).await;
    own.send([10, CLOSING, 11]).await;
    own.stores(3).await;
    running.stop().await?;

    // The tables are those of the app, the positions those of its group.
    let (_, running) = own.start("rows", own.world.conf(0).with("group.id", "another"));
    own.handles(20).await;
    until(|| own.committed(&running) == Some(3)).await;
    assert_eq!(own.counts(), [(10, 1), (11, 1), (CLOSING, 1)]);
    running.stop().await
}

/// What is kept tells of more than those rows do that are there.
#[cfg(feature = "booblik")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_rows_are_built_anew_what_was_kept_of_them_stays() -> Result<()> {
    let own = Own::new(World::embedded(), false, Beside::Nobody);
    let (checkpoint, running) = own.start("rows", own.world.conf(0));
    until(|| checkpoint.status().is_ok()).await;
    own.send([10, CLOSING, 11]).await;
    own.stores(3).await;
    running.stop().await?;

    own.world.forget_tables(0);
    let (_, running) = own.start("rows", own.without_commits());
    own.stores(3).await;
    own.crash(running).await;

    let (_, running) = own.start("rows", own.world.conf(0));
    own.handles(20).await;
    assert_eq!(own.counts(), [(10, 1), (11, 1), (CLOSING, 1)]);
    running.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_of_another_name_learns_from_the_last_message_in_the_rows() -> Result<()> {
    for (is_shared, beside) in BOTH.into_iter().flat_map(|beside| [(false, beside), (true, beside)]) {
        let own = Own::new(World::memory(), is_shared, beside);
        let (checkpoint, running) = own.start("first", own.world.conf(0));
        until(|| checkpoint.status().is_ok()).await;
        own.send([10, 11, CLOSING]).await;
        own.stores(3).await;
        until(|| own.committed(&running) == Some(3)).await;
        running.stop().await?;

        let (_, running) = own.start("second", own.world.conf(0));
        let (fell, watched) = (Arc::new(Mutex::new(None)), running.handle.clone());
        let (told, name) = (Arc::clone(&fell), own.world.name("weather"));
        let watch = tokio::spawn(async move {
            loop {
                let health = watched.health();
                let lanes = health.sources.iter().filter(|source| source.name == name).flat_map(|source| &source.lanes);
                if let Some(lane) = lanes.into_iter().find(|lane| lane.committed.is_some_and(|next| next < 3)) {
                    *told.lock().unwrap() = lane.committed;
                }
                tokio::task::yield_now().await;
            }
        });
        own.handles(20).await;
        watch.abort();
        assert_eq!((own.committed(&running), *fell.lock().unwrap()), (Some(3), None), "the position does not fall");
        assert_eq!(own.counts(), [(10, 1), (11, 1), (CLOSING, 1)], "beside it: {beside:?}");
        running.stop().await?;
        let read = own.read.lock().unwrap().len();
        assert_eq!(read, if beside == Beside::Nobody { 0 } else { 3 }, "no handler gets it again");
    }
    Ok(())
}

/// Where their rows go on, and what of it was not told, is asked for when the partition is given to us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_on_when_their_broker_is_back() -> Result<()> {
    for silent in 1..6 {
        let own = Own::new(World::memory(), true, Beside::Nobody);
        let (checkpoint, running) = own.start("first", own.world.conf(0));
        until(|| checkpoint.status().is_ok()).await;
        own.send([10, 11, CLOSING]).await;
        own.stores(3).await;
        until(|| own.committed(&running) == Some(3)).await;
        running.stop().await?;
        Memory::named(&own.world.id).be_silent(silent);
        let (_, running) = own.start("second", own.world.conf(0));
        own.handles(20).await;
        assert_eq!(own.counts(), [(10, 1), (11, 1), (CLOSING, 1)], "silent for {silent} questions");
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_log_that_is_not_that_of_the_rows_nothing_is_believed() -> Result<()> {
    const RECORDS: u64 = 10_000;
    let own = Own::new(World::memory(), false, Beside::Nobody);
    let (checkpoint, running) = own.start("rows", own.without_commits());
    until(|| checkpoint.status().is_ok()).await;
    own.send(0..RECORDS).await;
    own.stores(RECORDS.cast_signed()).await;
    own.crash(running).await;

    let topic = own.world.alone::<u64>("weather", 1);
    let admin = topic.admin()?;
    admin.delete().await?;
    admin.create(1).await?;
    topic.close().await?;
    own.send((0..RECORDS).map(|n| CLOSING + n)).await;
    own.world.alone::<u64>("activity", 1).send(RECORDS + 1).await?;
    // Long enough for everything else to happen in between.
    let (_, running) = own.start("rows", own.world.conf(0));
    let error = running.ended().await.unwrap_err();
    assert_eq!(error.kind(), Kind::OutOfRange, "{error}");
    assert_eq!(*own.seen.lock().unwrap(), []);
    Ok(())
}

/// What was kept tells of the other log.
async fn only_what_a_replaced_log_has_is_believed(is_silent: bool) -> Result<()> {
    let mut own = Own::new(World::memory(), false, Beside::Nobody);
    own.table = Table::named("weather").rebuild();
    let (checkpoint, running) = own.start("rows", own.world.conf(0));
    until(|| checkpoint.status().is_ok()).await;
    own.send([10, 11, CLOSING]).await;
    own.handles(20).await;
    until(|| own.committed(&running) == Some(3)).await;
    running.stop().await?;

    let topic = own.world.alone::<u64>("weather", 1);
    let admin = topic.admin()?;
    admin.delete().await?;
    admin.create(1).await?;
    topic.close().await?;
    own.send([10, 12, 13]).await;
    let broker = Memory::named(&own.world.id);
    let silence = tokio::spawn(async move {
        for at in 0_u32.. {
            tokio::time::sleep(Duration::from_millis(2)).await;
            broker.be_silent(u32::from(is_silent && at.wrapping_mul(0x9E37_79B1) >> 31 == 0));
        }
    });
    let (checkpoint, running) = own.start("rows", own.world.conf(0));
    let rows = || own.table.items().iter().collect::<Result<Vec<_>>>();
    until(|| rows().is_ok_and(|rows| rows == [(10, 1), (12, 1), (13, 1)])).await;
    silence.abort();
    own.world.alone::<u64>("activity", 1).send(21).await?;
    until(|| checkpoint.status().is_ok_and(|status| status.held_lanes > 0)).await;
    own.send([CLOSING]).await;
    own.handles(21).await;
    running.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_log_that_was_replaced_and_is_folded_anew_only_what_it_has_is_believed() -> Result<()> {
    only_what_a_replaced_log_has_is_believed(false).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_log_is_folded_anew_when_its_broker_answers() -> Result<()> {
    for _ in 0..3 {
        only_what_a_replaced_log_has_is_believed(true).await?;
    }
    Ok(())
}

/// One whose tables tell nobody of anything decodes nothing that they have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_topic_with_tables_is_read_from_where_its_rows_are() -> Result<()> {
    let world = World::memory();
    let sums: Table<u64, u64> = Table::named("sums");
    let start = |conf: Conf, markers: Arc<Mutex<Vec<u64>>>| {
        let (weather, activity) = (world.topic::<u64>("weather", 1).broadcast(), world.topic("activity", 1));
        let dependency = weather.clone();
        let checkpoint = Checkpoint::named("fold", move |it: Begin| {
            let markers = Arc::clone(&markers);
            let mark = move |message: &Message<u64>| {
                markers.lock().unwrap().push(message.value);
                message.value
            };
            let weather = Dependency::new("weather", dependency.clone(), |m: &Message<u64>| m.value);
            it.dependent(activity.clone(), mark).dependency(weather).hold()
        });
        let fold = |n: u64, sums: &mut Rows<u64, u64>| sums.update(n, |count| count.unwrap_or(0) + 1);
        let app = App::new().handle(weather, |_: u64| (), ()).handle(checkpoint, fold, ()).name("fold").table(&sums);
        Running::start(app, conf)
    };
    let (weather, activity) = (world.alone::<u64>("weather", 1), world.alone::<u64>("activity", 1));
    weather.send(CLOSING).await?;
    for n in [1, 2, 3] {
        activity.send(n).await?;
    }
    let running = start(world.conf(0).with("commit.interval", "1h"), Arc::default());
    until(|| sums.stats().is_ok_and(|stats| stats.stored() == 3)).await;
    running.crash().await;
    until(|| sums.stats().is_err()).await;

    activity.send(4).await?;
    let (markers, _) = collect::<u64>();
    let running = start(world.conf(0), Arc::clone(&markers));
    until(|| sums.stats().is_ok_and(|stats| stats.stored() == 4)).await;
    assert_eq!(*markers.lock().unwrap(), [4]);
    let rows: Vec<_> = sums.items().iter().collect::<Result<_>>()?;
    assert_eq!(rows, [(1, 1), (2, 1), (3, 1), (4, 1)]);
    running.stop().await
}
