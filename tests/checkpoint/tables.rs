//! A table on the dependent: its rows are a fold over all messages, each once, so nothing may be handled too early.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};

use slipstream::checkpoint::{Begin, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Dependency, Kind};

use crate::world::{Running, World};

const PARTITIONS: u32 = 2;
const ACTIVITIES: u64 = 60;

fn checkpoint(world: &World, holds: bool) -> Checkpoint<Message<u64>> {
    let (weather, activity) = (world.topic("weather", 1).broadcast(), world.topic("activity", PARTITIONS));
    Checkpoint::named("fold", move |it| {
        let weather = Dependency::new("weather", weather.clone(), |m: &Message<u64>| m.value);
        let guard = it.dependent(activity.clone(), |m: &Message<u64>| m.value).dependency(weather).threshold(0);
        if holds { guard.hold() } else { guard }
    })
}

/// How many activities saw which weather, by key.
type Sums = Table<String, BTreeMap<u64, u64>>;

/// A message that comes before its weather counts for too many.
fn count(message: &Message<u64>, latest: u64, sums: &mut Rows<String, BTreeMap<u64, u64>>) -> Result<()> {
    let late = u64::from(latest <= message.value);
    sums.update(message.key()?, |row| {
        let mut row = row.unwrap_or_default();
        *row.entry(message.value).or_insert(0) += 1 + 1000 * late;
        row
    })
}

/// The app, and what it has kept of the weather, which outlives it.
fn app(world: &World, holds: bool, sums: &Sums, latest: &Arc<Mutex<u64>>) -> App {
    let (store, lookup) = (Arc::clone(latest), Arc::clone(latest));
    let weather: Topic<u64> = world.topic("weather", 1).broadcast();
    let keep = move |n: u64| {
        let mut latest = store.lock().unwrap();
        *latest = n.max(*latest);
    };
    let fold = move |message: Message<u64>, sums: &mut Rows<String, BTreeMap<u64, u64>>| {
        count(&message, *lookup.lock().unwrap(), sums)
    };
    App::new().handle(weather, keep, ()).handle(checkpoint(world, holds), fold, ()).name("fold").table(sums)
}

fn rows(sums: &Sums) -> BTreeMap<String, BTreeMap<u64, u64>> {
    sums.items().iter().collect::<Result<_>>().unwrap_or_default()
}

#[tokio::test]
async fn detect_is_refused_when_it_is_built() {
    let world = World::memory();
    let app = app(&world, false, &Sums::named("sums"), &Arc::default());
    let error = app.conf(world.conf(0)).signals(slipstream::Signals::Ignore).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error}");
    let expected = format!(
        "topic {}: a handler of it writes a table, whose rows cannot be taken back, but checkpoint fold lets messages \
         through before what they depend on is there: declare it with `.hold()`",
        world.name("activity")
    );
    assert_eq!(error.to_string(), expected);
}

/// Weather comes piece by piece while the app is stopped and dropped and started again.
async fn is_exact_over_restarts(world: World) -> Result<()> {
    let (sums, latest) = (Sums::named("sums"), Arc::new(Mutex::new(0)));
    let (weather, activity) = (world.alone::<u64>("weather", 1), world.alone::<u64>("activity", PARTITIONS));
    let mut expected: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
    for n in 0..ACTIVITIES {
        let key = format!("key-{}", n % 7);
        activity.send((key.clone(), n)).await?;
        *expected.entry(key).or_default().entry(n).or_default() += 1;
    }
    for step in 1..=6 {
        let reach = step * ACTIVITIES / 6;
        weather.send(("it".to_owned(), reach)).await?;
        let running = Running::start(app(&world, true, &sums, &latest), world.conf(0));
        let folded = || rows(&sums).values().map(BTreeMap::len).sum::<usize>() as u64;
        until(|| folded() == reach || running.is_over()).await;
        if step % 2 == 0 {
            running.stop().await?;
        } else {
            running.crash().await;
            until(|| Arc::strong_count(&latest) == 1 && sums.stats().is_err()).await;
        }
    }
    let running = Running::start(app(&world, true, &sums, &latest), world.conf(0));
    until(|| rows(&sums) == expected || running.is_over()).await;
    assert_eq!(rows(&sums), expected);
    running.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_messages_are_folded_once_on_memory() -> Result<()> {
    is_exact_over_restarts(World::memory()).await
}

#[cfg(feature = "booblik")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_messages_are_folded_once_on_a_log_in_the_process() -> Result<()> {
    is_exact_over_restarts(World::embedded()).await
}

