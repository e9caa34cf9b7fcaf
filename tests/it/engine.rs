//! What the engine promises: shapes, order, errors, pausing, shutdown.

use std::time::Duration;

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Gate, Kind, One};

use crate::scenarios::{collect, memory, taken};

#[tokio::test]
async fn every_shape_of_return_value_reaches_the_sinks() -> Result<()> {
    let one = || stream::iter([1_u32]);
    let (seen, sink) = collect::<u32>();
    App::new()
        .handle(one(), |n: u32| n, sink.clone())
        .handle(one(), |n: u32| Some(n + 1), sink.clone())
        .handle(one(), |_: u32| None::<u32>, sink.clone())
        .handle(one(), |n: u32| vec![n + 2, n + 3], sink.clone())
        .handle(one(), |n: u32| [n + 4, n + 5], sink.clone())
        .handle(one(), |n: u32| (n + 6)..(n + 8), sink.clone())
        .handle(one(), |n: u32| stream::iter([n + 8, n + 9]), sink.clone())
        .handle(one(), |n: u32| Ok::<_, std::io::Error>(n + 10), sink.clone())
        .handle(one(), |n: u32| async move { n + 11 }, sink.clone())
        .handle(one(), |n: u32| async move { Ok::<_, anyhow::Error>(vec![n + 12]) }, sink.clone())
        .handle(one(), |n: u32| stream::iter([Ok::<_, std::io::Error>(n + 13)]), sink.clone())
        .handle(one(), |n: u32| One(n + 14), sink)
        .handle(one(), |_: u32| (), ())
        .conf(memory())
        .run()
        .await?;
    let mut all = taken(&seen);
    all.sort_unstable();
    assert_eq!(all, (1..=15).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn every_kind_of_sink_gets_each_value() -> Result<()> {
    let (plain, plain_sink) = collect::<u32>();
    let (waited, waited_sink) = collect::<u32>();
    let (tried, tried_sink) = collect::<u32>();
    let asynchronous = move |n: u32| {
        let sink = waited_sink.clone();
        async move {
            tokio::task::yield_now().await;
            sink(n);
        }
    };
    let fallible = move |n: u32| {
        tried_sink(n);
        Ok::<_, std::io::Error>(())
    };
    App::new()
        .handle(stream::iter(0..3_u32), |n: u32| n, (plain_sink, asynchronous, fallible))
        .conf(memory())
        .run()
        .await?;
    for list in [plain, waited, tried] {
        assert_eq!(taken(&list), [0, 1, 2]);
    }
    Ok(())
}

#[tokio::test]
async fn an_error_of_a_handler_ends_the_run_and_names_handler_and_source() {
    let (seen, sink) = collect::<u32>();
    let fails = |n: u32| if n == 2 { Err(std::io::Error::other("two is too many")) } else { Ok(n) };
    let error =
        App::new().handle(stream::iter(0..5_u32), fails, sink).name("fussy").conf(memory()).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Handler);
    assert!(error.to_string().contains("fussy"), "{error}");
    assert!(error.report().contains("two is too many"), "{error:?}");
    assert_eq!(taken(&seen), [0, 1]);
}

#[tokio::test]
async fn a_panic_is_an_error_with_its_message() {
    let panics = |n: u32| -> u32 { if n == 1 { panic!("no ones please") } else { n } };
    let error = App::new().handle(stream::iter(0..3_u32), panics, |_: u32| ()).conf(memory()).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Panic);
    assert!(error.to_string().contains("no ones please"), "{error}");
}

#[tokio::test]
async fn an_error_item_of_a_source_ends_the_run() {
    let source = stream::iter([Ok(1_u32), Err(std::io::Error::other("the wire was cut")), Ok(2)]);
    let (seen, sink) = collect::<u32>();
    let error = App::new().handle(source, |n: u32| n, sink).conf(memory()).run().await.unwrap_err();
    assert!(error.report().contains("the wire was cut"), "{error:?}");
    assert_eq!(taken(&seen), [1]);
}

#[tokio::test]
async fn b20_an_error_beside_a_source_that_waits_ends_everything_in_bounded_time() {
    let proxy: Proxy<u32> = Proxy::named("b20").external();
    let error = App::new()
        .handle(proxy, |n: u32| n, |_: u32| ())
        .handle(stream::iter([1_u32]), |_: u32| Err::<u32, _>(std::io::Error::other("boom")), |_: u32| ())
        .conf(memory())
        .run()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Handler);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_a_timeout() {
    let slow = |n: u32| async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        n
    };
    let app =
        App::new().handle(stream::iter([1_u32]), slow, |_: u32| ()).timeout(Duration::from_secs(1)).conf(memory());
    assert_eq!(app.run().await.unwrap_err().kind(), Kind::Timeout);
}

#[tokio::test]
async fn nothing_to_run_is_an_error_that_says_why() {
    let error = App::new().conf(memory()).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Build);
    assert!(error.to_string().contains("use the_crate as _;"), "{error}");
}

#[tokio::test]
async fn a_missing_ext_is_an_error_before_anything_runs() {
    struct Db;
    let (seen, sink) = collect::<u32>();
    let error = App::new()
        .handle(stream::iter([1_u32]), |n: u32| n, sink)
        .handle(stream::iter([1_u32]), |n: u32, _: Ext<Db>| n, |_: u32| ())
        .conf(memory())
        .run()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Build);
    assert!(error.to_string().contains("Db"), "{error}");
    assert!(taken(&seen).is_empty());
}

