//! SIGKILL: nothing is lost, few records come again, what is committed never falls. B-12.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::broker::servers;
use crate::child::{PARTITIONS, Plan, Scene};
use crate::ledger::{Echo, Verdict};
use crate::schedule::{Length, PATIENCE, Schedule, pass, rate, until};

pub const MAX_IN_FLIGHT: u32 = 64;
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(50);
/// Ids that an app works off between two kills, about; there must be enough for all of them.
const IDS_PER_KILL: u64 = 1_500;

/// A member with a name of its own is let in again at once after a crash.
fn named(scene: &Scene) -> Plan {
    scene.plan("a").conf("group.instance.id", "a").conf("session.timeout.ms", 6000)
}

#[test]
fn after_every_kill_nothing_is_missing_and_few_records_come_again() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("kill ledger");
    let kills = Length::read().kills();
    let ids = if kills >= 30 { 60_000.max(kills * IDS_PER_KILL) } else { 6_000.max(kills * IDS_PER_KILL) };
    let scene = Scene::new(&servers);
    scene.feeder.feed(0..ids);
    let plan = named(&scene).delay(1, 15).with("CHAOS_CONCURRENCY", 3);
    // By life: how many milliseconds it worked.
    let mut worked = BTreeMap::new();
    for life in 0..u32::try_from(kills).expect("few kills") {
        let child = plan.start(life);
        child.await_event("first");
        let began = Instant::now();
        let time = Duration::from_millis(schedule.between(500, 1_100));
        pass(time);
        child.kill();
        worked.insert(life, began.elapsed());
        schedule.step(format!("life {life} killed after {time:?} of work, {} ids are out", scene.echoes.ids()));
    }
    let before_the_last = scene.echoes.ids();
    assert!((before_the_last as u64) < ids, "all was done before the last kill: too few ids");
    let mut last = plan.start(u32::MAX);
    until(PATIENCE, "all ids are out", || scene.echoes.ids() as u64 == ids);
    until(PATIENCE, "all is committed", || scene.commits.total() == i64::try_from(ids).expect("few"));
    last.leave();

    let echoes = scene.echoes.all();
    assert!(scene.commits.falls().is_empty(), "committed offsets fell: {:?}", scene.commits.falls());
    judge(&schedule, &echoes, ids, kills, &worked);
    schedule.figure("falls of a committed offset in so many looks", format!("0 in {}", scene.commits.looks()));
}

/// Nothing is missing, and after each kill no more comes again than was in flight or done since the last commit; notes
/// the figures. `worked` is how long each life worked.
pub fn judge(schedule: &Schedule, echoes: &[Echo], ids: u64, kills: u64, worked: &BTreeMap<u32, Duration>) {
    let verdict = Verdict::of(echoes, 0..ids);
    assert!(verdict.missing.is_empty(), "missing: {:?}", verdict.missing);
    let mut fastest: f64 = 0.0;
    for (life, time) in worked {
        let done = echoes.iter().filter(|echo| echo.life == *life).count();
        fastest = fastest.max(rate(done, *time));
    }
    let bound = f64::from(u32::from(PARTITIONS) * MAX_IN_FLIGHT) + fastest * COMMIT_INTERVAL.as_secs_f64();
    let most = verdict.repeats.values().copied().max().unwrap_or(0);
    assert!(
        f64::from(u32::try_from(most).expect("few")) <= bound,
        "{most} records came again after one kill, {bound} may: {:?}",
        verdict.repeats
    );
    schedule.figure("ids, kills", format!("{ids}, {kills}"));
    schedule.figure("missing", verdict.missing.len());
    schedule
        .figure("repeats: in all, most after one kill, allowed", format!("{}, {most}, {bound:.0}", verdict.repeated()));
    schedule.figure("echoes/s of the fastest life", fastest.round());
}

/// Offset 0 of partition 0 takes very long, everything after it is quick; the app is killed meanwhile and started
/// again. What the ledger says of it.
fn kill_while_the_first_is_stuck(schedule: &Schedule, scene: &Scene, plan: &Plan, is_committed: bool) -> Verdict {
    const IDS: u64 = 400;
    scene.feeder.feed(0..IDS);
    let child = plan.clone().stuck("0", Duration::from_secs(100)).start(0);
    // With 64 in flight, partition 0 gets as far as its offset 63; what shares the lane of the stuck record waits.
    let later = || (1..64).filter(|at| scene.echoes.has(at * u64::from(PARTITIONS))).count();
    until(PATIENCE, "later records of its partition are out", || later() > 5);
    if is_committed {
        until(PATIENCE, "a commit past the stuck record", || {
            scene.commits.of_partition(0).is_some_and(|next| next > 1)
        });
    } else {
        until(PATIENCE, "the others are committed", || scene.commits.of_partition(1) == Some(100));
    }
    schedule.step(format!("killed with partition 0 committed up to {:?}", scene.commits.of_partition(0)));
    child.kill();
    let mut second = plan.start(1);
    if is_committed {
        // The wrong app's last commit is not that of its last record, and who knows what it has lost.
        until(PATIENCE, "the last records are out", || (IDS - 4..IDS).all(|id| scene.echoes.has(id)));
        pass(Duration::from_secs(1));
    } else {
        until(PATIENCE, "all is committed", || scene.commits.total() == i64::try_from(IDS).expect("few"));
        second.leave();
    }
    Verdict::of(&scene.echoes.all(), 0..IDS)
}

#[test]
fn b_12_a_record_that_was_in_hand_when_later_ones_were_done_is_handled_again() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("B-12");
    let scene = Scene::new(&servers);
    let verdict = kill_while_the_first_is_stuck(&schedule, &scene, &named(&scene).delay(1, 5), false);
    assert!(verdict.missing.is_empty(), "missing: {:?}", verdict.missing);
    assert!(scene.commits.falls().is_empty(), "{:?}", scene.commits.falls());
}

#[test]
fn an_app_that_commits_in_the_order_of_completion_is_caught() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("wrong app");
    let scene = Scene::new(&servers);
    let plan = scene.plan("a").delay(1, 5).with("CHAOS_COMMITS_EARLY", "yes");
    let verdict = kill_while_the_first_is_stuck(&schedule, &scene, &plan, true);
    assert!(verdict.missing.contains(&0), "the harness must notice what this app loses: {verdict:?}");
    schedule.figure("ids that it lost, found by the ledger", verdict.missing.len());
}
