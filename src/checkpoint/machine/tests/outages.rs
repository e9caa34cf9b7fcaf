//! Outages: what is remembered of them, where the dependent goes back to, how long they may last.

use super::*;

#[test]
fn b_45_d_18_callbacks_get_the_state_before_at_and_after_an_outage() {
    let mut machine = machine(rules(weather()));
    machine.rules.pauses = false;
    machine.beat(0, at(10, 0));
    machine.pulse(5, at(10, 0));
    machine.beat(0, at(10, 1));
    machine.pulse(9, at(11, 0));
    machine.beat(0, at(10, 20));
    machine.pulse(10, at(11, 1));
    machine.beat(0, at(10, 40)); // late heartbeats while it catches up
    machine.beat(0, at(12, 0));
    let outage = machine.recovered_outage();
    let states = [Some(&outage.healthy), Some(&outage.detected), outage.recovered.as_ref()];
    assert_eq!(states.map(|snapshot| snapshot.unwrap().state::<i64>()), [Some(5), Some(9), Some(10)]);
    assert_eq!(outage.healthy.dependency("weather"), Some(at(10, 1)));
    assert_eq!(outage.recovered.as_ref().unwrap().dependency("weather"), Some(at(12, 0)));
    assert_eq!(outage.safe_offsets, [(0, 9)], "5 was covered by the last good heartbeat");
}

#[test]
fn the_safe_offset_is_the_first_message_that_was_not_covered_at_the_last_good_heartbeat() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    machine.pulse(0, at(9, 59));
    machine.pulse(1, at(10, 4)); // within the threshold, and not covered
    machine.pulse(2, at(10, 6));
    assert_eq!(machine.keep(0, 3).safe, Some(1));
    machine.beat(0, at(10, 5));
    assert_eq!(machine.keep(0, 3).safe, Some(2), "1 is covered now");
    machine.pulse(3, at(11, 0));
    machine.beat(0, at(10, 30));
    assert_eq!(machine.targets(), [(0, 2)], "what comes late takes nothing out");
    assert_eq!(machine.keep(0, 2).safe, None, "a position before it needs none");
    assert!(machine.keep(0, 2).is_down);
}

#[test]
fn a_target_stays_with_the_position_until_its_partition_is_moved() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    machine.pulse(4, at(11, 0));
    machine.beat(0, at(12, 0));
    machine.resume();
    machine.beat(0, at(13, 0));
    assert_eq!(machine.keep(0, 5).safe, Some(4), "it was revoked before it was sent back");
    machine.moved(0, Some(1));
    let kept = machine.keep(0, 4);
    assert_eq!((kept.outage, kept.safe, kept.is_down), (1, None, false));
}

#[test]
fn a_seek_during_an_outage_wins_over_the_rewind() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    machine.pulse(4, at(11, 0));
    machine.beat(0, at(12, 0));
    machine.moved(0, None);
    assert!(machine.targets().is_empty());
    assert_eq!(machine.keep(0, 4).outage, 1);
}

#[test]
fn outages_are_numbered_on_from_what_positions_say() {
    let mut machine = machine(rules(weather()));
    machine.begin(1, Some(Kept { outage: 6, ..Kept::default() }), T0);
    machine.pulse(0, at(10, 0));
    assert_eq!(machine.told(), ["down 7 weather"]);
}

#[test]
fn recovery_compares_with_the_highest_marker_of_all_partitions() {
    let mut machine = machine(rules(weather()));
    machine.rules.pauses = false;
    machine.beat(0, at(10, 0));
    machine.arrive(1, at(15, 0), None, T0);
    machine.judge(1, 0, at(15, 0), &[], T0);
    machine.pulse(0, at(11, 0));
    machine.beat(0, at(12, 0));
    assert!(machine.is_down(0));
    machine.beat(0, at(15, 1));
    assert!(!machine.is_down(0));
    assert_eq!(machine.targets(), [(0, 0), (1, 0)]);
}

#[test]
fn with_two_down_the_earlier_target_counts() {
    let mut machine = machine(rules(vec![dependency("a", minutes(0)), dependency("b", minutes(0))]));
    machine.rules.pauses = false;
    machine.beat(0, at(10, 0));
    machine.beat(1, at(12, 0));
    machine.pulse(1, at(11, 0)); // ahead of a
    machine.pulse(2, at(13, 0)); // ahead of both
    machine.beat(0, at(14, 0));
    assert!(machine.is_closed() || machine.is_down(1));
    machine.beat(1, at(14, 0));
    assert_eq!(machine.targets(), [(0, 1)]);
}

#[test]
fn far_future_markers_are_counted_and_not_believed() {
    let mut machine = machine(Rules { far_future: Some(Span::from(minutes(60))), ..rules(weather()) });
    machine.beat(0, at(10, 0));
    machine.beat(0, at(500, 0));
    assert_eq!(machine.reach(0), Some(at(10, 0)));
    assert_eq!(machine.pulse(0, at(900, 0)), Verdict::Pass(None));
    assert_eq!((machine.highest(), machine.far_future()), (None, 2));
    assert!(!machine.is_closed());
}

#[test]
fn b_44_a_pause_has_an_end_if_that_is_wanted_and_is_corrected_all_the_same() {
    let mut machine = machine(Rules { max_pause: Some(minutes(5)), ..rules(weather()) });
    machine.beat(0, at(10, 0));
    machine.pulse(3, at(11, 0));
    machine.tick(minutes(4));
    assert_eq!(machine.told(), ["down 1 weather"]);
    machine.tick(minutes(5));
    machine.tick(minutes(6));
    assert_eq!(machine.told(), ["too long"], "once");
    assert!(machine.override_pause() && !machine.override_pause());
    assert!(!machine.is_closed());
    assert_eq!(lags(&machine.pulse(4, at(11, 30))), [by("weather", minutes(90))]);
    machine.beat(0, at(12, 0));
    assert_eq!(machine.targets(), [(0, 3)]);
}

#[test]
fn a_dependency_has_some_time_to_begin() {
    let mut machine = machine(Rules { grace: minutes(1), ..rules(weather()) });
    assert!(!machine.arrive(0, at(10, 0), None, Duration::from_secs(59)));
    assert!(machine.arrive(0, at(10, 0), None, minutes(1)));
}

#[test]
fn what_has_ended_covers_everything() {
    let mut machine = machine(rules(weather()));
    machine.pulse(0, at(10, 0));
    assert!(machine.is_closed());
    machine.ended(0, 0, T0);
    assert_eq!(machine.told(), ["down 1 weather", "up weather", "recovered 1"]);
}