#[tokio::test]
async fn b48_a_proxy_that_writes_to_itself_is_refused_when_built() {
    let proxy: Proxy<u32> = Proxy::named("loop");
    let error = App::new().handle(proxy.clone(), |n: u32| n, proxy).conf(memory()).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Build);
    assert!(error.to_string().contains("cycle"), "{error}");
}

#[tokio::test]
async fn a_proxy_without_a_writer_is_refused_unless_it_is_external() {
    let proxy: Proxy<u32> = Proxy::named("dry");
    let error = App::new().handle(proxy, |n: u32| n, |_: u32| ()).conf(memory()).run().await.unwrap_err();
    assert!(error.to_string().contains("external"), "{error}");
}

#[tokio::test]
async fn a_shared_source_is_read_once_and_each_handler_finishes_before_the_next() -> Result<()> {
    let proxy: Proxy<u32> = Proxy::named("shared");
    let (order, sink) = collect::<(char, u32)>();
    let tag = |name: char| {
        move |n: u32| async move {
            tokio::task::yield_now().await;
            (name, n)
        }
    };
    App::new()
        .handle(stream::iter(0..2_u32), |n: u32| n, proxy.clone())
        .handle(proxy.clone(), tag('a'), sink.clone())
        .handle(proxy.clone(), tag('b'), sink.clone())
        .handle(proxy, tag('c'), sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&order), [('a', 0), ('b', 0), ('c', 0), ('a', 1), ('b', 1), ('c', 1)]);
    Ok(())
}

#[tokio::test]
async fn d5_a_pipe_that_ends_early_unsubscribes_its_handler_only() -> Result<()> {
    let proxy: Proxy<u32> = Proxy::named("d5");
    let (first, first_sink) = collect::<u32>();
    let (all, all_sink) = collect::<u32>();
    App::new()
        .handle(stream::iter(0..5_u32), |n: u32| n, proxy.clone())
        .handle(slipstream::pipe(proxy.clone(), |input: slipstream::Piped<u32>| input.take(2)), |n: u32| n, first_sink)
        .handle(proxy, |n: u32| n, all_sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&first), [0, 1]);
    assert_eq!(taken(&all), [0, 1, 2, 3, 4]);
    Ok(())
}

#[tokio::test]
async fn a_paused_proxy_holds_its_messages_and_loses_none() -> Result<()> {
    let proxy: Proxy<u32> = Proxy::named("held");
    let gate: Gate = proxy.gate().clone();
    gate.pause("user");
    let (seen, sink) = collect::<u32>();
    let run = App::new()
        .handle(stream::iter(0..3_u32), |n: u32| n, proxy.clone())
        .handle(proxy.clone(), |n: u32| n, sink)
        .conf(memory())
        .run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| proxy.waiting() == 3).await;
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(handle.health().sources.iter().find(|source| source.name == "held").unwrap().paused_by, ["user"]);
    gate.resume("user");
    task.await.unwrap()?;
    assert_eq!(taken(&seen), [0, 1, 2]);
    Ok(())
}

#[tokio::test]
async fn concurrency_keeps_order_per_key_and_uses_several_lanes() -> Result<()> {
    let (seen, sink) = collect::<(u32, u32)>();
    let work = |(key, n): (u32, u32)| async move {
        for _ in 0..(n % 7) {
            tokio::task::yield_now().await;
        }
        One((key, n))
    };
    App::new()
        .handle(stream::iter((0..1000_u32).map(|n| (n % 10, n))), work, sink)
        .concurrency(4)
        .key(|(key, _): &(u32, u32)| *key)
        .conf(memory())
        .run()
        .await?;
    let all = taken(&seen);
    assert_eq!(all.len(), 1000);
    for key in 0..10 {
        let mine: Vec<_> = all.iter().filter(|(own, _)| *own == key).map(|(_, n)| *n).collect();
        assert!(mine.is_sorted(), "{mine:?}");
    }
    Ok(())
}

#[tokio::test]
async fn concurrency_without_a_key_is_refused_where_the_source_has_none() {
    let app = App::new().handle(stream::iter([1_u32]), |n: u32| n, |_: u32| ()).concurrency(2).conf(memory());
    assert_eq!(app.run().await.unwrap_err().kind(), Kind::Build);
}

#[tokio::test]
async fn all_exit_hooks_run_and_their_errors_are_collected() {
    // D13 of the model: one failing hook skips the rest.
    let (ran, note) = collect::<u32>();
    let (first, second) = (note.clone(), note);
    let error = App::new()
        .handle(stream::iter([1_u32]), |n: u32| n, |_: u32| ())
        .on_exit(move || async move {
            first(1);
            Err(slipstream::Error::new(Kind::Io, "first hook"))
        })
        .on_exit(move || async move {
            second(2);
            Ok(())
        })
        .conf(memory())
        .run()
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "first hook");
    assert_eq!(taken(&ran), [1, 2]);
}

#[tokio::test]
async fn a_run_of_only_tasks_beside_is_legal() -> Result<()> {
    let (ran, note) = collect::<u32>();
    App::new()
        .beside(move |_stop| async move {
            note(1);
            Ok(())
        })
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&ran), [1]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_exceeds_its_deadline_is_given_up() {
    let stuck = |n: u32| async move {
        std::future::pending::<()>().await;
        n
    };
    let run = App::new()
        .handle(stream::iter([1_u32]), stuck, |_: u32| ())
        .drain_timeout(Duration::from_secs(5))
        .conf(memory())
        .run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().state == slipstream::app::State::Running).await;
    handle.trigger();
    assert!(task.await.unwrap().is_ok());
}
