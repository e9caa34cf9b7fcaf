//! Handlers and sinks that fail: no unit is half in the rows, earlier ones are there, and the next run goes on with the
//! one that failed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::prelude::*;
use slipstream::{Kind, Signals};

use crate::support::{World, has, keyed, rows, run_until};

/// The record that fails, and how many there are.
const BAD: i64 = 5;
const ALL: i64 = 9;

/// Records of two keys in one partition, in a table that is stored when the run ends and not before.
struct Scene {
    world: World,
    counts: Table<String, u64>,
    others: Table<String, u64>,
}

impl Scene {
    async fn new() -> Self {
        let world = World::with_partitions(1);
        let keys: Vec<_> = (0..ALL).map(|n| if n % 2 == 0 { "even" } else { "odd" }).collect();
        world.feed(keyed(&keys)).await;
        Self { world, counts: Table::named("counts"), others: Table::named("others") }
    }

    fn app(&self) -> App {
        App::new().conf(self.world.conf().with("table.generation.time", "1h"))
    }

    async fn fails(&self, app: App) -> Kind {
        let run = app.conf(self.world.conf().with("table.generation.time", "1h")).signals(Signals::Ignore).run();
        let ended = tokio::time::timeout(Duration::from_mins(1), run.into_future()).await;
        ended.unwrap().unwrap_err().kind()
    }

    /// Goes on with handlers that do not fail. The offset that it begins at; rows are those of a fold.
    async fn goes_on(&self) -> i64 {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let offsets = Arc::clone(&seen);
        let handler = move |message: Message<u64>, counts: &mut Rows<String, u64>| {
            offsets.lock().unwrap().push(message.offset);
            tally(&message, counts)
        };
        let app = self.two(handler, |message: Message<u64>, others: &mut Rows<String, u64>| tally(&message, others));
        let app = app.conf(self.world.conf());
        run_until(app, || has(&self.counts, ALL) && Self::is_right(&self.counts) && Self::is_right(&self.others))
            .await
            .unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seen:?}");
        assert_eq!(seen.last(), Some(&(ALL - 1)));
        seen[0]
    }

    fn is_right(table: &Table<String, u64>) -> bool {
        let fold = BTreeMap::from([("even".to_owned(), 5), ("odd".to_owned(), 4)]);
        assert!(rows(table).iter().all(|(key, n)| *n <= fold[key]), "{:?}", rows(table));
        rows(table) == fold
    }

    /// Both handlers under the names that the store remembers.
    fn two<F, M, G, N>(&self, first: F, second: G) -> App
    where
        F: slipstream::handler::Handler<Message<u64>, M>,
        M: 'static,
        G: slipstream::handler::Handler<Message<u64>, N>,
        N: 'static,
        (): slipstream::sink::IntoSinks<<F::Out as slipstream::handler::Outputs>::Item, ()>,
        (): slipstream::sink::IntoSinks<<G::Out as slipstream::handler::Outputs>::Item, ()>,
    {
        let input = &self.world.input;
        let app = self.app().handle(input.clone(), first, ()).name("first").table(&self.counts);
        app.handle(input.clone(), second, ()).name("second").table(&self.others)
    }
}

/// Two writes, so that half of them would show.
fn tally(message: &Message<u64>, counts: &mut Rows<String, u64>) -> Result<()> {
    counts.put("last", 0)?;
    counts.delete("last")?;
    counts.update(message.key()?, |n| n.unwrap_or(0) + 1)
}

fn well(message: Message<u64>, rows: &mut Rows<String, u64>) -> Result<()> {
    tally(&message, rows)
}

fn badly(message: Message<u64>, rows: &mut Rows<String, u64>) -> Result<()> {
    tally(&message, rows)?;
    if message.offset == BAD { Err(slipstream::Error::new(Kind::Io, "no")) } else { Ok(()) }
}

#[tokio::test]
async fn an_error_leaves_nothing_of_its_unit_behind() {
    let scene = Scene::new().await;
    // The sibling before it has handled the message by then.
    assert_eq!(scene.fails(scene.two(well, badly)).await, Kind::Handler);
    assert_eq!(scene.goes_on().await, BAD);
}

#[tokio::test]
async fn so_does_the_first_of_two_handlers() {
    let scene = Scene::new().await;
    assert_eq!(scene.fails(scene.two(badly, well)).await, Kind::Handler);
    assert_eq!(scene.goes_on().await, BAD);
}

