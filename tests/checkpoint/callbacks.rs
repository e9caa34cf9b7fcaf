//! `on_downtime` and `on_recovery`: how often, in which order, with what, and what becomes of one that fails or hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slipstream::checkpoint::{AtLimit, Doing, Gap, Guard, Outage, Snapshot};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Checkpoint, Conf, Dependency, Kind};
use tokio::sync::{Notify, Semaphore};

use crate::bound::{PAUSED, at, bound, counted, counted_with, time};
use crate::world::collect;

type Calls = Vec<(&'static str, String, String)>;

fn call(what: &'static str, outage: &Outage) -> (&'static str, String, String) {
    (what, outage.checkpoint.to_string(), outage.dependency.to_string())
}

/// One outage; what was called.
async fn one_outage(declare: impl Fn(Guard<i64>) -> Guard<i64> + Send + Sync + 'static) -> Result<()> {
    let own = bound(move |guard, [first, _]| declare(guard.dependency(first)));
    own.reaches("first", at(10, 0)).await;
    own.pulse(at(11, 0)).await;
    own.reaches("first", at(10, 30)).await;
    own.reaches("first", at(11, 1)).await;
    own.is(Doing::Running).await;
    own.reaches("first", at(11, 2)).await;
    assert_eq!(own.pulse(at(11, 1)).await, None);
    own.running.stop().await
}

fn once(what: &'static str) -> Calls {
    vec![(what, "activity".to_owned(), "first".to_owned())]
}

#[tokio::test]
async fn cp_13_each_callback_is_called_once_sync_or_async() -> Result<()> {
    let (sync_down, keep) = collect();
    one_outage(move |guard| {
        let keep = keep.clone();
        guard.on_downtime(move |outage| keep(call("down", &outage)))
    })
    .await?;
    assert_eq!(*sync_down.lock().unwrap(), once("down"));

    let (async_down, keep) = collect();
    one_outage(move |guard| {
        let keep = keep.clone();
        guard.on_downtime(move |outage| {
            let keep = keep.clone();
            async move {
                tokio::task::yield_now().await;
                keep(call("down", &outage));
            }
        })
    })
    .await?;
    assert_eq!(*async_down.lock().unwrap(), once("down"));

    let (sync_back, keep) = collect();
    one_outage(move |guard| {
        let keep = keep.clone();
        guard.on_recovery(move |outage| keep(call("back", &outage)))
    })
    .await?;
    assert_eq!(*sync_back.lock().unwrap(), once("back"));

    let (async_back, keep) = collect();
    one_outage(move |guard| {
        let keep = keep.clone();
        guard.on_recovery(move |outage| {
            let keep = keep.clone();
            async move {
                tokio::task::yield_now().await;
                keep(call("back", &outage));
            }
        })
    })
    .await?;
    assert_eq!(*async_back.lock().unwrap(), once("back"));
    Ok(())
}

/// One outage of a run that a callback ends.
async fn ends(declare: impl Fn(Guard<i64>) -> Guard<i64> + Send + Sync + 'static) -> slipstream::Error {
    let own = counted(move |guard, [first, _]| declare(guard.dependency(first).threshold(0)));
    own.reaches("first", 10).await;
    own.pulse(20).await;
    own.bring("first", 21).await;
    own.running.ended().await.unwrap_err()
}

/// The same where it may end before the dependency is back.
async fn ends_at_once(declare: impl Fn(Guard<i64>) -> Guard<i64> + Send + Sync + 'static) -> slipstream::Error {
    let own = counted(move |guard, [first, _]| declare(guard.dependency(first).threshold(0)));
    own.reaches("first", 10).await;
    own.send(20).await;
    own.running.ended().await.unwrap_err()
}

#[tokio::test]
async fn an_error_of_either_callback_ends_the_run_with_its_text() {
    let failing = |what| Err::<(), _>(std::io::Error::other(what));
    let later = move |what| async move {
        tokio::task::yield_now().await;
        failing(what)
    };
    let down = ends_at_once(move |guard| guard.on_downtime(move |_| failing("no pager"))).await;
    let down_later = ends_at_once(move |guard| guard.on_downtime(move |_| later("no pager"))).await;
    let back = ends(move |guard| guard.on_recovery(move |_| failing("no pager"))).await;
    let back_later = ends(move |guard| guard.on_recovery(move |_| later("no pager"))).await;
    for (error, name) in
        [(down, "on_downtime"), (down_later, "on_downtime"), (back, "on_recovery"), (back_later, "on_recovery")]
    {
        assert_eq!(error.kind(), Kind::Handler);
        let shown = error.report();
        assert!(
            shown.contains(&format!("checkpoint activity: `{name}` failed")) && shown.contains("no pager"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_panic_of_either_callback_ends_the_run_with_its_text() {
    fn fall(what: &str) {
        panic!("no {what}");
    }
    let later = |what| async move {
        tokio::task::yield_now().await;
        fall(what);
    };
    let down = ends_at_once(|guard| guard.on_downtime(|_| fall("pager"))).await;
    let down_later = ends_at_once(move |guard| guard.on_downtime(move |_| later("pager"))).await;
    let back = ends(|guard| guard.on_recovery(|_| fall("pager"))).await;
    let back_later = ends(move |guard| guard.on_recovery(move |_| later("pager"))).await;
    for (error, name) in
        [(down, "on_downtime"), (down_later, "on_downtime"), (back, "on_recovery"), (back_later, "on_recovery")]
    {
        let shown = format!("checkpoint activity: `{name}` panicked: no pager");
        assert_eq!((error.kind(), error.to_string()), (Kind::Panic, shown));
    }
}

#[tokio::test]
async fn cp_20_d_11_a_heartbeat_while_on_downtime_is_awaited_is_told_once_and_afterwards() -> Result<()> {
    let (calls, keep) = collect();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go_on));
    let own = counted(move |guard, [first, _]| {
        let (down, back, tell, wait) = (keep.clone(), keep.clone(), Arc::clone(&tell), Arc::clone(&wait));
        guard
            .dependency(first)
            .threshold(0)
            .on_downtime(move |_| {
                let (down, tell, wait) = (down.clone(), Arc::clone(&tell), Arc::clone(&wait));
                async move {
                    down("down begins");
                    tell.notify_one();
                    wait.notified().await;
                    down("down ends");
                }
            })
            .on_recovery(move |_| back("back"))
    });
    own.reaches("first", 10).await;
    own.pulse(20).await;
    begun.notified().await;
    own.send(21).await;
    // Two of them: either would do.
    own.reaches("first", 22).await;
    own.reaches("first", 23).await;
    assert_eq!((own.is_down("first"), own.doing()), (false, Doing::Recovering));
    assert_eq!(own.status().next, "waits for `on_downtime`, then goes on");
    assert_eq!((own.paused_by(), own.handled()), (PAUSED.map(str::to_owned).to_vec(), vec![20]));
    assert_eq!(*calls.lock().unwrap(), ["down begins"]);
    go_on.notify_one();
    until(|| own.handled() == [20, 21]).await;
    own.is(Doing::Running).await;
    assert_eq!(*calls.lock().unwrap(), ["down begins", "down ends", "back"]);
    own.running.stop().await
}

#[tokio::test]
async fn b_45_d_18_callbacks_get_how_everything_stood_before_at_and_after_an_outage() -> Result<()> {
    let (told, tell) = collect();
    let own = bound(move |guard, [first, _]| {
        let (down, back) = (tell.clone(), tell.clone());
        guard
            .dependency(first)
            .pause_dependent(false)
            // Counts messages: an offset where the source has none.
            .state(|_: &i64, before: Option<&i64>| before.map_or(1, |before| before + 1))
            .on_downtime(down)
            .on_recovery(back)
    });
    own.reaches("first", at(10, 0)).await;
    for minute in 1..=5 {
        assert_eq!(own.pulse(at(10, minute)).await, None);
    }
    own.reaches("first", at(10, 6)).await; // the last good heartbeat, with 5
    for minute in [7, 8, 9] {
        assert_eq!(own.pulse(at(10, minute)).await, None);
    }
    own.pulse(at(11, 0)).await.unwrap(); // detected, with 9
    own.reaches("first", at(10, 20)).await;
    own.pulse(at(11, 1)).await.unwrap(); // with 10
    // Several late heartbeats while it catches up.
    own.reaches("first", at(10, 40)).await;
    own.reaches("first", at(10, 50)).await;
    own.reaches("first", at(12, 0)).await;
    own.is(Doing::Running).await;
    own.pulse(at(12, 1)).await;

    let told = told.lock().unwrap().clone();
    let [down, back] = &told[..] else { panic!("{told:?}") };
    let stood = |snapshot: &Snapshot| {
        let mark = |mark: Option<slipstream::checkpoint::Mark>| mark.map(|mark| mark.to_string());
        (snapshot.state::<i64>(), mark(snapshot.marker()), mark(snapshot.dependency("first")))
    };
    let expected = |state, marker, first| (Some(state), Some(own.text(marker)), Some(own.text(first)));
    let (healthy, detected) = (expected(5, at(10, 5), at(10, 6)), expected(9, at(11, 0), at(10, 6)));
    for outage in [down, back] {
        assert_eq!((stood(&outage.healthy), stood(&outage.detected)), (healthy.clone(), detected.clone()));
        assert_eq!(outage.number, 1);
    }
    assert!(down.recovered.is_none());
    assert_eq!(stood(back.recovered.as_ref().unwrap()), expected(10, at(11, 1), at(12, 0)));
    assert_eq!(back.detected.state::<String>(), None, "of another type");
    assert_eq!(back.healthy.dependency("second"), None, "not one of its dependencies");
    own.running.stop().await
}

/// A pager that never answers, at the beginning of an outage or at its end.
fn hangs(guard: Guard<i64>, at_recovery: bool) -> Guard<i64> {
    let never = |_: Arc<Outage>| std::future::pending::<()>();
    if at_recovery { guard.on_recovery(never) } else { guard.on_downtime(never) }
}

#[tokio::test(start_paused = true)]
async fn while_a_callback_hangs_its_pause_has_its_limit_and_a_notice() -> Result<()> {
    for (at_recovery, then) in
        [(false, AtLimit::Stop), (false, AtLimit::Resume), (true, AtLimit::Stop), (true, AtLimit::Resume)]
    {
        let conf = Conf::isolated().with("watchdog.timeout", "30s");
        let own = counted_with(conf, move |guard, [first, _]| {
            hangs(guard.dependency(first).threshold(0), at_recovery).max_pause(Duration::from_mins(2), then)
        });
        let name = if at_recovery { "on_recovery" } else { "on_downtime" };
        own.reaches("first", 10).await;
        own.pulse(20).await;
        own.send(21).await;
        if at_recovery {
            own.reaches("first", 100).await;
            own.is(Doing::Recovering).await;
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        let health = own.running.handle.health();
        let notice = health.notices.iter().find(|notice| notice.starts_with("checkpoint activity: "));
        let says = |words: &str| notice.is_some_and(|notice| notice.contains(words));
        assert!(!health.ok && says("for more than 30s") && says(&format!("waits for `{name}`")), "{health:?}");
        assert_eq!(own.handled(), [20]);
        tokio::time::sleep(Duration::from_secs(90)).await;
        if then == AtLimit::Stop {
            let error = own.running.ended().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Timeout);
            assert!(error.to_string().contains(&format!("waits for `{name}`")), "{error}");
        } else {
            assert_eq!(own.handled(), [20, 21], "{:?}", own.status());
            assert_eq!(own.status().counts.overrides, 1);
            own.running.stop().await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_hangs_does_not_hold_up_the_end() -> Result<()> {
    for at_recovery in [false, true] {
        let own = counted(move |guard, [first, _]| hangs(guard.dependency(first).threshold(0), at_recovery));
        own.reaches("first", 10).await;
        own.pulse(20).await;
        if at_recovery {
            own.reaches("first", 21).await;
            own.is(Doing::Recovering).await;
        }
        let began = tokio::time::Instant::now();
        own.running.stop().await?;
        assert!(began.elapsed() < Duration::from_secs(20), "far below the drain timeout");
    }
    Ok(())
}

#[tokio::test]
async fn while_a_callback_hangs_what_is_to_be_told_has_a_bound() -> Result<()> {
    const MESSAGES: i64 = 4000;
    let (numbers, tell) = collect();
    let answers = Arc::new(Semaphore::new(0));
    let answer = Arc::clone(&answers);
    let own = counted(move |guard, [first, _]| {
        let (tell, answer, asked) = (tell.clone(), Arc::clone(&answer), AtomicU64::new(0));
        // Down and back again with the messages.
        let first = first.downtime_check(move |_: Gap| {
            asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2).then_some(Duration::from_secs(1))
        });
        guard.dependency(first.recovery_check(|_: Gap| true)).pause_dependent(false).on_downtime(move |outage| {
            let (tell, answer) = (tell.clone(), Arc::clone(&answer));
            async move {
                let _answered = answer.acquire().await;
                tell(outage.number);
            }
        })
    });
    let all = async {
        for n in 0..MESSAGES {
            own.send(n).await;
        }
    };
    let bounded = async {
        own.is(Doing::Telling).await;
        let handled = own.handled().len();
        assert!(own.paused_by() == PAUSED && handled < 1024, "{handled}");
        assert_eq!(own.status().next, "waits for `on_downtime`, then tells of earlier outages, then goes on");
        answers.add_permits(1);
    };
    tokio::join!(all, bounded);
    until(|| own.handled().into_iter().eq(0..MESSAGES)).await;
    until(|| own.paused_by().is_empty() && own.status().counts.downs >= 1024).await;
    own.running.stop().await?;
    let numbers = numbers.lock().unwrap().clone();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "each once, in order");
    Ok(())
}

#[tokio::test]
async fn a_marker_of_times_is_told_as_it_was_given() -> Result<()> {
    let (told, tell) = collect();
    let own = bound(move |guard, [first, _]| {
        let tell = tell.clone();
        guard.dependency(first).on_downtime(move |outage| tell(outage.detected.marker()))
    });
    own.reaches("first", at(10, 0)).await;
    own.pulse(at(11, 0)).await;
    until(|| told.lock().unwrap().len() == 1).await;
    assert_eq!(*told.lock().unwrap(), [Some(slipstream::checkpoint::Marker::mark(&time(&at(11, 0))))]);
    own.running.stop().await
}

async fn slow(n: u32) -> u32 {
    tokio::time::sleep(Duration::from_millis(10)).await;
    n
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_happened_is_told_to_its_end_when_streams_end() -> Result<()> {
    for _ in 0..20 {
        let weather = slipstream::SharedStream::new("weather", || stream::iter([1, 9]).then(slow).boxed());
        let (calls, keep) = collect();
        let dependency = weather.clone();
        let checkpoint = Checkpoint::named("end", move |it| {
            let (down, up) = (keep.clone(), keep.clone());
            it.dependent(stream::iter([5_u32]), |n| *n)
                .dependency(Dependency::new("weather", dependency.clone(), |n| *n))
                .threshold(0)
                .on_downtime(move |_| down("down"))
                .on_recovery(move |_| {
                    let up = up.clone();
                    async move {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        up("up");
                    }
                })
        });
        App::new()
            .handle(weather, |_: u32| (), ())
            .handle(checkpoint, |_: u32| (), ())
            .conf(Conf::isolated())
            .run()
            .await?;
        assert_eq!(*calls.lock().unwrap(), ["down", "up"]);
    }
    Ok(())
}
