//! Hold mode: nothing that is ahead passes.

use super::*;

fn holding(threshold: u64) -> Machine {
    machine(Rules { mode: Mode::Hold, ..rules(vec![dependency("weather", minutes(threshold))]) })
}

#[test]
fn a_message_waits_until_it_is_covered() {
    let mut machine = holding(0);
    assert_eq!(machine.pulse(0, at(10, 0)), Verdict::Wait);
    assert_eq!(machine.held(), 1);
    machine.beat(0, at(10, 0));
    assert_eq!(machine.pulse(0, at(10, 0)), Verdict::Wait, "an equal marker may have company");
    machine.beat(0, at(10, 1));
    machine.resume(T0);
    assert_eq!(machine.pulse(0, at(10, 0)), Verdict::Pass(None));
    assert_eq!(machine.held(), 0);
    assert_eq!(machine.told(), ["down 1 weather", "up weather", "recovered 1", "resumed"]);
    assert_eq!(machine.keep(0, 1), Kept { last: 1, ..Kept::default() }, "nothing to correct");
}

#[test]
fn lanes_are_released_one_by_one() {
    let mut machine = holding(0);
    machine.beat(0, at(9, 0));
    for (partition, hour) in [(0, 10), (1, 12)] {
        assert_eq!(machine.comes(partition, 0, at(hour, 0), T0), Verdict::Wait);
    }
    machine.beat(0, at(11, 0));
    assert_eq!(machine.comes(0, 0, at(10, 0), T0), Verdict::Pass(None));
    assert_eq!(machine.comes(1, 0, at(12, 0), T0), Verdict::Wait);
    assert!(machine.is_down(0));
}

#[test]
fn a_message_that_is_given_up_holds_nothing_and_what_it_waited_for_is_still_missing() {
    let mut machine = holding(0);
    machine.beat(0, at(9, 0));
    machine.pulse(0, at(10, 0));
    machine.dropped(0, T0);
    assert_eq!((machine.held(), machine.phase()), (0, Phase::Down));
    machine.beat(0, at(9, 30));
    assert_eq!(machine.told(), ["down 1 weather"], "nothing has recovered");
    assert_eq!(machine.keep(0, 0).highest, Some(at(10, 0)), "the next owner knows what for");
    assert_eq!(machine.pulse(0, at(9, 10)), Verdict::Pass(None), "what is covered passes");
    machine.beat(0, at(10, 1));
    assert_eq!(machine.told(), ["up weather", "recovered 1"]);
    machine.resume(T0);
    assert_eq!(machine.phase(), Phase::Running);
}

#[test]
fn an_outage_is_not_over_because_its_partition_is_lost() {
    let mut machine = holding(0);
    machine.beat(0, at(9, 0));
    machine.pulse(0, at(10, 0));
    machine.revoked(0);
    machine.dropped(0, T0);
    machine.beat(0, at(9, 30));
    assert_eq!(machine.told(), ["down 1 weather"]);
    machine.beat(0, at(10, 1));
    assert_eq!(machine.told(), ["up weather", "recovered 1"]);
}

#[test]
fn an_override_lets_pass_what_is_ahead_until_the_dependency_is_back() {
    let mut machine = holding(10);
    machine.beat(0, at(10, 0));
    assert_eq!(machine.pulse(0, at(10, 9)), Verdict::Pass(None));
    assert_eq!(machine.pulse(1, at(11, 0)), Verdict::Wait);
    assert!(machine.override_pause());
    assert_eq!(lags(&machine.pulse(1, at(11, 0))), [by("weather", minutes(60))]);
    machine.beat(0, at(10, 55));
    machine.resume(T0);
    assert_eq!(machine.phase(), Phase::Running);
    assert_eq!(machine.pulse(2, at(12, 0)), Verdict::Wait);
}