#[tokio::test]
async fn a_panic_leaves_nothing_of_its_unit_behind() {
    let scene = Scene::new().await;
    let bad = |message: Message<u64>, counts: &mut Rows<String, u64>| -> Result<()> {
        tally(&message, counts)?;
        counts.update(message.key()?, |n| if message.offset == BAD { panic!("ouch") } else { n.unwrap_or(0) })
    };
    assert_eq!(scene.fails(scene.two(bad, well)).await, Kind::Panic);
    assert_eq!(scene.goes_on().await, BAD);
}

#[tokio::test]
async fn a_timeout_leaves_nothing_of_its_unit_behind() {
    async fn bad(message: Message<u64>, counts: &mut Rows<String, u64>) -> Result<()> {
        tally(&message, counts)?;
        if message.offset == BAD { std::future::pending().await } else { Ok(()) }
    }
    let scene = Scene::new().await;
    let app = scene.two(well, bad).timeout(Duration::from_millis(50));
    assert_eq!(scene.fails(app).await, Kind::Timeout);
    assert_eq!(scene.goes_on().await, BAD);
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_nothing_of_its_unit_behind() {
    let scene = Scene::new().await;
    let (reached, mut at_bad) = tokio::sync::watch::channel(false);
    let hanging = move |message: Message<u64>, _others: &mut Rows<String, u64>| {
        let is_bad = message.offset == BAD;
        reached.send_replace(is_bad);
        async move { if is_bad { std::future::pending().await } else { Ok::<(), slipstream::Error>(()) } }
    };
    let run = scene.two(well, hanging).signals(Signals::Ignore).run();
    let run = tokio::spawn(run.into_future());
    at_bad.wait_for(|at| *at).await.unwrap();
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    // As after a crash: nothing of the open generation is there.
    assert_eq!(scene.goes_on().await, 0);
}

#[tokio::test]
async fn a_sink_that_refuses_at_once_leaves_nothing_of_its_unit_behind() {
    let scene = Scene::new().await;
    let refuse = |offset: i64| if offset == BAD { Err(std::io::Error::other("full")) } else { Ok(()) };
    let told = |message: Message<u64>, counts: &mut Rows<String, u64>| tally(&message, counts).map(|()| message.offset);
    let input = &scene.world.input;
    let app = scene.app().handle(input.clone(), told, refuse).name("first").table(&scene.counts);
    let app = app.handle(input.clone(), well, ()).name("second").table(&scene.others);
    assert_eq!(scene.fails(app).await, Kind::Sink);
    assert_eq!(scene.goes_on().await, BAD);
}

#[tokio::test]
async fn a_sink_that_refuses_later_takes_the_generation_with_it() {
    let scene = Scene::new().await;
    let told = |message: Message<u64>, counts: &mut Rows<String, u64>| tally(&message, counts).map(|()| message.offset);
    let late: Proxy<i64> = Proxy::named("late");
    let fail_late = |offset: i64| if offset == BAD { Err(std::io::Error::other("no")) } else { Ok(()) };
    let input = &scene.world.input;
    let app = scene.app().handle(input.clone(), told, late.clone()).name("first").table(&scene.counts);
    let app = app.handle(input.clone(), well, ()).name("second").table(&scene.others).handle(late, fail_late, ());
    assert_eq!(scene.fails(app).await, Kind::Handler);
    // The rows of the units before it are only known together with those behind it.
    assert!(scene.goes_on().await <= BAD);
}

#[tokio::test]
async fn generations_before_one_that_is_refused_later_are_there() {
    let scene = Scene::new().await;
    let told = |message: Message<u64>, counts: &mut Rows<String, u64>| tally(&message, counts).map(|()| message.offset);
    let late: Proxy<i64> = Proxy::named("late");
    let fail_late = |offset: i64| if offset == BAD { Err(std::io::Error::other("no")) } else { Ok(()) };
    let input = &scene.world.input;
    let app = scene.app().handle(input.clone(), told, late.clone()).name("first").table(&scene.counts);
    let app = app.handle(input.clone(), well, ()).name("second").table(&scene.others).handle(late, fail_late, ());
    let conf = scene.world.conf().with("table.generation.units", 2).with("table.generation.time", "1h");
    let failed = app.conf(conf).signals(Signals::Ignore).run().into_future().await;
    assert_eq!(failed.unwrap_err().kind(), Kind::Handler);
    assert!((0..=4).contains(&scene.goes_on().await));
}
