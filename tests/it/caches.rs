//! Caches as sinks and as sources.

use std::time::Duration;

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Conf, Kind, Retention};

use crate::scenarios::{collect, taken};

fn conf(dir: &tempfile::TempDir) -> Conf {
    let dir = dir.path().display().to_string();
    Conf::isolated().with("broker", "memory:").with("app.id", "caches").with("state.dir", dir)
}

#[tokio::test]
async fn s6_a_temporal_join_by_a_backwards_scan() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let weather: Cache<DateTime<Utc>, String> = Cache::named("weather");
    let at = |text: &str| format!("2023-01-01T{text}:00Z").parse::<DateTime<Utc>>().unwrap();
    let hours: Vec<_> = ["10:00", "11:00", "12:00", "13:00"].map(|hour| (at(hour), hour.to_owned())).into();
    App::new()
        .handle(stream::iter(hours), |hour: (DateTime<Utc>, String)| hour, weather.clone())
        .conf(conf(&dir))
        .run()
        .await?;

    let (joined, sink) = collect::<String>();
    let lookup = weather.clone();
    let join = move |time: DateTime<Utc>| {
        lookup.items().from(time).rev().iter().next().transpose().map(|row| row.map(|(_, text)| text))
    };
    weather.open_in(dir.path().join("caches/caches"))?;
    App::new()
        .handle(stream::iter(["10:30", "11:30", "12:30", "13:10"].map(at)), join, sink)
        .conf(conf(&dir))
        .run()
        .await?;
    assert_eq!(taken(&joined), ["10:00", "11:00", "12:00", "13:00"]);
    Ok(())
}

#[tokio::test]
async fn s9_rows_come_in_key_order_and_survive_a_restart() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let declare = || Cache::<String, String>::named("things");
    let rows = [("prize", "🏆"), ("phone", "📞")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let things = declare();
    App::new().handle(stream::iter(rows), |row: (String, String)| row, things.clone()).conf(conf(&dir)).run().await?;
    let again = declare();
    again.open_in(dir.path().join("caches/caches"))?;
    let keys: Vec<String> = again.keys().iter().collect::<Result<_>>()?;
    assert_eq!(keys, ["phone", "prize"]);
    Ok(())
}

#[tokio::test]
async fn a_run_that_has_ended_lets_go_of_its_caches_although_its_handle_lives() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let declare = || Cache::<u32, u32>::named("left");
    let run = App::new().handle(stream::iter([7_u32]), |n: u32| (n, n), declare()).conf(conf(&dir)).run();
    let handle = run.handle();
    run.await?;
    let again = declare();
    again.open_in(dir.path().join("caches/caches"))?;
    assert_eq!(again.get(7)?, Some(7));
    drop(handle);
    Ok(())
}

#[tokio::test]
async fn a_handler_reads_the_changes_that_another_writes() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<u32, u32> = Cache::named("changes");
    let (seen, sink) = collect::<(u32, Option<u32>)>();
    let write = |n: u32| (n, n.is_multiple_of(2).then_some(n * 10));
    App::new()
        .handle(cache.clone(), |change: (u32, Option<u32>)| change, sink)
        .handle(stream::iter(0..4_u32), write, cache.clone())
        .conf(conf(&dir))
        .run()
        .await?;
    assert_eq!(taken(&seen), [(0, Some(0)), (1, None), (2, Some(20)), (3, None)]);
    Ok(())
}

#[tokio::test]
async fn s11_only_sink_writes_and_send_publish() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<String, u32> = Cache::named("endpoint").external();
    let (seen, sink) = collect::<(String, Option<u32>)>();
    let run = App::new().handle(cache.clone(), |change: (String, Option<u32>)| change, sink).conf(conf(&dir)).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().state == slipstream::app::State::Running).await;
    cache.put("quiet", 1)?;
    cache.send("loud".to_owned(), 2).await?;
    until(|| handle.stats().handled("endpoint") == 1).await;
    handle.trigger();
    task.await.unwrap()?;
    assert_eq!(taken(&seen), [("loud".to_owned(), Some(2))]);
    Ok(())
}

#[tokio::test]
async fn changes_that_nobody_writes_are_refused_when_built() {
    let dir = tempfile::tempdir().unwrap();
    let cache: Cache<u32, u32> = Cache::named("unwritten");
    let error = App::new()
        .handle(cache.clone(), |change: (u32, Option<u32>)| change, ())
        .conf(conf(&dir))
        .run()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Build);
}

#[tokio::test]
async fn s10_a_counter_goes_on_counting_after_a_restart() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let memory = slipstream::topic::Memory::named("s10");
    let words: Topic<String> = Topic::named("s10-words");
    for round in 1..=2 {
        let counts: Cache<String, u32> = Cache::named("counts").retention(Retention::Keep);
        let mine = counts.clone();
        let count = move |word: String| {
            let n = mine.get(&word)?.unwrap_or(0) + 1;
            Ok::<_, slipstream::Error>((word, n))
        };
        let conf = conf(&dir).with("broker", "memory:s10").with("commit.interval", "10ms");
        let run = App::new()
            .handle(
                stream::iter(["a", "b", "a"]),
                |word: &'static str| (word.to_owned(), word.to_owned()),
                words.clone(),
            )
            .handle(words.clone(), count, counts.clone())
            .handle(every(Duration::from_hours(1)), || (), ())
            .conf(conf)
            .run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        until(|| handle.stats().handled("s10-words") == 3).await;
        assert_eq!(counts.get("a")?, Some(2 * round));
        handle.trigger();
        task.await.unwrap()?;
    }
    drop(memory);
    Ok(())
}
