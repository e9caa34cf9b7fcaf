//! B-18: what was handed to a topic is not committed before the broker has it.

use std::time::Duration;

use crate::broker::{OwnKafka, servers};
use crate::child::{PARTITIONS, Place};
use crate::ledger::Verdict;
use crate::schedule::{PATIENCE, Schedule, pass, until};

#[test]
fn b_18_a_source_is_committed_only_after_its_sink_was_acknowledged() {
    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("B-18");
    // The output is on a broker that stops answering; the input, and its commits, are not.
    let sink = OwnKafka::start();
    let scene = Place::between(&servers, &sink.servers).watch();
    let plan = scene.plan("a").conf("group.instance.id", "a").conf("session.timeout.ms", 6000).delay(0, 2);
    let mut child = plan.start(0);
    until(PATIENCE, "it has its partitions", || child.lanes() == usize::from(PARTITIONS));
    scene.feeder.feed(0..4);
    until(PATIENCE, "both brokers answer", || scene.commits.total() == 4);
    sink.freeze();
    scene.feeder.feed(4..100);
    until(PATIENCE, "everything was handled and handed over", || child.counts().1 == 100);
    schedule.step("all handled, nothing acknowledged");
    // Twenty commit intervals.
    pass(Duration::from_secs(1));
    assert_eq!(scene.commits.total(), 4, "committed before the sink had it");
    child.kill();
    sink.go_on();
    let mut second = plan.start(1);
    until(PATIENCE, "all is committed", || scene.commits.total() == 100);
    second.leave();
    until(PATIENCE, "all is out", || scene.echoes.ids() == 100);
    let verdict = Verdict::of(&scene.echoes.all(), 0..100);
    assert!(verdict.missing.is_empty(), "missing: {:?}", verdict.missing);
    schedule.figure("handled, acknowledged, committed while the sink did not answer", "96, 0, 0");
}
