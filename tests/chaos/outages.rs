//! The broker goes away and comes back: the app waits, says so, keeps quiet, and goes on. B-53.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::broker::{OwnKafka, servers};
use crate::child::{Child, Place, Scene};
use crate::ledger::Verdict;
use crate::schedule::{Length, PATIENCE, Schedule, pass, rate, until};

/// Connections that one app may try in a second while nobody answers. It has a handful of clients, each of which
/// waits at most `reconnect.backoff.max.ms`, 10 s, between two tries, and 100 ms at first.
const TRIES_PER_SECOND: f64 = 10.0;
/// Processor time of an app that only waits.
const CPU_SHARE: f64 = 0.10;
/// Log lines in a second of waiting.
const LINES_PER_SECOND: f64 = 3.0;

/// Stands where the broker was, turns everybody away, and counts them.
struct Doorman {
    came: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Doorman {
    fn at(servers: &str) -> Self {
        let listener = TcpListener::bind(servers).expect("the broker's port is free");
        listener.set_nonblocking(true).expect("a socket");
        let (came, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, told) = (Arc::clone(&came), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok(_turned_away) => drop(count.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => pass(Duration::from_millis(5)),
                }
            }
        });
        Self { came, stop, thread: Some(thread) }
    }

    /// Leaves, and tells how many came.
    fn leave(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
        self.came.load(Ordering::Relaxed)
    }
}

struct Quiet {
    tries_per_second: f64,
    cpu_share: f64,
    lines_per_second: f64,
}

/// Lets the app wait for the broker for `time`, and measures what it does meanwhile.
fn measure(kafka: &OwnKafka, child: &mut Child, time: Duration) -> Quiet {
    let (cpu, lines) = (child.cpu_time(), child.log().len());
    let doorman = Doorman::at(&kafka.servers);
    pass(time);
    let tries = doorman.leave();
    Quiet {
        tries_per_second: rate(tries, time),
        cpu_share: child.cpu_time().saturating_sub(cpu).as_secs_f64() / time.as_secs_f64(),
        lines_per_second: rate(child.log().len() - lines, time),
    }
}

#[test]
fn b_53_an_outage_is_waited_for_quietly_and_the_app_goes_on_by_itself() {
    if servers().is_none() {
        return;
    }
    let schedule = Schedule::new("outage");
    let kafka = OwnKafka::start();
    // The harness' own clients would knock as well: none is open while the broker is away.
    let place = Place::new(&kafka.servers);
    let count = Length::read().choose(12_000, 40_000);
    place.feeder().feed(0..count);
    let mut child = place.plan("a").conf("session.timeout.ms", 6000).delay(1, 15).start(0);
    child.await_event("first");
    until(PATIENCE, "it works", || child.counts().1 > 500);
    let outages: &[(bool, u64)] = Length::read().choose(&[(true, 8)], &[(false, 5), (true, 20), (true, 90)]);
    for (round, (crash, seconds)) in outages.iter().enumerate() {
        if *crash {
            kafka.kill();
        } else {
            kafka.stop();
        }
        schedule.step(format!("broker gone, for {seconds} s, by a crash: {crash}"));
        until(PATIENCE, "health says so", || !child.is_well());
        let health = child.health();
        let notice = health["sources"][0]["notice"].as_str().unwrap_or_default().to_owned();
        assert!(notice.contains("broker"), "{health}");
        let quiet = measure(&kafka, &mut child, Duration::from_secs(*seconds));
        assert!(child.runs(), "nothing fails that was only waiting");
        assert!(!child.is_well(), "health is red for as long as the broker is away");
        let before = child.counts().1;
        kafka.start_again();
        schedule.step("broker back");
        let back = Instant::now();
        until(PATIENCE, "health is well again", || child.is_well());
        until(PATIENCE, "it goes on", || child.counts().1 > before.min(count - 1));
        let idle = back.elapsed().as_secs_f64();
        schedule.figure(
            &format!("outage {round} of {seconds} s: seconds from an answering broker to work"),
            format!("{idle:.1}"),
        );
        schedule.figure(
            &format!("outage {round} of {seconds} s: connections tried/s, CPU share, log lines/s"),
            format!("{:.1}, {:.3}, {:.1}", quiet.tries_per_second, quiet.cpu_share, quiet.lines_per_second),
        );
        assert!(quiet.tries_per_second <= TRIES_PER_SECOND, "a storm: {} tries/s", quiet.tries_per_second);
        assert!(quiet.cpu_share <= CPU_SHARE, "busy waiting: {}", quiet.cpu_share);
        assert!(quiet.lines_per_second <= LINES_PER_SECOND, "chatter: {} lines/s", quiet.lines_per_second);
    }
    let scene = place.watch();
    until(PATIENCE, "all is committed", || scene.commits.total() == i64::try_from(count).expect("few"));
    child.leave();
    until(PATIENCE, "all is out", || scene.echoes.ids() as u64 == count);
    let verdict = Verdict::of(&scene.echoes.all(), 0..count);
    assert!(verdict.missing.is_empty(), "missing: {:?}", verdict.missing);
    schedule.figure("missing, repeats", format!("{}, {}", verdict.missing.len(), verdict.repeated()));
}

#[test]
fn an_app_that_is_started_before_its_broker_waits_for_it() {
    if servers().is_none() {
        return;
    }
    let schedule = Schedule::new("start without a broker");
    let kafka = OwnKafka::start();
    let scene = Scene::new(&kafka.servers);
    scene.feeder.feed(0..100);
    kafka.stop();
    schedule.step("the app starts without a broker");
    let mut child = scene.plan("a").delay(0, 2).start(0);
    until(PATIENCE, "health says so", || !child.is_well());
    pass(Duration::from_secs(3));
    assert!(child.runs(), "nothing fails that was only waiting");
    kafka.start_again();
    schedule.step("broker there");
    until(PATIENCE, "all is out", || scene.echoes.ids() == 100);
    until(PATIENCE, "health is well", || child.is_well());
    child.leave();
}
