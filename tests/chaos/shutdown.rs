//! SIGTERM with slow handlers in flight: done and committed, or not committed, and in any case over soon. B-19.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::broker::{OwnKafka, servers};
use crate::child::{PARTITIONS, Plan, Scene};
use crate::ledger::Verdict;
use crate::schedule::{PATIENCE, Schedule, until};

/// Handlers of 2 s, many at a time.
fn slow(scene: &Scene) -> Plan {
    let plan = scene.plan("a").conf("group.instance.id", "a").conf("session.timeout.ms", 6000);
    plan.delay(1_900, 2_000).with("CHAOS_CONCURRENCY", 25)
}

#[test]
fn b_19_what_is_in_flight_is_drained_flushed_and_committed() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("SIGTERM");
    let scene = Scene::new(&servers);
    scene.feeder.feed(0..400);
    let mut child = slow(&scene).conf("drain.timeout", "20s").start(0);
    until(PATIENCE, "handlers are in flight", || child.counts().0 >= 40);
    let in_flight = child.counts();
    schedule.step(format!("SIGTERM with {} in flight", in_flight.0 - in_flight.1));
    child.signal(libc::SIGTERM);
    let (status, took) = child.ends(Duration::from_secs(20));
    assert!(status.success(), "{status}");
    // What is committed is out, and what is out is committed: no record more, no record less.
    until(PATIENCE, "as much is committed as is out", || {
        usize::try_from(scene.commits.total()).is_ok_and(|total| total > 0 && total == scene.echoes.ids())
    });
    let mut second = slow(&scene).delay(0, 2).start(1);
    until(PATIENCE, "all is committed", || scene.commits.total() == 400);
    second.leave();
    until(PATIENCE, "all is out", || scene.echoes.ids() == 400);
    assert_eq!(Verdict::of(&scene.echoes.all(), 0..400), Verdict::default(), "none lost, none twice");
    schedule.figure(
        "drained with 2 s handlers: in flight, seconds",
        format!("{}, {:.1}", in_flight.0 - in_flight.1, took.as_secs_f64()),
    );
}

#[test]
fn b_19_what_exceeds_the_deadline_is_not_committed_and_comes_again() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("SIGTERM past the deadline");
    let scene = Scene::new(&servers);
    scene.feeder.feed(0..100);
    let plan = scene.plan("a").conf("group.instance.id", "a").conf("session.timeout.ms", 6000).delay(0, 2);
    let plan = plan.conf("drain.timeout", "1s");
    // Ids 8 and 9 are offset 2 of partitions 0 and 1.
    let mut child = plan.clone().stuck("8,9", Duration::from_secs(100)).start(0);
    until(PATIENCE, "the other partitions are done", || (2..4).all(|at| scene.commits.of_partition(at) == Some(25)));
    schedule.step("SIGTERM with two handlers that do not end");
    child.signal(libc::SIGTERM);
    let (status, took) = child.ends(Duration::from_secs(10));
    schedule.step(format!("ended: {status}, after {took:?}"));
    assert!(status.code().is_some(), "it ended by itself: {status}");
    assert!(took >= Duration::from_millis(900), "it waited for the deadline: {took:?}");
    let committed: Vec<_> = (0..usize::from(PARTITIONS)).map(|at| scene.commits.of_partition(at)).collect();
    assert_eq!(committed, [Some(2), Some(2), Some(25), Some(25)]);
    let mut second = plan.start(1);
    until(PATIENCE, "all is committed", || scene.commits.total() == 100);
    second.leave();
    until(PATIENCE, "all is out", || scene.echoes.ids() == 100);
    assert!(scene.echoes.all().iter().any(|echo| echo.id == 8 && echo.life == 1), "8 came again");
    schedule.figure("deadline of 1 s, handlers of 100 s: seconds", format!("{:.1}", took.as_secs_f64()));
}

#[test]
fn b_19_the_end_is_bounded_also_when_the_broker_is_gone() {
    if servers().is_none() {
        return;
    }
    let schedule = Schedule::new("SIGTERM without a broker");
    let kafka = OwnKafka::start();
    let scene = Scene::new(&kafka.servers);
    scene.feeder.feed(0..4_000);
    let plan = scene
        .plan("a")
        .conf("drain.timeout", "2s")
        .conf("revoke.timeout", "2s")
        .delay(5, 15)
        .conf("session.timeout.ms", 6000);
    let mut child = plan.start(0);
    until(PATIENCE, "it works", || scene.echoes.ids() > 100);
    kafka.kill();
    schedule.step("broker killed, then SIGTERM");
    child.signal(libc::SIGTERM);
    let (status, took) = child.ends(Duration::from_secs(30));
    schedule.step(format!("ended: {status}, after {took:?}"));
    assert!(status.code().is_some(), "it ended by itself: {status}");
    // The drain (2 s), the grace of what is given up (5 s), the last commit, the leave and the flush (2 s each, and
    // 2 s for the reports of what is purged).
    assert!(took < Duration::from_secs(16), "{took:?}");
    kafka.start_again();
    let mut second = plan.start(1);
    until(PATIENCE, "all is committed", || scene.commits.total() == 4_000);
    second.leave();
    until(PATIENCE, "all is out", || scene.echoes.ids() == 4_000);
    schedule.figure("drain 2 s, revoke 2 s: seconds to the end", format!("{:.1}", took.as_secs_f64()));
}

#[test]
fn an_http_server_beside_the_sources_stops_before_they_do() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("SIGTERM beside HTTP");
    let scene = Scene::new(&servers);
    scene.feeder.feed(0..20_000);
    let mut child = scene.plan("a").with("CHAOS_HTTP", "yes").delay(5, 10).start(0);
    let port: u16 = child.await_event("http port").parse().expect("a port");
    child.await_event("first");
    let mut asking = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    asking.write_all(b"GET /slow HTTP/1.1\r\nHost: chaos\r\nConnection: close\r\n\r\n").expect("it takes the request");
    child.await_event("http asked");
    child.signal(libc::SIGTERM);
    schedule.step("SIGTERM while a page is being answered");
    let mut answer = String::new();
    asking.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    let (status, _) = child.ends(PATIENCE);
    assert!(status.success(), "{status}");
    let count = |event: &str| -> u64 { child.await_event(event).parse().expect("a number") };
    let (before, after) = (count("http stopping"), count("http stopped"));
    assert!(after > before + 100, "the sources went on while the server ended: {before}, then {after}");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn b_19_a_second_sigterm_ends_at_once() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("second SIGTERM");
    let scene = Scene::new(&servers);
    scene.feeder.feed(0..4);
    let plan = scene.plan("a").conf("drain.timeout", "100s").stuck("0,1,2,3", Duration::from_secs(100));
    let mut child = plan.start(0);
    until(PATIENCE, "all handlers are in flight", || child.counts().0 == 4);
    child.signal(libc::SIGTERM);
    until(PATIENCE, "it drains", || child.health()["state"] == "draining");
    // One that comes within half a second is the same signal.
    std::thread::sleep(Duration::from_millis(700));
    let second = Instant::now();
    child.signal(libc::SIGTERM);
    child.ends(Duration::from_secs(10));
    let took = second.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(scene.commits.total(), 0, "nothing was done");
    schedule.figure("seconds to the end", format!("{:.2}", took.as_secs_f64()));
}
