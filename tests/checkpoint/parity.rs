//! CP with bound handlers: what the model's suite checks of a checkpoint alone, with its numbers, as an app sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use slipstream::checkpoint::{Doing, Gap, Lag, Span};
use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{CheckpointHandle, Conf, Dependency, Downtime};

use crate::bound::{PAUSED, at, bound, counted, time};
use crate::world::{Running, collect};

const SECOND: Duration = Duration::from_secs(1);

fn by(lag: Duration) -> Lag {
    Lag::By(Span::from(lag))
}

fn told(downtime: Option<&Downtime>) -> Vec<(String, Lag)> {
    downtime.into_iter().flat_map(Downtime::iter).map(|(name, lag)| (name.to_owned(), lag)).collect()
}

fn named(lags: &[(&str, Lag)]) -> Vec<(String, Lag)> {
    lags.iter().map(|(name, lag)| ((*name).to_owned(), *lag)).collect()
}

#[tokio::test]
async fn cp_1_cp_5_a_fresh_checkpoint_has_no_marker_no_state_and_nothing_down() -> Result<()> {
    let own = bound(|guard, [first, _]| guard.dependency(first).state(|n: &i64, _: Option<&i64>| *n));
    until(|| own.checkpoint.status().is_ok()).await;
    let status = own.status();
    assert_eq!((status.name.as_str(), status.marker, status.outage), ("activity", None, None));
    assert_eq!((status.doing, status.next.as_str(), status.held_lanes), (Doing::Running, "nothing", 0));
    let [first] = &status.dependencies[..] else { panic!("{:?}", status.dependencies) };
    assert_eq!((first.name.as_str(), &first.marker, first.is_down, &first.behind), ("first", &None, false, &None));
    assert_eq!(status.counts, slipstream::checkpoint::Counts::default());
    assert_eq!(own.checkpoint.handle()?.state::<i64>(), None);
    let dependency = Dependency::new("first", stream::pending::<i64>(), time);
    assert_eq!(format!("{dependency:?}"), "Dependency { name: \"first\", .. }");
    assert_eq!(format!("{:?}", own.checkpoint), "Checkpoint { name: \"activity\", .. }");
    own.running.stop().await
}

#[tokio::test]
async fn cp_1_cp_5_times_have_a_threshold_of_ten_minutes() -> Result<()> {
    let own = bound(|guard, [first, _]| guard.dependency(first));
    own.reaches("first", at(10, 0)).await;
    assert_eq!(own.pulse(at(10, 9) + 59).await, None);
    assert!(!own.is_down("first") && own.paused_by().is_empty());
    let downtime = own.pulse(at(10, 10) + 1).await;
    assert_eq!(told(downtime.as_ref()), named(&[("first", by(601 * SECOND))]));
    assert!(own.is_down("first"));
    assert_eq!(own.paused_by(), PAUSED);
    own.running.stop().await
}

#[tokio::test]
async fn the_threshold_of_a_dependency_beats_that_of_its_checkpoint() -> Result<()> {
    let own = bound(|guard, [first, second]| {
        guard.dependency(first.threshold(3600 * SECOND)).dependency(second).threshold(60 * SECOND)
    });
    own.reaches("first", at(10, 0)).await;
    own.reaches("second", at(10, 0)).await;
    let downtime = own.pulse(at(10, 30)).await;
    assert_eq!(told(downtime.as_ref()), named(&[("second", by(1800 * SECOND))]));
    assert!(!own.is_down("first") && own.is_down("second"));
    own.running.stop().await
}

#[tokio::test]
async fn cp_7_cp_23_a_heartbeat_moves_its_own_dependency_and_a_checkpoint_takes_one_or_two() -> Result<()> {
    let one = bound(|guard, [first, _]| guard.dependency(first));
    until(|| one.checkpoint.status().is_ok_and(|status| status.dependencies.len() == 1)).await;
    one.running.stop().await?;

    let two = bound(|guard, [first, second]| guard.dependency(first).dependency(second));
    two.reaches("second", at(10, 30)).await;
    assert_eq!((two.marker("first"), two.marker("second")), (None, Some(two.text(at(10, 30)))));
    two.reaches("first", at(10, 0)).await;
    assert_eq!((two.marker("first"), two.marker("second")), (Some(two.text(at(10, 0))), Some(two.text(at(10, 30)))));
    two.running.stop().await
}

