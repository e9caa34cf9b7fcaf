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
    machine.resume(T0);
    machine.beat(0, at(13, 0));
    assert_eq!(machine.keep(0, 5).safe, Some(4), "it was revoked before it was sent back");
    machine.moved(0, Some(4), Some(1), T0);
    let kept = machine.keep(0, 4);
    assert_eq!((kept.epoch, kept.safe, kept.is_down), (1, None, false));
}

#[test]
fn a_seek_during_an_outage_wins_over_the_rewind() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    machine.pulse(4, at(11, 0));
    machine.beat(0, at(12, 0));
    machine.moved(0, None, None, T0);
    assert!(machine.targets().is_empty());
    assert_eq!(machine.keep(0, 4).epoch, 1);
}

#[test]
fn a_rewind_of_another_checkpoint_leaves_what_lies_before_it() {
    let mut machine = machine(rules(weather()));
    machine.rules.pauses = false;
    machine.beat(0, at(10, 0));
    for offset in 4..8 {
        machine.pulse(offset, at(11, 0));
    }
    machine.moved(0, Some(6), Some(1), T0);
    assert_eq!(machine.targets(), [(0, 4)], "4 and 5 do not come again by that");
    machine.pulse(6, at(11, 0));
    machine.beat(0, at(12, 0));
    assert_eq!(machine.recovered_outage().safe_offsets, [(0, 4)]);
    machine.moved(0, Some(4), Some(2), T0);
    assert!(machine.targets().is_empty());
}

/// Begins again with what was kept, and with an outage that was not over.
fn again(rules: Rules, kept: Kept, outage: &Arc<Outage>) -> Machine {
    let mut machine = Machine::new(rules);
    machine.restore(outage.number, Some(Arc::clone(outage)), outage.detected.state.clone());
    machine.assigned(0, &[(0, Some(at(10, 0).into()))], T0);
    machine.begin(0, Some(kept), T0);
    machine.begun(T0);
    machine
}

fn went_down(machine: &mut Machine) -> Arc<Outage> {
    let down = machine.take_events().into_iter().find_map(|event| match event {
        Event::Down(outage) => Some(outage),
        _ => None,
    });
    down.unwrap()
}

#[test]
fn an_outage_goes_on_after_a_restart_under_its_number_with_what_was_known() {
    for mode in [Mode::Detect, Mode::Hold] {
        let rules = Rules { mode, ..rules(weather()) };
        let mut machine = machine(rules.clone());
        machine.begin(0, Some(Kept { last: 2, ..Kept::default() }), T0);
        machine.beat(0, at(10, 0));
        machine.pulse(3, at(10, 0));
        machine.beat(0, at(10, 0));
        machine.pulse(4, at(11, 0));
        let outage = went_down(&mut machine);
        assert_eq!(outage.number, 3);
        // Before and after the position of the message that told of it was stored.
        for next in [4, 5] {
            let kept = machine.keep(0, next);
            assert_eq!(kept.last, 2);
            let mut again = again(rules.clone(), kept, &outage);
            if again.phase() == Phase::Running {
                assert_eq!(again.told(), [""; 0], "{mode:?}: nothing is over yet");
                again.pulse(4, at(11, 0));
            }
            assert_eq!(again.told(), ["down 3 weather"], "{mode:?} at {next}");
            again.dropped(0, T0);
            again.beat(0, at(12, 0));
            let recovered = again.recovered_outage();
            // What waits has not passed yet.
            let detected = if mode == Mode::Hold { 3 } else { 4 };
            let states = [&recovered.healthy, &recovered.detected].map(Snapshot::state::<i64>);
            assert_eq!((recovered.number, states), (3, [Some(3), Some(detected)]), "{mode:?}");
            again.resume(T0);
            assert_eq!(again.keep(0, 5).last, 3);
            again.pulse(6, at(13, 0));
            assert_eq!(went_down(&mut again).number, 4, "{mode:?}");
        }
    }
}

#[test]
fn an_outage_that_goes_on_is_not_over_when_an_earlier_message_is_covered() {
    let rules = Rules { mode: Mode::Hold, ..rules(weather()) };
    let mut machine = machine(rules.clone());
    machine.beat(0, at(10, 0));
    machine.pulse(5, at(12, 0));
    let outage = went_down(&mut machine);
    let mut again = again(rules, Kept::default(), &outage);
    again.pulse(4, at(11, 0));
    again.beat(0, at(11, 30));
    assert_eq!(again.pulse(4, at(11, 0)), Verdict::Pass(None));
    assert_eq!(again.told(), ["down 1 weather"]);
    again.pulse(5, at(12, 0));
    again.beat(0, at(12, 30));
    assert_eq!(again.told(), ["up weather", "recovered 1"]);
}

