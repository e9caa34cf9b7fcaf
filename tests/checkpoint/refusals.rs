//! What cannot work is refused when the app is built, and the error says what to do.

use std::future::IntoFuture as _;
use std::time::Duration;

use slipstream::checkpoint::{AtLimit, Begin, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Conf, Dependency, Kind, pipe};

use crate::world::{Running, World, collect};

fn on(name: &'static str) -> Dependency {
    Dependency::new(name, stream::iter([1_u32]), |n| *n)
}

fn numbers(it: Begin) -> Guard<u32> {
    it.dependent(stream::iter([1_u32]), |n| *n)
}

/// Runs an app with this checkpoint and gives the error.
async fn refused(plan: impl Fn(Begin) -> Guard<u32> + Send + Sync + 'static) -> String {
    refused_app(App::new().handle(Checkpoint::named("c", plan), |_: u32| (), ()), Conf::isolated()).await
}

async fn refused_app(app: App, conf: Conf) -> String {
    let run = tokio::time::timeout(Duration::from_mins(1), app.conf(conf).run().into_future());
    let error = run.await.expect("it was not refused").unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error}");
    error.to_string()
}

#[tokio::test]
async fn cp_23_duplicate_names_are_refused() {
    let text = refused(|it| numbers(it).dependency(on("a")).dependency(on("a")).hold()).await;
    assert_eq!(text, "checkpoint c: two dependencies are called `a`: give one another name");
    let twice = || Checkpoint::named("twice", |it| numbers(it).dependency(on("a")).hold());
    let app = App::new().handle(twice(), |_: u32| (), ()).handle(twice(), |_: u32| (), ());
    let text = refused_app(app, Conf::isolated()).await;
    assert!(text.starts_with("checkpoint twice: two checkpoints have this name"), "{text}");
}

#[tokio::test]
async fn d_28_names_are_required_and_must_be_usable_as_such() {
    for name in ["", "a b", "a/b", "-a"] {
        let text = refused(move |it| numbers(it).dependency(on(name)).hold()).await;
        assert!(text.contains("cannot be the name of a checkpoint or dependency"), "{text}");
    }
}

#[tokio::test]
async fn a_channel_that_nobody_writes_is_no_dependency() {
    let proxy = Proxy::<u32>::named("dry");
    let text = refused(move |it| numbers(it).dependency(Dependency::new("on", proxy.clone(), |n| *n)).hold()).await;
    assert!(text.starts_with("proxy dry: checkpoint c reads it, but no handler writes to it"), "{text}");
}

#[tokio::test]
async fn numbers_need_a_threshold_in_detect_mode() {
    let text = refused(|it| numbers(it).dependency(on("a"))).await;
    assert!(text.contains("say how far a message may be ahead of `a` with `.threshold(n)`"), "{text}");
}

#[tokio::test]
async fn thresholds_are_of_the_kind_of_the_markers_and_not_negative() {
    let text = refused(|it| numbers(it).dependency(on("a")).threshold(Duration::from_secs(1))).await;
    assert_eq!(text, "checkpoint c: `threshold` is measured in time, the markers in whole numbers");
    let text = refused(|it| numbers(it).dependency(on("a").threshold(-1))).await;
    assert_eq!(text, "checkpoint c: `threshold` is -1: it cannot be negative");
    let text =
        refused(|it| numbers(it).dependency(Dependency::new("a", stream::iter([0.5]), |n: &f64| *n)).hold()).await;
    assert!(text.contains("measured in floating-point numbers"), "{text}");
}

#[tokio::test]
async fn what_means_nothing_in_hold_mode_is_refused() {
    let text = refused(|it| numbers(it).dependency(on("a").downtime_check(|_| true)).hold()).await;
    assert!(text.contains("the checks of `a` would never be asked"), "{text}");
    let text = refused(|it| numbers(it).dependency(on("a")).hold().no_rewind()).await;
    assert!(text.contains("leave `.no_rewind()` out"), "{text}");
    let text = refused(|it| numbers(it).dependency(on("a")).hold().pause_dependent(false)).await;
    assert!(text.contains("leave one out"), "{text}");
}

