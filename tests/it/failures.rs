//! What is left when a run fails: what is done is committed, and whoever waits is told why.

use std::sync::atomic::{AtomicU64, Ordering};

use slipstream::app::State;
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Error, Kind};
use tokio::sync::watch;

use crate::scenarios::{collect, memory, taken};

/// A broker of its own, with a topic of one partition that has the numbers up to 20.
async fn numbers() -> Result<(slipstream::topic::Memory, Conf, Topic<u64>)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("failures-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let memory = slipstream::topic::Memory::named(&name);
    let conf = Conf::isolated().with("broker", format!("memory:{name}")).with("commit.interval", "10ms");
    let numbers: Topic<u64> = Topic::named("numbers").partitions(1);
    let keyed = stream::iter((0..20_u64).map(|n| (n.to_string(), n)));
    App::new().handle(keyed, |pair: (String, u64)| pair, numbers.clone()).conf(conf.clone()).run().await?;
    Ok((memory, conf, numbers))
}

/// A handler that fails at 10.
fn fussy(n: u64) -> std::io::Result<u64> {
    if n == 10 { Err(std::io::Error::other("ten is too many")) } else { Ok(n) }
}

/// Ends with the error of `fussy`, while what it let pass is held until the run drains; gives what came out.
async fn fails(app: App, conf: &Conf, hold: &watch::Sender<bool>, seen: &std::sync::Mutex<Vec<u64>>) -> Vec<u64> {
    hold.send_replace(true);
    let run = app.conf(conf.clone()).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| matches!(handle.health().state, State::Draining | State::Stopped)).await;
    hold.send_replace(false);
    let error = task.await.unwrap().unwrap_err();
    assert!(error.report().contains("ten is too many"), "{error:?}");
    taken(seen)
}

/// A handler that holds what it has while it is told to.
fn held(hold: &watch::Sender<bool>) -> impl Fn(u64) -> futures::future::BoxFuture<'static, u64> + Clone + use<> {
    let hold = hold.subscribe();
    move |n| {
        let mut hold = hold.clone();
        Box::pin(async move {
            let _ = hold.wait_for(|held| !held).await;
            n
        })
    }
}

#[tokio::test]
async fn what_was_dispatched_before_a_message_that_fails_is_awaited_and_committed() -> Result<()> {
    let (_memory, conf, numbers) = numbers().await?;
    let hold = watch::Sender::new(true);
    let (seen, sink) = collect::<u64>();
    let app = || {
        let passed: Proxy<u64> = Proxy::named("passed");
        let first = App::new().handle(numbers.clone(), fussy, passed.clone());
        first.handle(passed, held(&hold), sink.clone())
    };
    assert_eq!(fails(app(), &conf, &hold, &seen).await, (0..10).collect::<Vec<_>>());
    let again = fails(app(), &conf, &hold, &seen).await;
    assert!(again.is_empty(), "the second run begins with the message that failed, not with {again:?}");
    Ok(())
}

#[tokio::test]
async fn what_was_dispatched_before_is_also_awaited_when_a_handler_behind_a_proxy_fails() -> Result<()> {
    let (_memory, conf, numbers) = numbers().await?;
    let hold = watch::Sender::new(true);
    let (seen, sink) = collect::<u64>();
    let app = || {
        let (all, passed): (Proxy<u64>, Proxy<u64>) = (Proxy::named("all"), Proxy::named("passed"));
        let first = App::new().handle(numbers.clone(), |n: u64| n, all.clone());
        first.handle(all, fussy, passed.clone()).handle(passed, held(&hold), sink.clone())
    };
    assert_eq!(fails(app(), &conf, &hold, &seen).await, (0..10).collect::<Vec<_>>());
    assert!(fails(app(), &conf, &hold, &seen).await.is_empty());
    Ok(())
}