#[test]
fn an_outage_that_ended_while_nobody_looked_is_told_to_be_over_once() {
    for mode in [Mode::Detect, Mode::Hold] {
        let rules = Rules { mode, ..rules(weather()) };
        let mut machine = machine(rules.clone());
        machine.beat(0, at(9, 0));
        machine.pulse(4, at(9, 59));
        let outage = went_down(&mut machine);
        let mut again = again(rules, Kept::default(), &outage);
        assert_eq!(again.told(), ["recovered 1"], "{mode:?}: 10:00 was there");
        again.resume(T0);
        again.beat(0, at(10, 1));
        assert_eq!(again.told(), ["resumed"]);
    }
}

#[test]
fn outages_are_numbered_on_from_what_positions_say() {
    let mut machine = machine(rules(weather()));
    machine.begin(1, Some(Kept { last: 6, ..Kept::default() }), T0);
    machine.pulse(0, at(10, 0));
    assert_eq!(machine.told(), ["down 7 weather"]);
}

#[test]
fn recovery_compares_with_the_highest_marker_of_all_partitions() {
    let mut machine = machine(rules(weather()));
    machine.rules.pauses = false;
    machine.beat(0, at(10, 0));
    machine.comes(1, 0, at(15, 0), T0);
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
    assert!(!machine.tick(minutes(4)));
    assert_eq!(machine.told(), ["down 1 weather"]);
    assert!(machine.tick(minutes(5)) && !machine.tick(minutes(6)), "once");
    assert!(machine.override_pause() && !machine.override_pause());
    assert!(!machine.is_closed());
    assert_eq!(lags(&machine.pulse(4, at(11, 30))), [by("weather", minutes(90))]);
    machine.beat(0, at(12, 0));
    assert_eq!(machine.targets(), [(0, 3)]);
}

#[test]
fn a_dependency_has_some_time_to_begin() {
    let mut machine = machine(Rules { grace: minutes(1), ..rules(weather()) });
    assert_eq!(machine.comes(0, 0, at(10, 0), Duration::from_secs(59)), Verdict::Wait);
    assert_ne!(machine.comes(0, 0, at(10, 0), minutes(1)), Verdict::Wait);
}

#[test]
fn what_has_ended_covers_everything() {
    let mut machine = machine(rules(weather()));
    machine.pulse(0, at(10, 0));
    assert!(machine.is_closed());
    machine.ended(0, 0, T0);
    assert_eq!(machine.told(), ["down 1 weather", "up weather", "recovered 1"]);
}

#[test]
fn several_partitions_of_an_outage_that_a_restart_found_have_one_number() {
    let mut machine = Machine::new(rules(weather()));
    let kept = |last| Some(Kept { is_down: true, highest: Some(at(11, 0)), last, ..Kept::default() });
    machine.begin(0, kept(0), T0);
    machine.begin(1, kept(3), T0);
    machine.begun(T0);
    assert!(machine.told().is_empty(), "what was kept of the weather is not there yet");
    assert_eq!(machine.comes(0, 0, at(9, 0), T0), Verdict::Wait);
    machine.assigned(0, &[(0, Some(at(10, 0).into()))], T0);
    assert_eq!(machine.told(), ["down 4 weather"]);
    assert_eq!([0, 1].map(|partition| machine.keep(partition, 1).last), [3, 3]);
}

#[test]
fn what_was_kept_of_dependencies_is_waited_for_so_long_and_no_longer() {
    let mut machine = Machine::new(rules(weather()));
    machine.begin(0, None, T0);
    machine.begun(T0);
    assert_eq!(machine.comes(0, 0, at(9, 0), Duration::from_secs(9)), Verdict::Wait);
    assert_eq!((machine.phase(), machine.held()), (Phase::Running, 1), "that is no outage");
    assert_eq!(lags(&machine.comes(0, 0, at(9, 0), Duration::from_secs(10))).len(), 1);
}

#[test]
fn whoever_takes_over_a_partition_of_an_outage_that_is_over_by_then_tells_so() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(12, 0));
    let kept = Kept { is_down: true, highest: Some(at(11, 0)), safe: Some(7), last: 2, ..Kept::default() };
    machine.begin(1, Some(kept), T0);
    machine.begun(T0);
    let recovered = machine.recovered_outage();
    assert_eq!((recovered.number, recovered.safe_offsets.clone()), (3, vec![(1, 7)]));
}