#[tokio::test]
async fn b_44_cp_23_a_source_that_depends_on_itself_is_refused_and_so_is_a_circle() {
    let world = World::memory();
    let topic = |name: &str| -> Topic<u32> { world.topic::<u32>(name, 1).broadcast() };
    let on_topic = |name: &'static str, dependent: Topic<u32>, dependency: Topic<u32>| {
        Checkpoint::named(name, move |it| {
            it.dependent(dependent.clone(), |m| m.value)
                .dependency(Dependency::new("it", dependency.clone(), |m| m.value))
                .hold()
        })
    };
    let (a, b) = (topic("a"), topic("b"));
    let app = App::new().handle(on_topic("self", a.clone(), a.clone()), |_: u32| (), ());
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.contains("depends on itself"), "{text}");
    let app = App::new().handle(on_topic("ab", a.clone(), b.clone()), |_: u32| (), ()).handle(
        on_topic("ba", b, a),
        |_: u32| (),
        (),
    );
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.contains("cannot go on without"), "{text}");
}

#[tokio::test]
async fn dependent_and_dependency_behind_one_source_are_refused() {
    let (source, a, b) = (Proxy::<u32>::named("source").external(), Proxy::<u32>::named("a"), Proxy::<u32>::named("b"));
    let (on_a, on_b) = (a.clone(), b.clone());
    let checkpoint = Checkpoint::named("split", move |it| {
        it.dependent(on_a.clone(), |n| *n).dependency(Dependency::new("b", on_b.clone(), |n| *n)).hold()
    });
    let app = App::new().handle(source.clone(), |n: u32| n, a).handle(source, |n: u32| n, b).handle(
        checkpoint,
        |_: u32| (),
        (),
    );
    let text = refused_app(app, Conf::isolated()).await;
    assert!(text.contains("proxy a and proxy b both come from proxy source"), "{text}");
}

/// Closures are called after their place in the program, which a helper gives to several.
#[tokio::test]
async fn two_handlers_of_one_name_may_fill_dependent_and_dependency() -> Result<()> {
    let (a, b) = (Proxy::<u32>::named("a"), Proxy::<u32>::named("b"));
    let (on_a, on_b) = (a.clone(), b.clone());
    let checkpoint = Checkpoint::named("alike", move |it| {
        it.dependent(on_a.clone(), |n| *n).dependency(Dependency::new("b", on_b.clone(), |n| *n)).hold()
    });
    let fill = |app: App, proxy: Proxy<u32>| app.handle(stream::iter(0..5_u32), |n: u32| n, proxy);
    let (seen, keep) = collect::<u32>();
    fill(fill(App::new(), a), b).handle(checkpoint, |n: u32| n, keep).conf(Conf::isolated()).run().await?;
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
    Ok(())
}

#[tokio::test]
async fn a_dependency_that_is_shared_by_a_group_is_refused_unless_one_member_is_promised() -> Result<()> {
    let world = World::memory();
    let checkpoint = |single: bool| {
        let weather: Topic<u32> = world.topic("weather", 1);
        Checkpoint::named("shared", move |it| {
            let weather = Dependency::new("weather", weather.clone(), |m: &Message<u32>| m.value);
            let guard = numbers(it).dependency(weather).hold();
            if single { guard.single_member() } else { guard }
        })
    };
    let text = refused_app(App::new().handle(checkpoint(false), |_: u32| (), ()), world.conf(0)).await;
    assert!(text.contains("declare it `.broadcast()`") && text.contains("`.single_member()`"), "{text}");
    world.alone::<u32>("weather", 1).send(2).await?;
    let (seen, keep) = collect::<u32>();
    let running = Running::start(App::new().handle(checkpoint(true), keep, ()), world.conf(0));
    until(|| seen.lock().unwrap().len() == 1).await;
    running.stop().await
}