#[tokio::test]
async fn cp_15_a_later_dependency_that_is_up_does_not_hide_an_earlier_one_that_is_down() -> Result<()> {
    for (down, up) in [("first", "second"), ("second", "first")] {
        let own = bound(|guard, [first, second]| guard.dependency(first).dependency(second));
        own.reaches(down, at(10, 0)).await;
        own.reaches(up, at(10, 31)).await;
        let downtime = own.pulse(at(10, 30)).await;
        assert_eq!(told(downtime.as_ref()), named(&[(down, by(1800 * SECOND))]));
        assert!(own.is_down(down) && !own.is_down(up));
        assert_eq!(own.paused_by(), PAUSED);
        own.running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn cp_17_of_two_that_are_down_one_recovers_and_the_dependent_stays_paused() -> Result<()> {
    for (sooner, later) in [("first", "second"), ("second", "first")] {
        let (calls, call) = collect();
        let own = bound(move |guard, [first, second]| {
            let (down, up) = (call.clone(), call.clone());
            guard
                .dependency(first)
                .dependency(second)
                .threshold(Duration::ZERO)
                .on_downtime(move |outage| {
                    down(("down", outage.dependency.to_string(), told(outage.downtime.as_ref()), outage.number));
                })
                .on_recovery(move |outage| {
                    up(("back", outage.dependency.to_string(), told(outage.downtime.as_ref()), outage.number));
                })
        });
        own.reaches("first", at(10, 0) + 1).await;
        own.reaches("second", at(10, 0)).await;
        let both = named(&[("first", by(SECOND)), ("second", by(2 * SECOND))]);
        assert_eq!(told(own.pulse(at(10, 0) + 2).await.as_ref()), both);
        assert!(own.is_down("first") && own.is_down("second"));
        assert_eq!(own.status().next, "waits for first, second, then goes on");
        own.send(at(10, 0) + 3).await;

        own.reaches(sooner, at(10, 1)).await;
        assert!(!own.is_down(sooner) && own.is_down(later), "{:?}", own.status());
        assert_eq!((own.behind(sooner), own.doing()), (None, Doing::Paused));
        assert_eq!(own.status().next, format!("waits for {later}, then goes on"));
        assert_eq!(own.paused_by(), PAUSED);
        assert_eq!(own.handled(), [at(10, 0) + 2], "the next one waits");

        own.reaches(later, at(10, 1)).await;
        until(|| own.handled().len() == 2).await;
        until(|| own.doing() == Doing::Running && own.paused_by().is_empty()).await;
        assert_eq!(own.seen.lock().unwrap().last().unwrap().1, None);
        let call = |what, who: &str| (what, who.to_owned(), both.clone(), 1);
        assert_eq!(*calls.lock().unwrap(), [call("down", "first"), call("down", "second"), call("back", later)]);
        assert_eq!((own.status().counts.downs, own.status().counts.recoveries), (2, 1));
        own.running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_second_dependency_that_goes_down_in_an_outage_is_told_with_the_first() -> Result<()> {
    let (calls, call) = collect();
    let own = counted(move |guard, [first, second]| {
        let call = call.clone();
        guard.dependency(first).dependency(second).threshold(0).pause_dependent(false).on_downtime(move |outage| {
            call((outage.dependency.to_string(), outage.downtime.clone().unwrap().to_string()));
        })
    });
    own.reaches("first", 10).await;
    own.reaches("second", 30).await;
    assert_eq!(own.pulse(20).await.unwrap().to_string(), "first: 10");
    assert!(!own.is_down("second"));
    assert_eq!(own.pulse(35).await.unwrap().to_string(), "first: 25, second: 5");
    until(|| calls.lock().unwrap().len() == 2).await;
    // Each as it was when it was found down.
    let shown = [("first", "first: 10"), ("second", "first: 10, second: 5")];
    assert_eq!(*calls.lock().unwrap(), shown.map(|(who, downtime)| (who.to_owned(), downtime.to_owned())));
    assert_eq!(own.status().outage, Some(1), "it is one outage");
    own.running.stop().await
}

#[tokio::test]
async fn cp_16_a_dependency_recovers_with_the_next_message_without_a_heartbeat() -> Result<()> {
    let is_late = Arc::new(AtomicBool::new(true));
    let late = Arc::clone(&is_late);
    let own = bound(move |guard, [first, _]| {
        let (late, back) = (Arc::clone(&late), Arc::clone(&late));
        let first = first.downtime_check(move |_: Gap| late.load(Ordering::SeqCst).then_some(SECOND));
        guard.dependency(first.recovery_check(move |_: Gap| !back.load(Ordering::SeqCst)))
    });
    assert_eq!(told(own.pulse(at(10, 0)).await.as_ref()), named(&[("first", by(SECOND))]));
    assert!(own.is_down("first"));
    assert_eq!((own.paused_by(), own.doing()), (PAUSED.map(str::to_owned).to_vec(), Doing::Paused));
    // No message comes while it is paused: one is let through by hand.
    is_late.store(false, Ordering::SeqCst);
    assert!(own.resume_anyway());
    assert_eq!(own.pulse(at(10, 1)).await, None);
    own.is(Doing::Running).await;
    assert!(!own.is_down("first") && own.paused_by().is_empty());
    assert_eq!(own.marker("first"), None, "there was no heartbeat");
    own.running.stop().await
}

#[tokio::test]
async fn cp_18_two_messages_in_one_outage_call_on_downtime_once() -> Result<()> {
    let (calls, call) = collect();
    let own = bound(move |guard, [first, _]| {
        let call = call.clone();
        guard.dependency(first).pause_dependent(false).on_downtime(move |outage| call(outage.number))
    });
    own.reaches("first", at(10, 0)).await;
    let both = [own.pulse(at(10, 30)).await, own.pulse(at(10, 31)).await];
    assert_eq!(both.map(|downtime| downtime.unwrap().longest()), [30, 31].map(|n| Some(Span::from(60 * n * SECOND))));
    own.reaches("first", at(10, 32)).await;
    own.is(Doing::Running).await;
    assert_eq!(*calls.lock().unwrap(), [1]);
    assert_eq!(own.status().counts.downs, 1);
    own.running.stop().await
}

#[tokio::test]
async fn cp_19_between_threshold_and_catching_up_it_is_still_down_and_paused() -> Result<()> {
    let own = bound(|guard, [first, _]| guard.dependency(first));
    own.reaches("first", at(10, 0)).await;
    assert_eq!(told(own.pulse(at(10, 11)).await.as_ref()), named(&[("first", by(660 * SECOND))]));
    own.reaches("first", at(10, 5)).await;
    assert!(own.is_down("first"), "within the threshold, and not caught up");
    assert_eq!((own.paused_by(), own.doing()), (PAUSED.map(str::to_owned).to_vec(), Doing::Paused));
    assert!(own.resume_anyway());
    assert_eq!(told(own.pulse(at(10, 12)).await.as_ref()), named(&[("first", Lag::Recovering)]));
    assert!(own.is_down("first"));
    own.reaches("first", at(10, 12) + 1).await;
    own.is(Doing::Running).await;
    assert_eq!(own.pulse(at(10, 13)).await, None, "D19: nothing stays of it");
    own.running.stop().await
}

#[tokio::test]
async fn cp_10_cp_21_cp_22_the_first_message_seeds_what_has_no_marker_and_nothing_else() -> Result<()> {
    let seeded = bound(|guard, [first, second]| {
        let second = second.downtime_check(|_: Gap| false);
        guard.dependency(first).dependency(second).seed_from_first_pulse()
    });
    assert_eq!(seeded.pulse(at(10, 0)).await, None);
    assert_eq!(seeded.marker("first"), Some(seeded.text(at(10, 0))));
    assert_eq!(seeded.marker("second"), None, "CP-21: a check of one's own decides");
    let downtime = seeded.pulse(at(10, 30)).await;
    assert_eq!(told(downtime.as_ref()), named(&[("first", by(1800 * SECOND))]), "CP-11");
    seeded.running.stop().await?;

    let unseeded = bound(|guard, [first, _]| guard.dependency(first));
    assert_eq!(told(unseeded.pulse(at(10, 0)).await.as_ref()), named(&[("first", Lag::Unknown)]));
    assert_eq!(unseeded.marker("first"), None);
    unseeded.running.stop().await?;

    let zero = counted(|guard, [first, _]| guard.dependency(first).threshold(10).seed_from_first_pulse());
    zero.reaches("first", 0).await;
    assert_eq!(zero.pulse(5).await, None);
    assert_eq!(zero.marker("first"), Some("0".to_owned()), "0 is a marker");
    zero.running.stop().await
}

#[tokio::test]
async fn an_equal_marker_covers_where_that_is_declared() -> Result<()> {
    for is_inclusive in [false, true] {
        let own = bound(move |guard, [first, _]| {
            let guard = guard.dependency(first).threshold(Duration::ZERO);
            if is_inclusive { guard.inclusive() } else { guard }
        });
        own.reaches("first", at(10, 0)).await;
        let downtime = own.pulse(at(10, 0)).await;
        let equal = if is_inclusive { Vec::new() } else { named(&[("first", by(Duration::ZERO))]) };
        assert_eq!(told(downtime.as_ref()), equal);
        assert_eq!(own.doing() == Doing::Running, is_inclusive);
        own.running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_marker_too_far_ahead_is_counted_and_believed_when_the_next_says_the_same() -> Result<()> {
    let own = counted(|guard, [first, _]| guard.dependency(first).threshold(0).far_future(1_000));
    own.reaches("first", 10).await;
    assert_eq!(own.pulse(9).await, None);

    own.bring("first", 5_000).await;
    until(|| own.status().counts.far_future == 1).await;
    assert_eq!(own.marker("first"), Some("10".to_owned()));
    own.reaches("first", 11).await;
    assert_eq!(own.pulse(8_000).await, None, "handled, and no outage");
    assert_eq!((own.status().counts.far_future, own.doing()), (2, Doing::Running));
    assert_eq!(own.status().marker, Some("9".to_owned()));
    assert_eq!(own.pulse(10).await, None);
    assert_eq!(own.status().marker, Some("10".to_owned()));

    own.bring("first", 7_000).await;
    until(|| own.status().counts.far_future == 3).await;
    own.reaches("first", 7_001).await;
    assert_eq!(own.pulse(7_000).await, None);
    own.running.stop().await
}

#[tokio::test]
async fn bd_2_the_marker_of_a_dependency_is_a_field_of_its_own() -> Result<()> {
    #[derive(Clone)]
    struct Report {
        /// When it was written: the field that activities are compared by.
        minute: i64,
        /// What it is about.
        observed: i64,
    }
    let (weather, activity) =
        (Proxy::<Report>::named("weather").external(), Proxy::<Report>::named("activity").external());
    let (on_weather, on_activity) = (weather.clone(), activity.clone());
    let checkpoint = slipstream::Checkpoint::named("fields", move |it| {
        it.dependent(on_activity.clone(), |report| time(&report.minute)).dependency(Dependency::new(
            "weather",
            on_weather.clone(),
            |report| time(&report.observed),
        ))
    });
    let (seen, keep) = collect();
    let handler = move |report: Report, downtime: Option<Downtime>| keep((report.minute, downtime.is_some()));
    let app = App::new().handle(checkpoint.clone(), handler, ());
    let running = Running::start(app, Conf::isolated());
    until(|| running.is_reading()).await;
    weather.send(Report { minute: at(10, 30), observed: at(10, 0) }).await?;
    let marker = |hour, minute| Some(slipstream::checkpoint::Marker::mark(&time(&at(hour, minute))).to_string());
    until(|| checkpoint.status().is_ok_and(|status| status.dependencies[0].marker.is_some())).await;
    assert_eq!(checkpoint.status()?.dependencies[0].marker, marker(10, 0));
    activity.send(Report { minute: at(10, 5), observed: at(23, 0) }).await?;
    until(|| seen.lock().unwrap().len() == 1).await;
    assert_eq!(checkpoint.status()?.marker, marker(10, 5));
    activity.send(Report { minute: at(10, 20), observed: 0 }).await?;
    until(|| seen.lock().unwrap().len() == 2).await;
    assert_eq!(*seen.lock().unwrap(), [(at(10, 5), false), (at(10, 20), true)]);
    running.stop().await
}

#[tokio::test]
async fn bd_9_with_a_dependency_only_messages_of_the_dependent_come_with_the_checkpoint() -> Result<()> {
    let (activity, weather, traffic) =
        (stream::iter([at(10, 0)]), stream::iter([at(11, 0)]), stream::iter([at(12, 0)]));
    let checkpoint = slipstream::Checkpoint::named("activity", move |it| {
        it.dependent(activity.clone(), time).dependency(Dependency::new("weather", weather.clone(), time)).hold()
    });
    let (seen, keep) = collect();
    let handler = move |second: i64, handle: Option<CheckpointHandle>| {
        let status = handle.map(|handle| handle.status());
        keep((second, status.map(|status| (status.name, status.dependencies[0].name.clone()))));
    };
    let other = handler.clone();
    App::new().handle(checkpoint, handler, ()).handle(traffic, other, ()).run().conf(Conf::isolated()).await?;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    let own = Some(("activity".to_owned(), "weather".to_owned()));
    assert_eq!(seen, [(at(10, 0), own), (at(12, 0), None)]);
    Ok(())
}

#[tokio::test]
async fn bd_10_the_handler_and_the_status_say_the_same_downtime() -> Result<()> {
    let own = bound(|guard, [first, _]| guard.dependency(first).threshold(600 * SECOND));
    own.reaches("first", at(10, 0)).await;
    let downtime = own.pulse(at(11, 0)).await.unwrap();
    assert_eq!(told(Some(&downtime)), named(&[("first", by(3600 * SECOND))]));
    assert_eq!(own.behind("first"), Some(downtime.get("first").unwrap().to_string()));
    assert_eq!(own.behind("first").unwrap(), "3600s");
    own.running.stop().await
}

#[tokio::test]
async fn d_20_a_downtime_is_either_equal_or_not() -> Result<()> {
    let own = counted(|guard, [first, second]| {
        guard.dependency(first).dependency(second).threshold(0).pause_dependent(false)
    });
    own.reaches("first", 10).await;
    own.reaches("second", 18).await;
    let mut all = Vec::new();
    for n in [15, 15, 16, 20] {
        all.push(own.pulse(n).await.unwrap());
    }
    let [one, same, larger, two] = &all[..] else { panic!("{all:?}") };
    for (other, is_equal) in [(one, true), (same, true), (larger, false), (two, false)] {
        assert_eq!((one == other, one != other), (is_equal, !is_equal), "{one} and {other}");
    }
    own.running.stop().await
}

#[tokio::test]
async fn d_16_nothing_is_asked_of_a_paused_source_and_it_does_not_spin() -> Result<()> {
    use std::sync::atomic::AtomicU32;
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let weather = Proxy::<i64>::named("weather").external();
    let on_weather = weather.clone();
    let checkpoint = slipstream::Checkpoint::named("ready", move |it| {
        let count = Arc::clone(&count);
        // Always ready, and never waits.
        let numbers = stream::repeat(5_i64).inspect(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        it.dependent(numbers, |n| *n).dependency(Dependency::new("weather", on_weather.clone(), |n| *n)).threshold(0)
    });
    let (seen, keep) = collect::<i64>();
    let running = Running::start(App::new().handle(checkpoint.clone(), keep, ()), Conf::isolated());
    until(|| checkpoint.status().is_ok_and(|status| status.doing == Doing::Paused)).await;
    let before = asked.load(Ordering::SeqCst);
    assert!(before <= 8, "{before} were asked for although the first one paused it");
    // On this one thread others still get their turn, and nothing more is read.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!((asked.load(Ordering::SeqCst), seen.lock().unwrap().len()), (before, 1));
    weather.send(6).await?;
    until(|| seen.lock().unwrap().len() > 1).await;
    running.stop().await
}