#[test]
fn without_a_rewind_what_was_handled_too_early_is_kept_until_callbacks_have_seen_it() {
    let rules = Rules { rewinds: false, ..rules(weather()) };
    let mut first = machine(rules.clone());
    first.beat(0, at(10, 0));
    first.pulse(4, at(11, 0));
    let kept = first.keep(0, 5);
    assert_eq!((kept.safe, kept.is_down), (Some(4), true));
    let mut second = Machine::new(rules);
    second.assigned(0, &[(0, Some(at(10, 0).into()))], T0);
    second.begin(0, Some(kept), T0);
    second.begun(T0);
    assert_eq!(second.begins_at(0), None);
    assert_eq!(second.keep(0, 5), kept);
    second.beat(0, at(12, 0));
    assert_eq!(second.recovered_outage().safe_offsets, [(0, 4)]);
    second.resume(T0);
    assert_eq!(second.keep(0, 5), Kept { last: 1, ..Kept::default() });
}

#[test]
fn markers_of_another_kind_that_were_kept_are_not_compared() {
    let mut machine = Machine::new(rules(weather()));
    machine.assigned(0, &[(0, Some(12.mark().into()))], T0);
    machine.begin(0, Some(Kept { is_down: true, highest: Some(99.mark()), safe: Some(1), ..Kept::default() }), T0);
    machine.begun(T0);
    assert_eq!((machine.reach(0), machine.highest(), machine.phase()), (None, None, Phase::Running));
    assert_eq!(machine.begins_at(0), Some(1));
}

#[test]
fn all_that_are_behind_are_named_at_once() {
    let mut machine = machine(rules(vec![dependency("weather", minutes(10)), dependency("news", minutes(10))]));
    machine.beat(0, at(10, 0));
    machine.beat(1, at(10, 30));
    machine.pulse(0, at(11, 0));
    let outage = went_down(&mut machine);
    assert_eq!(outage.downtime.as_ref().unwrap().iter().count(), 2, "{:?}", outage.downtime);
}

#[test]
fn an_answer_about_another_outage_ends_none() {
    let mut machine = machine(rules(weather()));
    machine.beat(0, at(10, 0));
    machine.pulse(0, at(11, 0));
    machine.recovered(0, Some(2), T0);
    machine.recovered(0, None, T0);
    assert_eq!(machine.told(), ["down 1 weather"]);
    machine.recovered(0, Some(1), T0);
    assert_eq!(machine.told(), ["up weather", "recovered 1"]);
}

#[test]
fn a_marker_too_far_ahead_is_believed_when_the_next_says_the_same() {
    let bounded = |mode| machine(Rules { mode, far_future: Some(Span::from(minutes(60))), ..rules(weather()) });
    let mut detect = bounded(Mode::Detect);
    detect.beat(0, at(10, 0));
    detect.beat(0, at(20, 0));
    assert_eq!(detect.reach(0), Some(at(10, 0)), "one clock may be wrong");
    detect.beat(0, at(20, 1));
    assert_eq!(detect.reach(0), Some(at(20, 1)), "two agree");
    assert_eq!(detect.pulse(0, at(23, 0)), Verdict::Pass(None), "is not compared");
    assert_eq!(detect.keep(0, 1).safe, Some(0), "and not forgotten");
    assert_eq!(lags(&detect.pulse(1, at(23, 1))).len(), 1);
    assert_eq!(detect.targets(), [(0, 0)], "both come again");
    let mut alone = bounded(Mode::Detect);
    alone.beat(0, at(10, 0));
    alone.pulse(0, at(23, 0));
    alone.pulse(1, at(9, 0));
    assert_eq!((alone.keep(0, 2), alone.far_future()), (Kept::default(), 1), "it was wrong");
    let mut hold = bounded(Mode::Hold);
    hold.beat(0, at(10, 0));
    assert_eq!(hold.pulse(0, at(23, 0)), Verdict::Wait, "nothing wrong leaves");
    assert_eq!(hold.pulse(0, at(23, 0)), Verdict::Wait);
    assert_eq!((hold.highest(), hold.far_future()), (None, 1), "the same message, asked about twice");
}

#[test]
fn a_recovery_whose_callback_does_not_end_can_be_overridden_too() {
    let mut machine = machine(Rules { max_pause: Some(minutes(5)), ..rules(weather()) });
    machine.beat(0, at(10, 0));
    machine.pulse(0, at(11, 0));
    machine.beat(0, at(12, 0));
    assert!(machine.is_closed() && machine.tick(minutes(5)));
    assert!(machine.override_pause() && !machine.is_closed());
    machine.resume(T0);
    assert_eq!(machine.phase(), Phase::Running);
}