#[tokio::test]
async fn what_other_lanes_of_the_partition_have_is_awaited_too() -> Result<()> {
    let (_memory, conf, numbers) = numbers().await?;
    let hold = watch::Sender::new(true);
    let (seen, sink) = collect::<u64>();
    let app = || {
        let wait = held(&hold);
        let slow = move |n: u64| {
            let wait = wait.clone();
            async move { if n == 9 { Ok(wait(n).await) } else { fussy(n) } }
        };
        App::new().handle(numbers.clone(), slow, sink.clone()).concurrency(64)
    };
    let first = fails(app(), &conf, &hold, &seen).await;
    assert!((0..10).all(|n| first.contains(&n)), "{first:?}");
    let again = fails(app(), &conf, &hold, &seen).await;
    assert!(again.iter().all(|n| *n > 10), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_stream_gave_before_an_item_that_fails_is_handled() {
    let hold = watch::Sender::new(true);
    let (seen, sink) = collect::<u64>();
    let wait = held(&hold);
    let slow = move |n: u64| {
        let wait = wait.clone();
        async move { if n == 2 { Ok(wait(n).await) } else { fussy(n) } }
    };
    // One by one, so that 9 waits in front of its lane, which has 2 in hand.
    let one_by_one = stream::iter(0..20_u64).then(|n| async move {
        tokio::task::yield_now().await;
        n
    });
    let app = App::new().handle(one_by_one, slow, sink).concurrency(64).key(|n: &u64| *n % 7);
    let all = fails(app, &memory(), &hold, &seen).await;
    assert!((0..10).all(|n| all.contains(&n)), "{all:?}");
}

#[tokio::test]
async fn deliver_gives_the_error_of_the_handler_that_failed() {
    // Behind one proxy, behind two, and in a lane of several.
    for (hop, lanes) in [(false, 1), (true, 1), (false, 3)] {
        let (orders, checked): (Proxy<u64>, Proxy<u64>) = (Proxy::named("orders").external(), Proxy::named("checked"));
        let app = if hop {
            App::new().handle(orders.clone(), |n: u64| n, checked.clone()).handle(checked, fussy, ()).name("check")
        } else {
            let app = App::new().handle(orders.clone(), fussy, ()).name("check");
            app.concurrency(lanes).key(|n: &u64| *n)
        };
        let client = async move |_stop| {
            orders.deliver(1).await?;
            orders.deliver(10).await
        };
        let run = app.conf(memory()).run();
        let (told, is_told) = tokio::sync::oneshot::channel();
        let client = async move |stop| {
            let _ = told.send(client(stop).await);
            Ok(())
        };
        let error = run.beside(client).await.unwrap_err();
        let told: Error = is_told.await.unwrap().unwrap_err();
        assert_eq!(told.kind(), Kind::Handler, "{told:?}");
        assert_eq!(told.report(), error.report(), "what the run ends with");
        assert!(told.to_string().contains("check") && told.report().contains("ten is too many"), "{told:?}");
    }
}

/// Two signals 50 ms apart, as `timeout` sends them: to a process, then to its group.
#[cfg(unix)]
#[test]
fn a_signal_that_comes_twice_within_milliseconds_drains() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Command, Stdio};

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "failures::drains_when_signalled", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("in hand") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended early");
    }
    let pid = child.id();
    let twice = format!("kill -TERM {pid}; sleep 0.05; kill -TERM {pid}");
    assert!(Command::new("sh").args(["-c", &twice]).status().unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("done"), "{rest}");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn drains_when_signalled() {
    let slow = |_: u32| async {
        println!("in hand");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        println!("done");
    };
    App::new().handle(stream::iter([1_u32]).chain(stream::pending()), slow, ()).conf(memory()).run().await.unwrap();
}