/// Members that share what fills a dependency have a part of it each.
#[tokio::test]
async fn a_topic_of_a_group_that_fills_a_dependency_is_refused_unless_one_member_is_promised() -> Result<()> {
    let world = World::memory();
    let filled = |weather: Topic<u32>, change: fn(Guard<u32>) -> Guard<u32>| {
        let (first, second) = (Proxy::<u32>::named("first"), Proxy::<u32>::named("second"));
        let dependency = second.clone();
        let checkpoint = Checkpoint::named("filled", move |it| {
            change(numbers(it).dependency(Dependency::new("weather", dependency.clone(), |n| *n)).hold())
        });
        let (seen, keep) = collect::<u32>();
        let app = App::new().handle(weather, |n: u32| n, first.clone()).handle(first, |n: u32| n, second);
        (app.handle(checkpoint, keep, ()), seen)
    };
    let shared = || world.topic::<u32>("weather", 1);
    let text = refused_app(filled(shared(), |guard| guard).0, world.conf(0)).await;
    let named = text.contains("handlers fill proxy second from it, which checkpoint filled depends on");
    assert!(text.starts_with("topic ") && text.contains("-weather") && named, "{text}");
    assert!(text.contains("declare it `.broadcast()`") && text.contains("`.single_member()`"), "{text}");
    world.alone::<u32>("weather", 1).send(2).await?;
    for (app, seen) in [filled(shared(), Guard::single_member), filled(shared().broadcast(), |guard| guard)] {
        let running = Running::start(app, world.conf(0));
        until(|| seen.lock().unwrap().len() == 1).await;
        running.stop().await?;
    }
    // A broker of one run, and one that knows no groups.
    #[cfg(feature = "booblik")]
    let embedded = World::embedded();
    #[cfg(feature = "booblik")]
    let urls = ["memory:", &*embedded.url];
    #[cfg(not(feature = "booblik"))]
    let urls = ["memory:"];
    for url in urls {
        let (app, _) = filled(shared(), |guard| guard);
        let running = Running::start(app, world.conf(0).with("broker", url));
        until(|| running.is_reading()).await;
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_that_two_handlers_want_is_refused() {
    let checkpoint = Checkpoint::named("stream", |it| numbers(it).dependency(on("a")).hold());
    let app = App::new().handle(checkpoint.clone(), |_: u32| (), ()).handle(checkpoint, |_: u32| (), ());
    let text = refused_app(app, Conf::isolated()).await;
    assert!(text.contains("declare it as a `SharedStream`"), "{text}");
}

/// One stream has one handler, which gets the message itself.
#[tokio::test]
async fn messages_of_a_stream_need_not_be_clone() -> Result<()> {
    struct Only(u32);
    let checkpoint = Checkpoint::named("moved", |it| {
        it.dependent(stream::iter([Only(1), Only(2)]), |only| only.0).dependency(on("a")).hold()
    });
    let (seen, keep) = collect::<u32>();
    App::new().handle(checkpoint, |only: Only| only.0, keep).conf(Conf::isolated()).run().await?;
    assert_eq!(*seen.lock().unwrap(), [1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_plan_that_panics_is_an_error_with_its_message() {
    let plan = |_: Begin| -> Guard<u32> { panic!("no {}", "plan") };
    let app = App::new().handle(Checkpoint::named("panics", plan), |_: u32| (), ());
    let error = app.conf(Conf::isolated()).run().await.unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (Kind::Panic, "checkpoint panics: its plan panicked: no plan"));
}

#[tokio::test]
async fn a_checkpoint_that_no_app_runs_says_so() {
    let checkpoint = Checkpoint::named("idle", numbers);
    assert_eq!(checkpoint.status().unwrap_err().kind(), Kind::Closed);
}

#[tokio::test]
async fn a_limit_of_a_pause_needs_a_pause() {
    let limited = |it| numbers(it).dependency(on("a")).threshold(0).max_pause(Duration::from_secs(1), AtLimit::Stop);
    let text = refused(move |it| limited(it).pause_dependent(false)).await;
    assert!(text.contains("nothing is paused that could last too long"), "{text}");
}

#[tokio::test]
async fn what_comes_out_of_a_pipe_cannot_be_watched() {
    let skipped = || pipe(stream::iter([1_u32]), |numbers: Piped<u32>| numbers.skip(1));
    let text = refused(move |it| it.dependent(skipped(), |n| *n).dependency(on("a")).hold()).await;
    assert!(
        text.ends_with("name the source itself as dependent or dependency, and put the pipe at its handler"),
        "{text}"
    );
    let text = refused(move |it| numbers(it).dependency(Dependency::new("a", skipped(), |n| *n)).hold()).await;
    assert!(text.starts_with("dependency a: a checkpoint cannot watch what comes out of a pipe"), "{text}");
}

/// Activities that depend on the weather, in detect mode unless `change` says otherwise.
fn topics(
    world: &World,
    name: &str,
    (dependent, dependency): (&'static str, &'static str),
    change: fn(Guard<Message<u64>>) -> Guard<Message<u64>>,
) -> Checkpoint<Message<u64>> {
    let (dependent, dependency): (Topic<u64>, Topic<u64>) =
        (world.topic(dependent, 1).broadcast(), world.topic(dependency, 1).broadcast());
    Checkpoint::named(name.to_owned(), move |it| {
        let on = Dependency::new("on", dependency.clone(), |message: &Message<u64>| message.value);
        change(it.dependent(dependent.clone(), |message| message.value).dependency(on).threshold(0))
    })
}

#[tokio::test]
async fn a_pipe_that_may_hold_back_what_is_corrected_is_refused() -> Result<()> {
    let world = World::memory();
    let piped = |change| {
        let checkpoint = topics(&world, "piped", ("activity", "weather"), change);
        let chunked = pipe(checkpoint, |messages: Piped<Message<u64>>| messages.chunks(2));
        App::new().handle(chunked, |_: Vec<Message<u64>>| (), ()).name("chunked")
    };
    let text = refused_app(piped(|guard| guard), world.conf(0)).await;
    assert!(text.contains("handler chunked reads topic") && text.contains("use `.hold()`"), "{text}");
    let held = Running::start(piped(Guard::hold), world.conf(0));
    until(|| held.handle.health().state == slipstream::app::State::Running).await;
    held.stop().await?;
    let left = Running::start(piped(Guard::no_rewind), world.conf(0));
    until(|| left.handle.health().state == slipstream::app::State::Running).await;
    left.stop().await
}

fn chunked<T: Send + 'static>(messages: Piped<T>) -> impl Stream<Item = Vec<T>> + Send {
    messages.chunks(2)
}

/// What is done when a pipe asks for more is not what has been written.
#[tokio::test]
async fn a_pipe_behind_a_dependency_is_refused_whatever_the_source() {
    let world = World::memory();
    let topic: Topic<u32> = world.topic::<u32>("weather", 1).broadcast();
    let on_topic = topic.clone();
    let checkpoint = Checkpoint::named("c", move |it| {
        numbers(it).dependency(Dependency::new("on", on_topic.clone(), |m: &Message<u32>| m.value)).hold()
    });
    let app = App::new().handle(checkpoint, |_: u32| (), ());
    let app = app.handle(pipe(topic, chunked), |_: Vec<Message<u32>>| (), ()).name("chunked");
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.starts_with("checkpoint c: handler chunked reads topic"), "{text}");
    assert!(text.contains("let it write to a topic, and make that the dependency"), "{text}");

    let proxy = Proxy::<u32>::named("weather").external();
    let on_proxy = proxy.clone();
    let checkpoint = Checkpoint::named("c", move |it| {
        numbers(it).dependency(Dependency::new("on", on_proxy.clone(), |n| *n)).threshold(0)
    });
    let app = App::new().handle(checkpoint.clone(), |_: u32| (), ());
    let app = app.handle(pipe(proxy.clone(), chunked), |_: Vec<u32>| (), ()).name("chunked");
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.starts_with("checkpoint c: handler chunked reads proxy weather through a pipe"), "{text}");

    let hop = Proxy::<u32>::named("hop");
    let app = App::new().handle(checkpoint, |_: u32| (), ()).handle(proxy, |n: u32| n, hop.clone());
    let app = app.handle(pipe(hop, chunked), |_: Vec<u32>| (), ()).name("chunked");
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.contains("reads proxy hop, which handlers of proxy weather write, through a pipe"), "{text}");

    let shared = SharedStream::new("shared", || stream::iter([1_u32]).boxed());
    let on_shared = shared.clone();
    let checkpoint = Checkpoint::named("c", move |it| {
        numbers(it).dependency(Dependency::new("on", on_shared.clone(), |n| *n)).hold()
    });
    let app = App::new().handle(checkpoint, |_: u32| (), ());
    let app = app.handle(pipe(shared, chunked), |_: Vec<u32>| (), ()).name("chunked");
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.contains("handler chunked reads") && text.contains("through a pipe"), "{text}");
}

