//! CP: what the model's suite checks of its checkpoint, in its order.

use super::*;

#[test]
fn cp_1_cp_5_a_fresh_checkpoint_knows_nothing_and_nothing_is_down() {
    let machine = Machine::new(rules(weather()));
    assert_eq!((machine.reach(0), machine.is_down(0), machine.highest()), (None, false, None));
    assert!(machine.state().is_none() && !machine.is_closed());
    assert_eq!(&*machine.rules().dependencies[0].name, "weather");
}

#[test]
fn cp_2_what_is_kept_with_positions_comes_back() {
    let mut first = machine(rules(weather()));
    first.beat(0, at(10, 0));
    first.pulse(0, at(11, 0));
    let (kept, mark) = (first.keep(0, 1), first.kept_of(0, 0));
    let (kept, mark) = (Kept::decode(&kept.encode()).unwrap(), KeptMark::decode(&mark.unwrap().encode()).unwrap());

    let mut second = Machine::new(rules(weather()));
    second.assigned(0, &[(0, Some(mark))], T0);
    second.begin(0, Some(kept), T0);
    assert_eq!((second.reach(0), second.highest()), (Some(at(10, 0)), Some(at(11, 0))));
    assert_eq!(second.begins_at(0), Some(0), "the message that was handled too early");
    second.begun(T0);
    assert!(second.is_closed(), "paused before its first dispatch");
}

#[test]
fn cp_3_the_difference_is_reported_when_it_is_more_than_the_threshold() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    assert_eq!(lags(&machine.pulse(0, at(11, 0))), [by("weather", minutes(60))]);
}

#[test]
fn cp_4_recovered_is_strictly_ahead() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(9, 0));
    machine.pulse(0, at(10, 0));
    machine.beat(0, at(10, 0));
    assert!(machine.is_down(0), "an equal marker may still have company on its way");
    machine.beat(0, at(11, 0));
    assert!(!machine.is_down(0));
}

#[test]
fn d_9_with_inclusive_an_equal_marker_is_enough() {
    let mut machine = machine(Rules { inclusive: true, ..rules(weather()) });
    machine.beat(0, at(9, 0));
    machine.pulse(0, at(10, 0));
    machine.beat(0, at(10, 0));
    assert!(!machine.is_down(0));
}

#[test]
fn cp_6_a_heartbeat_moves_its_dependency_and_remembers_the_state() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    machine.pulse(7, at(10, 0));
    machine.beat(0, at(10, 30));
    assert_eq!(machine.reach(0), Some(at(10, 30)));
    assert_eq!(machine.healthy.state::<i64>(), Some(7));
}

#[test]
fn cp_7_a_heartbeat_moves_no_other_dependency() {
    let mut machine = machine(rules(vec![dependency("a", minutes(10)), dependency("b", minutes(10))]));
    machine.beat(1, at(10, 0));
    assert_eq!((machine.reach(0), machine.reach(1)), (None, Some(at(10, 0))));
}

#[test]
fn cp_8_markers_do_not_rewind() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    machine.beat(0, at(10, 0));
    machine.pulse(1, at(3, 0));
    machine.beat(0, at(3, 0));
    assert_eq!((machine.highest(), machine.reach(0)), (Some(at(10, 0)), Some(at(10, 0))));
}

#[test]
fn cp_9_the_remembered_state_is_a_snapshot() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    machine.beat(0, at(10, 0));
    machine.pulse(1, at(10, 5));
    assert_eq!(machine.healthy.state::<i64>(), Some(0));
}

#[test]
fn cp_10_the_first_pulse_seeds_where_that_is_asked_for() {
    let mut machine = seeded(weather());
    assert_eq!(machine.pulse(0, at(10, 0)), Verdict::Pass(None));
    assert_eq!((machine.reach(0), machine.highest()), (Some(at(10, 0)), Some(at(10, 0))));
    assert_eq!(machine.healthy.state::<i64>(), Some(0));
}

#[test]
fn without_seeding_a_dependency_without_a_marker_covers_nothing() {
    let mut machine = machine(rules(weather()));
    assert_eq!(lags(&machine.pulse(5, at(10, 0))), [("weather".to_owned(), Lag::Unknown)]);
    assert!(machine.is_closed());
    assert_eq!(machine.targets(), [(0, 5)], "the first message is its own safe offset");
}

#[test]
fn cp_11_a_downtime_is_reported_and_pauses() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    assert!(!machine.is_closed());
    assert_eq!(lags(&machine.pulse(1, at(10, 30))), [by("weather", minutes(30))]);
    assert!(machine.is_down(0) && machine.is_closed());
}

#[test]
fn cp_12_a_heartbeat_that_is_late_does_not_resume_one_that_is_not_does() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    machine.pulse(1, at(11, 0));
    machine.beat(0, at(10, 30));
    assert!(machine.is_down(0) && machine.is_closed());
    machine.beat(0, at(11, 1));
    assert!(!machine.is_down(0));
    machine.resume(T0);
    assert!(!machine.is_closed());
    assert_eq!(machine.told(), ["down 1 weather", "up weather", "recovered 1", "resumed"]);
}

/// Down when `down`, recovered when `recovered`.
fn answers(down: Option<u64>, recovered: bool) -> Answers {
    let down = down.map_or(Ok(()), |seconds| Err(Lag::By(Span::from(Duration::from_secs(seconds)))));
    Answers { down: Some(down), recovered: Some(recovered), beats: 0 }
}

