//! B-06: a handler, or a pause, longer than the group waits for a member to poll.

use std::time::Duration;

use crate::broker::servers;
use crate::child::{PARTITIONS, Scene};
use crate::ledger::Verdict;
use crate::schedule::{PATIENCE, Schedule, pass, until};

const POLL_INTERVAL: Duration = Duration::from_secs(6);
const LONGER: Duration = Duration::from_secs(10);

#[test]
fn b_06_a_handler_and_a_pause_longer_than_the_poll_interval_keep_the_membership() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("B-06");
    let (slow, paused) = (Scene::new(&servers), Scene::new(&servers));
    let plan = |scene: &Scene| {
        let plan = scene.plan("a").conf("max.poll.interval.ms", POLL_INTERVAL.as_millis());
        plan.conf("session.timeout.ms", 6000).conf("heartbeat.interval.ms", 500).delay(0, 2)
    };
    slow.feeder.feed(0..40);
    paused.feeder.feed(0..40);
    let mut in_handler = plan(&slow).stuck("0", LONGER).start(0);
    let mut in_pause = plan(&paused).start(0);
    until(PATIENCE, "the paused one has begun", || paused.commits.total() == 40);
    in_pause.ask("pause");
    paused.feeder.feed(40..80);
    pass(LONGER);
    schedule.step("the pause is over");
    in_pause.ask("resume");
    for (scene, child, ids) in [(&slow, &mut in_handler, 40), (&paused, &mut in_pause, 80)] {
        until(PATIENCE, "everything is committed", || scene.commits.total() == ids);
        assert_eq!(child.lanes(), usize::from(PARTITIONS), "it is still a member");
        let log = child.log().join("\n");
        assert!(!log.contains("lost") && !log.contains("revoked"), "it was thrown out meanwhile:\n{log}");
        child.leave();
        let verdict = Verdict::of(&scene.echoes.all(), 0..u64::try_from(ids).expect("few"));
        assert_eq!(verdict, Verdict::default(), "each record exactly once");
    }
    schedule.figure("handler and pause of 10 s with a poll interval of 6 s: thrown out, repeats", "0, 0");
}
