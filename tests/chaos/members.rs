//! Members come, go and freeze under load: nothing is lost, and nobody commits over the owner. B-07.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::broker::servers;
use crate::child::{Child, PARTITIONS, Plan, Scene};
use crate::ledger::Verdict;
use crate::schedule::{Length, PATIENCE, Schedule, pass, until};

const SESSION: Duration = Duration::from_secs(6);

fn member(scene: &Scene, name: &str) -> Plan {
    let plan = scene.plan(name).conf("session.timeout.ms", SESSION.as_millis()).conf("heartbeat.interval.ms", 500);
    plan.delay(1, 15).with("CHAOS_CONCURRENCY", 3)
}

/// Ids written so far by the thread that keeps the load up.
#[derive(Default)]
struct Load {
    next: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    /// About 600 ids a second, until told to stop.
    fn run(&self, scene: &Scene) {
        const STEP: u64 = 12;
        while !self.stop.load(Ordering::Relaxed) {
            let from = self.next.fetch_add(STEP, Ordering::Relaxed);
            scene.feeder.send(from..from + STEP);
            pass(Duration::from_millis(20));
        }
    }
}

/// Ends the load also when a check fails, so that the failure is seen.
struct StopOnDrop<'a>(&'a Load);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn b_07_members_join_leave_and_freeze_under_load_and_nothing_is_missing() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("rebalances");
    let scene = Scene::new(&servers);
    let load = Load::default();
    let rounds = Length::read().choose(1, 6);
    std::thread::scope(|threads| {
        let load_ends = StopOnDrop(&load);
        threads.spawn(|| load.run(&scene));
        let mut life = 0;
        let mut start = |name: &str| {
            life += 1;
            member(&scene, name).start(life)
        };
        let mut first = start("first");
        until(PATIENCE, "the first has everything", || first.lanes() == usize::from(PARTITIONS));
        for round in 0..rounds {
            first = one_round(&schedule, &scene, round, first, &mut start);
        }
        drop(load_ends);
        let ids = load.next.load(Ordering::Relaxed);
        until(PATIENCE, "all ids are out", || scene.echoes.ids() as u64 >= ids);
        first.leave();
    });
    scene.feeder.feed(0..0);
    let ids = load.next.load(Ordering::Relaxed);
    let finish = member(&scene, "first").start(u32::MAX);
    until(PATIENCE, "all is committed", || scene.commits.total() == i64::try_from(ids).expect("few"));
    drop(finish);
    let verdict = Verdict::of(&scene.echoes.all(), 0..ids);
    assert!(verdict.missing.is_empty(), "missing: {:?}", verdict.missing);
    assert!(scene.commits.falls().is_empty(), "committed offsets fell: {:?}", scene.commits.falls());
    schedule.figure("ids, rounds of join, freeze, return and leave", format!("{ids}, {rounds}"));
    schedule.figure("missing, repeats", format!("{}, {}", verdict.missing.len(), verdict.repeated()));
    schedule.figure("falls of a committed offset in so many looks", format!("0 in {}", scene.commits.looks()));
}

/// Two more join; one of the three freezes past its session and comes back; two of them leave. The one that stays.
fn one_round(
    schedule: &Schedule,
    scene: &Scene,
    round: u32,
    first: Child,
    start: &mut impl FnMut(&str) -> Child,
) -> Child {
    let mut members = vec![first, start(&format!("second-{round}")), start(&format!("third-{round}"))];
    until(PATIENCE, "each has a share", || members.iter_mut().all(|member| (1..3).contains(&member.lanes())));
    schedule.step(format!("round {round}: three members"));
    let chosen = usize::try_from(schedule.between(0, 2)).expect("small");
    pass(Duration::from_millis(schedule.between(0, 1000)));
    let frozen = members.remove(chosen);
    frozen.signal(libc::SIGSTOP);
    schedule.step(format!("round {round}: life {} frozen", frozen.life));
    until(PATIENCE, "the others have its share", || {
        members.iter_mut().map(Child::lanes).sum::<usize>() == usize::from(PARTITIONS)
    });
    let total = scene.commits.total();
    until(PATIENCE, "the new owners commit", || scene.commits.total() > total + 500);
    frozen.signal(libc::SIGCONT);
    schedule.step(format!("round {round}: life {} goes on, with what it had in hand", frozen.life));
    members.push(frozen);
    until(PATIENCE, "each has a share again", || members.iter_mut().all(|member| (1..3).contains(&member.lanes())));
    pass(Duration::from_millis(schedule.between(0, 1000)));
    while members.len() > 1 {
        let leaving = usize::try_from(schedule.between(0, members.len() as u64 - 1)).expect("small");
        let mut leaving = members.remove(leaving);
        schedule.step(format!("round {round}: life {} leaves", leaving.life));
        leaving.leave();
    }
    members.remove(0)
}
