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
    until(|| handle.health().state == State::Draining).await;
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
    assert_eq!(fails(app(), &conf, &hold, &seen).await, [], "the second run begins with the message that failed");
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
    assert_eq!(fails(app(), &conf, &hold, &seen).await, []);
    Ok(())
}

#[tokio::test]
async fn what_other_lanes_of_the_partition_have_is_awaited_too() -> Result<()> {
    let (_memory, conf, numbers) = numbers().await?;
    let hold = watch::Sender::new(true);
    let (seen, sink) = collect::<u64>();
    let app = |conceals: bool| {
        let hold = held(&hold);
        // In the second run nothing is held: only the message that failed is left to fail.
        let slow = move |n: u64| {
            let hold = hold.clone();
            async move { if conceals && n != 10 { Ok(hold(n).await) } else { fussy(n) } }
        };
        App::new().handle(numbers.clone(), slow, sink.clone()).concurrency(4)
    };
    let first = fails(app(true), &conf, &hold, &seen).await;
    assert!((0..10).all(|n| first.contains(&n)), "{first:?}");
    let again = fails(app(false), &conf, &hold, &seen).await;
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
        async move { if n == 10 { fussy(n) } else { Ok(wait(n).await) } }
    };
    let app = App::new().handle(stream::iter(0..20_u64), slow, sink).concurrency(4).key(|n: &u64| *n);
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
