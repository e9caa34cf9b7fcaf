//! What comes while a callback or a function of the user's has not answered yet, and what such a function cannot say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slipstream::checkpoint::{Doing, Gap, Status};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Conf, Dependency, SharedStream};
use tokio::sync::Semaphore;

use crate::joined::Joined;
use crate::world::{Running, World, collect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_in_the_callback_of_another_is_told_before_it_is_corrected_and_once() -> Result<()> {
    let (told, tell) = collect::<String>();
    let go_on = Arc::new(Semaphore::new(0));
    let (wait, call) = (Arc::clone(&go_on), tell.clone());
    let own = Joined::new(World::memory(), &["weather"], 1, move |guard| {
        let (down, up, wait) = (call.clone(), call.clone(), Arc::clone(&wait));
        guard.threshold(0).on_downtime(move |outage| down(format!("down {}", outage.number))).on_recovery(
            move |outage| {
                let (up, wait) = (up.clone(), Arc::clone(&wait));
                async move {
                    up(format!("back {} begins", outage.number));
                    wait.acquire().await.unwrap().forget();
                    up(format!("back {} ends", outage.number));
                }
            },
        )
    });
    let has = |what: &str| told.lock().unwrap().iter().any(|own| own == what);
    let running = own.start_as(0, move |n| {
        tell(format!("handled {n}"));
        std::future::ready(())
    });
    until(|| own.checkpoint.status().is_ok()).await;
    own.reaches("weather", 10).await;
    own.send("activity", 20).await;
    until(|| own.numbers() == [20]).await;
    own.reaches("weather", 30).await;
    until(|| has("back 1 begins")).await;
    assert!(own.checkpoint.handle()?.resume_anyway());
    own.send("activity", 40).await;
    until(|| own.checkpoint.status().is_ok_and(|status| status.outage == Some(2))).await;
    own.send("activity", 41).await;
    own.reaches("weather", 50).await;
    until(|| own.checkpoint.status().is_ok_and(|status| status.doing == Doing::Recovering)).await;
    go_on.add_permits(1);
    until(|| has("back 2 begins")).await;
    go_on.add_permits(1);
    until(|| own.checkpoint.status().is_ok_and(|status| status.doing == Doing::Running)).await;
    until(|| has("handled 41")).await;
    let expected = [
        ["handled 20", "down 1", "back 1 begins", "handled 40", "back 1 ends", "down 2"],
        ["back 2 begins", "back 2 ends", "handled 20", "handled 40", "handled 41", ""],
    ];
    let mut seen = told.lock().unwrap().clone();
    // A message is handled and its outage told at the same time.
    seen[..2].sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(seen, expected.concat()[..11]);
    // Told a moment after it is done.
    until(|| own.checkpoint.status().is_ok_and(|status| status.counts.resumes == 1)).await;
    running.stop().await
}

/// A key in each of two partitions.
async fn keys(world: &World) -> Result<[String; 2]> {
    let topic = world.alone::<i64>("keys", 2);
    let mut keys = [None, None];
    for n in 0.. {
        let key = format!("k{n}");
        let at = topic.send((key.clone(), 0)).await?.partition;
        keys[usize::try_from(at).unwrap()].get_or_insert(key);
        if keys.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(keys.map(Option::unwrap))
}

async fn reaches(checkpoint: &Checkpoint<Message<i64>>, marker: i64) {
    let is_there = |status: Status| status.dependencies[0].marker == Some(marker.to_string());
    until(|| checkpoint.status().is_ok_and(is_there)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_heartbeat_while_the_recovery_check_is_called_is_asked_about_too() -> Result<()> {
    for later in [false, true] {
        let world = World::memory();
        let weather: Topic<i64> = world.topic("weather", 2).broadcast();
        let activity: Topic<i64> = world.topic("activity", 1);
        let (on_weather, on_activity) = (weather.clone(), activity.clone());
        let asked = Arc::new(AtomicU64::new(0));
        let (go_on, answer) = std::sync::mpsc::channel();
        let (count, answer) = (Arc::clone(&asked), Arc::new(std::sync::Mutex::new(answer)));
        let checkpoint = Checkpoint::named("asked", move |it| {
            let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
            let decide = move |gap: Gap| {
                count.fetch_add(1, Ordering::SeqCst);
                answer.lock().unwrap().recv_timeout(Duration::from_secs(10)).unwrap();
                gap.dependency_marker > gap.marker
            };
            let weather = Dependency::new("weather", on_weather.clone(), |m| m.value);
            let weather = if later {
                weather.recovery_check(move |gap: Gap| std::future::ready(decide(gap)))
            } else {
                weather.recovery_check(decide)
            };
            it.dependent(on_activity.clone(), |m| m.value).dependency(weather).threshold(0)
        });
        let app = App::new().handle(weather, |_: i64| (), ()).handle(checkpoint.clone(), |_: i64| (), ());
        let running = Running::start(app, world.conf(0));
        until(|| checkpoint.status().is_ok()).await;
        let (to_weather, to_activity) = (world.alone::<i64>("weather", 2), world.alone::<i64>("activity", 1));
        let [first, second] = keys(&world).await?;
        to_weather.send((first.clone(), 10)).await?;
        to_weather.send((second.clone(), 10)).await?;
        reaches(&checkpoint, 10).await;
        to_activity.send(20).await?;
        until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Paused)).await;
        to_weather.send((first, 30)).await?;
        until(|| asked.load(Ordering::SeqCst) == 1).await;
        // The last one, in another lane.
        to_weather.send((second, 30)).await?;
        reaches(&checkpoint, 30).await;
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Running)).await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_has_ended_is_not_waited_for_whatever_a_check_says() -> Result<()> {
    let (seen, keep) = collect::<i64>();
    let weather = SharedStream::new("weather", || stream::iter([10_i64, 30]).boxed());
    let (on_weather, ended) = (weather.clone(), Arc::new(tokio::sync::Notify::new()));
    let end = Arc::clone(&ended);
    let checkpoint = Checkpoint::named("ended", move |it| {
        let ended = Arc::clone(&end);
        let activity = stream::once(async move { ended.notified().await }).flat_map(|()| stream::iter([20_i64, 25]));
        let weather = Dependency::new("weather", on_weather.clone(), |n| *n);
        it.dependent(activity.boxed(), |n| *n)
            .dependency(weather.downtime_check(|_: Gap| true).recovery_check(|_: Gap| false))
    });
    let run = App::new()
        .handle(weather, |_: i64| (), ())
        .handle(checkpoint.clone(), keep, ())
        .conf(Conf::isolated())
        .run()
        .into_future();
    let tell = async {
        until(|| checkpoint.status().is_ok_and(|status| status.dependencies[0].has_ended)).await;
        ended.notify_one();
    };
    let (run, ()) = tokio::join!(tokio::time::timeout(Duration::from_mins(1), run), tell);
    run.unwrap()?;
    assert_eq!(*seen.lock().unwrap(), [20, 25]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_closing_messages_that_come_through_a_proxy_are_believed_in_either_order() -> Result<()> {
    for first in [0, 1] {
        let world = World::memory();
        let feed: Topic<i64> = world.topic("feed", 2).broadcast();
        let weather = Proxy::<i64>::named(world.name("weather"));
        let activity: Topic<i64> = world.topic("activity", 1);
        let (on_weather, on_activity) = (weather.clone(), activity.clone());
        let checkpoint = Checkpoint::named("closing", move |it| {
            let weather = Dependency::new("weather", on_weather.clone(), |n| *n);
            it.dependent(on_activity.clone(), |m| m.value).dependency(weather).far_future(1_000).hold()
        });
        let (seen, keep) = collect::<i64>();
        let app = App::new().handle(feed, |n: i64| n, weather).handle(checkpoint.clone(), keep, ());
        let running = Running::start(app, world.conf(0));
        until(|| checkpoint.status().is_ok()).await;
        let (to_feed, to_activity) = (world.alone::<i64>("feed", 2), world.alone::<i64>("activity", 1));
        let keys = keys(&world).await?;
        // The first partition has more messages, so that its closing one has a higher offset.
        for (key, n) in [(0, 5), (0, 6), (0, 7), (1, 10)] {
            to_feed.send((keys[key].clone(), n)).await?;
            reaches(&checkpoint, n).await;
        }
        to_activity.send(20).await?;
        to_feed.send((keys[first].clone(), i64::MAX)).await?;
        until(|| checkpoint.status().is_ok_and(|status| status.counts.far_future >= 1)).await;
        assert_eq!(*seen.lock().unwrap(), [0; 0]);
        to_feed.send((keys[1 - first].clone(), i64::MAX)).await?;
        until(|| *seen.lock().unwrap() == [20]).await;
        running.stop().await?;
    }
    Ok(())
}