#[cfg(feature = "rocksdb")]
#[tokio::test]
async fn a_pipe_behind_a_cache_that_is_a_dependency_is_refused() {
    let cache = Cache::<u32, u32>::named("weather").external();
    let on_cache = cache.clone();
    let checkpoint = Checkpoint::named("c", move |it| {
        numbers(it).dependency(Dependency::new("on", on_cache.clone(), |change: &(u32, Option<u32>)| change.0)).hold()
    });
    let piped = pipe(cache, |changes: Piped<(u32, Option<u32>)>| changes.skip(1));
    let app = App::new().handle(checkpoint, |_: u32| (), ()).handle(piped, |_: (u32, Option<u32>)| (), ());
    let text = refused_app(app, World::memory().conf(0)).await;
    assert!(text.contains("reads cache weather through a pipe"), "{text}");
}

#[tokio::test]
async fn a_dependency_that_goes_on_uncorrected_is_refused() {
    let world = World::memory();
    let first = topics(&world, "first", ("b", "a"), |guard| guard.pause_dependent(false));
    let second = topics(&world, "second", ("c", "b"), Guard::hold);
    let app = App::new().handle(first, |_: u64| (), ()).handle(second, |_: u64| (), ());
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.starts_with("checkpoint second: ") && text.contains("let that one pause, or hold"), "{text}");
}