#[tokio::test]
async fn a_topic_whose_only_handler_has_ended_ends_the_run_and_leaves_the_rest() -> Result<()> {
    let (memory, conf, _) = numbers().await?;
    // Two partitions: one lane ends the pipe, the other one waits for records.
    let events: Topic<u64> = Topic::named("events").partitions(2);
    let keyed = stream::iter((0..9_u64).map(|n| (String::from("one key"), n)));
    App::new().handle(keyed, |pair: (String, u64)| pair, events.clone()).conf(conf.clone()).run().await?;
    let (seen, sink) = collect::<u64>();
    let values = |event: Message<u64>| event.value;
    let first = slipstream::pipe(events.clone(), |input: slipstream::Piped<Message<u64>>| input.take(5));
    let run = App::new().handle(first, values, sink.clone()).conf(conf.clone()).run();
    tokio::time::timeout(std::time::Duration::from_secs(20), run.into_future()).await.expect("it ends")?;
    assert_eq!(taken(&seen), [0, 1, 2, 3, 4]);

    let rest = slipstream::pipe(events, |input: slipstream::Piped<Message<u64>>| input.take(4));
    App::new().handle(rest, values, sink).conf(conf).run().await?;
    assert_eq!(taken(&seen), [5, 6, 7, 8], "what the first run did not handle");
    drop(memory);
    Ok(())
}

#[tokio::test]
async fn a_message_that_stays_not_done_is_reported_whatever_comes_behind_it() -> Result<()> {
    let (_memory, conf, numbers) = numbers().await?;
    let conf = conf.with("watchdog.timeout", "300ms").with("drain.timeout", "1ms");
    let passed: Proxy<u64> = Proxy::named("passed");
    let stuck = |n: u64| async move {
        if n == 3 {
            std::future::pending::<()>().await;
        }
    };
    let more = futures::stream::unfold(20_u64, |n| async move {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        Some(((n.to_string(), n), n + 1))
    });
    let run = App::new()
        .handle(more, |pair: (String, u64)| pair, numbers.clone())
        .handle(numbers, |n: u64| n, passed.clone())
        .handle(passed, stuck, ())
        .conf(conf)
        .run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    let notice = |name: &str| handle.health().sources.into_iter().find(|source| source.name == name)?.notice;
    until(|| notice("numbers").is_some_and(|notice| notice.contains("numbers[0]@3"))).await;
    until(|| notice("passed").is_some()).await;
    assert!(!handle.health().ok);
    handle.trigger();
    task.await.unwrap()
}

#[tokio::test]
async fn a_message_of_a_stream_that_stays_not_done_is_reported() -> Result<()> {
    let conf = memory().with("watchdog.timeout", "100ms").with("drain.timeout", "1ms");
    let stuck = |_: u32| std::future::pending::<()>();
    let run = App::new().handle(stream::iter([1_u32]), stuck, ()).name("stuck").conf(conf).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().sources.iter().any(|source| source.notice.is_some())).await;
    handle.trigger();
    task.await.unwrap()
}

#[tokio::test]
async fn what_is_held_by_a_pause_is_not_reported_and_what_moves_again_is_well() -> Result<()> {
    let conf = memory().with("watchdog.timeout", "100ms");
    let (held, slow): (Proxy<u64>, Proxy<u64>) = (Proxy::named("held"), Proxy::named("slow"));
    held.gate().pause("user");
    let holding = watch::Sender::new(true);
    let run = App::new()
        .handle(stream::iter([1_u64]), |n: u64| n, held.clone())
        .handle(held.clone(), |n: u64| n, slow.clone())
        .handle(slow, self::held(&holding), |_: u64| ())
        .conf(conf)
        .run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| held.waiting() == 1 || handle.health().sources.iter().any(|source| !source.paused_by.is_empty())).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(handle.health().ok, "{:?}", handle.health());
    held.gate().resume("user");
    until(|| !handle.health().ok).await;
    holding.send_replace(false);
    task.await.unwrap()?;
    assert!(handle.health().ok, "{:?}", handle.health());
    Ok(())
}