static PASSED_ON: Proxy<Message<u64>> = Proxy::new("passed-on").external();

/// A dependent that no position of a log comes with can wait for others, and fill no table.
#[tokio::test]
async fn a_dependent_that_is_no_topic_is_refused_when_it_is_built() {
    let refused = async |plan: fn(Begin) -> Guard<Message<u64>>| {
        let checkpoint = Checkpoint::named("fold", move |it| {
            let weather = Dependency::new("weather", stream::iter([1_u64]), |n| *n);
            plan(it).dependency(weather).hold()
        });
        let fold = |message: Message<u64>, sums: &mut Rows<String, BTreeMap<u64, u64>>| count(&message, 0, sums);
        let app = App::new().handle(checkpoint, fold, ()).name("fold").table(&Sums::named("sums"));
        let error = app.conf(World::memory().conf(0)).signals(slipstream::Signals::Ignore).run().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Build, "{error}");
        error.to_string()
    };
    let why = "handler fold writes a table, which needs a topic: rows are stored with a position in its log, and this has \
               none";
    let of_a_stream = refused(|it| it.dependent(stream::empty::<Message<u64>>(), |m| m.value)).await;
    assert!(of_a_stream.ends_with(why), "{of_a_stream}");
    let of_a_proxy = refused(|it| it.dependent(&PASSED_ON, |m| m.value)).await;
    assert_eq!(of_a_proxy, format!("proxy passed-on: {why}"));
}

#[cfg(feature = "booblik")]
mod attribute {
    use super::*;

    static WEATHER: Topic<u64> = Topic::new("attribute-weather").partitions(1).broadcast();
    static ACTIVITY: Topic<u64> = Topic::new("attribute-activity").partitions(PARTITIONS);
    static CHECKPOINT: Checkpoint<Message<u64>> = Checkpoint::new("attribute", |it| {
        it.dependent(&ACTIVITY, |m| m.value).dependency(Dependency::new("weather", &WEATHER, |m| m.value)).hold()
    });
    static SUMS: Sums = Sums::new("attribute-sums");
    static LATEST: Mutex<u64> = Mutex::new(0);

    #[handle(WEATHER)]
    fn keep(reach: u64) {
        let mut latest = LATEST.lock().unwrap();
        *latest = reach.max(*latest);
    }

    #[handle(CHECKPOINT, table = SUMS)]
    #[expect(clippy::needless_pass_by_value, reason = "a handler gets its message")]
    fn fold(activity: Message<u64>, sums: &mut Rows<String, BTreeMap<u64, u64>>) -> Result<()> {
        count(&activity, *LATEST.lock().unwrap(), sums)
    }

    /// The registry is one for this program: these are its only handlers.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_handler_of_a_checkpoint_folds_each_message_once() -> Result<()> {
        let world = World::embedded();
        let broker: &'static [_] = vec![("broker", &*world.url.clone().leak())].leak();
        let weather = Topic::<u64>::new("attribute-weather").partitions(1).conf(broker);
        let activity = Topic::<u64>::new("attribute-activity").partitions(PARTITIONS).conf(broker);
        let mut expected: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
        for n in 0..ACTIVITIES {
            let key = format!("key-{}", n % 7);
            activity.send((key.clone(), n)).await?;
            expected.entry(key).or_default().insert(n, 1);
        }
        let mut kept = BTreeMap::new();
        for reach in [ACTIVITIES / 2, ACTIVITIES] {
            weather.send(("it".to_owned(), reach)).await?;
            let run = slipstream::stream().conf(world.conf(0)).signals(slipstream::Signals::Ignore);
            let (handle, task) = (run.handle(), tokio::spawn(run.into_future()));
            let folded = || rows(&SUMS).values().map(BTreeMap::len).sum::<usize>() as u64;
            until(|| folded() == reach || task.is_finished()).await;
            kept = rows(&SUMS);
            handle.trigger();
            task.await.unwrap()?;
        }
        assert_eq!(kept, expected);
        Ok(())
    }
}
