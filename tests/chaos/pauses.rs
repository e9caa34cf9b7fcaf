//! A paused source stays paused, whatever the group does meanwhile. B-01, B-02, B-04.

use std::time::Duration;

use crate::broker::servers;
use crate::child::{PARTITIONS, Plan, Scene};
use crate::ledger::Verdict;
use crate::schedule::{PATIENCE, Schedule, pass, until};

const ALL: usize = PARTITIONS as usize;

fn member(scene: &Scene, name: &str) -> Plan {
    scene.plan(name).conf("session.timeout.ms", 6000).conf("heartbeat.interval.ms", 500).delay(0, 2)
}

#[test]
fn b_01_b_02_b_04_a_paused_source_stays_paused_for_partitions_that_go_and_come_back() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("pause");
    let scene = Scene::new(&servers);
    scene.feeder.feed(0..400);
    let mut paused = member(&scene, "paused").start(0);
    until(PATIENCE, "the first ids are committed", || scene.commits.total() == 400);
    paused.ask("pause");
    schedule.step("paused with everything committed");
    // B-02: records lie in the partitions while they are paused, and in those that come later.
    scene.feeder.feed(400..800);

    let mut other = member(&scene, "other").start(1);
    until(PATIENCE, "half of the partitions moved", || other.lanes() == ALL / 2 && paused.lanes() == ALL / 2);
    until(PATIENCE, "the other works its half off", || scene.commits.total() == 600);
    schedule.step("the other has worked off its half");
    assert_eq!(scene.echoes.all().iter().filter(|echo| echo.life == 0).count(), 400, "the paused one handled records");

    other.leave();
    until(PATIENCE, "the partitions came back", || paused.lanes() == ALL);
    schedule.step("the other has left");
    scene.feeder.feed(800..1200);
    // B-01: paused also in the partitions that came back, for as long as it lasts.
    pass(Duration::from_secs(2));
    let health = paused.health();
    assert_eq!(health["sources"][0]["paused_by"][0], "user", "{health}");
    assert_eq!(scene.commits.total(), 600, "something was handled and committed while paused");
    assert_eq!(paused.counts().0, 400, "the paused one handled records of partitions that came back");

    paused.ask("resume");
    until(PATIENCE, "everything is out", || scene.echoes.ids() == 1200);
    until(PATIENCE, "everything is committed", || scene.commits.total() == 1200);
    paused.leave();
    let verdict = Verdict::of(&scene.echoes.all(), 0..1200);
    // B-04: partitions that were away go on where the other had committed, not where this one had left them.
    assert_eq!(verdict, Verdict::default(), "as many came out as went in");
    assert!(scene.commits.falls().is_empty(), "{:?}", scene.commits.falls());
    schedule.figure("ids, missing, repeats", "1200, 0, 0");
}
