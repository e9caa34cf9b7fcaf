//! What cannot work is refused when the app is built, and the error says what to do.

use std::time::Duration;

use slipstream::checkpoint::{Begin, Guard};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Conf, Dependency, Kind};

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
    let error = app.conf(conf).run().await.unwrap_err();
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