fn custom(name: &str) -> DependencyRules {
    DependencyRules { is_custom: true, asks_recovery: false, ..dependency(name, minutes(10)) }
}

#[test]
fn cp_14_cp_21_own_checks_decide_from_the_first_pulse_on_and_nothing_is_seeded() {
    let mut machine = seeded(vec![custom("weather")]);
    machine.pulse_with(0, at(10, 0), &[answers(Some(1), false)]);
    assert!(machine.is_down(0));
    assert_eq!(machine.reach(0), None);
    machine.recovered(0, Some(1), T0);
    assert!(!machine.is_down(0));
}

#[test]
fn cp_15_a_healthy_dependency_does_not_hide_one_that_is_down() {
    let mut machine = machine(rules(vec![dependency("down", minutes(10)), dependency("up", minutes(10))]));
    machine.beat(0, at(10, 0));
    machine.beat(1, at(10, 30));
    assert_eq!(lags(&machine.pulse(0, at(10, 30))), [by("down", minutes(30))]);
    assert!(machine.is_down(0) && !machine.is_down(1));
}

#[test]
fn cp_16_a_pulse_can_recover_without_a_heartbeat() {
    let mut machine = seeded(vec![custom("weather")]);
    machine.rules.pauses = false; // a dependent that is paused has no pulses
    machine.pulse_with(0, at(10, 0), &[answers(Some(1), false)]);
    machine.pulse_with(1, at(10, 1), &[answers(None, true)]);
    assert!(!machine.is_down(0));
    assert_eq!(machine.told(), ["down 1 weather", "up weather", "recovered 1"]);
}

#[test]
fn cp_17_it_stays_paused_until_the_last_one_is_back() {
    let mut machine = seeded(vec![custom("first"), custom("second")]);
    machine.rules.pauses = false;
    let both = machine.pulse_with(0, at(10, 0), &[answers(Some(1), false), answers(Some(2), false)]);
    assert_eq!(lags(&both), [by("first", Duration::from_secs(1)), by("second", Duration::from_secs(2))]);
    let one = machine.pulse_with(1, at(10, 1), &[answers(None, true), answers(Some(2), false)]);
    assert_eq!(lags(&one), [by("second", Duration::from_secs(2))]);
    assert!(!machine.is_down(0) && machine.is_down(1));
    assert_eq!(machine.told(), ["down 1 first", "down 1 second", "up first"], "not recovered");
}

#[test]
fn cp_18_a_downtime_is_told_once() {
    let mut machine = seeded(weather());
    machine.rules.pauses = false;
    machine.pulse(0, at(10, 0));
    machine.pulse(1, at(11, 0));
    machine.pulse(2, at(11, 30));
    assert_eq!(machine.told(), ["down 1 weather"]);
}

#[test]
fn cp_19_between_threshold_and_recovery_it_is_still_down() {
    let mut machine = seeded(vec![custom("weather")]);
    machine.rules.pauses = false;
    machine.pulse_with(0, at(10, 11), &[answers(Some(660), false)]);
    let verdict = machine.pulse_with(1, at(10, 12), &[answers(None, false)]);
    assert_eq!(lags(&verdict), [("weather".to_owned(), Lag::Recovering)]);
    assert!(machine.is_down(0));
}

#[test]
fn cp_20_d_11_pulse_and_heartbeat_that_both_recover_do_so_once() {
    let mut machine = seeded(weather());
    machine.rules.pauses = false;
    machine.pulse(0, at(10, 0));
    machine.pulse(1, at(11, 0));
    machine.told();
    machine.beat(0, at(11, 1));
    assert_eq!(machine.pulse(2, at(11, 0)), Verdict::Pass(None), "it never pauses");
    machine.beat(0, at(11, 2));
    assert_eq!(machine.told(), ["up weather", "recovered 1"]);
}

#[test]
fn cp_22_a_marker_of_zero_is_a_marker() {
    let mut machine = seeded(vec![dependency("weather", 10)]);
    machine.beat(0, 0.mark());
    machine.pulse(0, 5.mark());
    assert_eq!(machine.reach(0), Some(0.mark()));
    assert!(!machine.is_down(0));
}

#[test]
fn d_10_two_checkpoints_on_one_dependent_do_not_resume_for_each_other() {
    // Each has a machine of its own; the gate of the source opens when both do.
    let (mut first, mut second) = (seeded(weather()), seeded(weather()));
    for machine in [&mut first, &mut second] {
        machine.pulse(0, at(10, 0));
        machine.pulse(1, at(11, 0));
    }
    first.beat(0, at(12, 0));
    first.resume(T0);
    assert!(!first.is_closed() && second.is_closed());
}

#[test]
fn d_19_after_a_recovery_there_is_no_downtime() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    machine.pulse(1, at(11, 0));
    machine.beat(0, at(11, 1));
    machine.resume(T0);
    assert!(machine.open_outage().is_none());
    assert_eq!(machine.pulse(2, at(11, 0)), Verdict::Pass(None));
}

#[test]
fn d_20_a_downtime_equals_itself_and_nothing_else() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    let (Verdict::Pass(Some(first)), lag) = (machine.pulse(1, at(11, 0)), Lag::By(Span::from(minutes(60)))) else {
        panic!()
    };
    assert!(first == first.clone());
    assert_eq!(first.get("weather"), Some(lag));
    assert_eq!(first.longest(), Some(Span::from(minutes(60))));
}