#[tokio::test]
async fn a_checkpoint_that_names_itself_as_a_source_is_refused() {
    static OWN: Checkpoint<u32> = Checkpoint::new("own", |it| {
        it.dependent(stream::iter([1_u32]), |n| *n).dependency(Dependency::new("own", &OWN, |n| *n)).hold()
    });
    static AGAIN: Checkpoint<u32> =
        Checkpoint::new("again", |it| it.dependent(&AGAIN, |n| *n).dependency(on("a")).hold());
    for own in [&OWN, &AGAIN] {
        let text = refused_app(App::new().handle(own, |_: u32| (), ()), Conf::isolated()).await;
        assert!(text.contains("it is among its own dependents or dependencies"), "{text}");
    }
}

#[cfg(feature = "kafka")]
#[tokio::test]
async fn more_checkpoints_than_a_commit_has_room_for_are_refused() {
    let Some(world) = World::kafka() else { return };
    let mut app = App::new();
    for n in 0..40 {
        let (dependent, weather): (Topic<u64>, Topic<u64>) = (world.topic("activity", 1), world.topic("weather", 1));
        let name = format!("{n}-{}", "x".repeat(60));
        let checkpoint = Checkpoint::named(name, move |it| {
            it.dependent(dependent.clone(), |message: &Message<u64>| message.value)
                .dependency(Dependency::new("weather", weather.clone(), |message: &Message<u64>| message.value))
                .single_member()
                .hold()
        });
        app = app.handle(checkpoint, |_: u64| (), ()).name(format!("handler-{n}"));
    }
    let text = refused_app(app, world.conf(0)).await;
    assert!(text.contains("40 checkpoints watch it") && text.contains("4096"), "{text}");
}
