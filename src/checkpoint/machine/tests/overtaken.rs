//! What overtakes what: heartbeats and answers, outages and restarts, doubts and those that confirm them.

use super::*;

const LATER: Duration = Duration::from_secs(1);

fn bounded(mode: Mode) -> Rules {
    Rules { mode, far_future: Some(Span::from(minutes(60))), ..rules(weather()) }
}

#[test]
fn what_has_not_waited_waits_also_while_an_overridden_recovery_is_told() {
    let rules =
        Rules { mode: Mode::Hold, max_pause: Some(minutes(5)), ..rules(vec![dependency("weather", minutes(0))]) };
    let mut machine = machine(rules);
    machine.beat(0, at(9, 0));
    assert_eq!(machine.pulse(0, at(10, 0)), Verdict::Wait);
    machine.beat(0, at(11, 0));
    assert!(machine.override_pause(), "its callback takes long");
    assert_eq!(machine.pulse(0, at(10, 0)), Verdict::Pass(None));
    assert_eq!(machine.pulse(1, at(12, 0)), Verdict::Wait);
}

#[test]
fn an_override_for_a_marker_that_nobody_believes_lets_pass_that_message_only() {
    let mut machine = machine(Rules { mode: Mode::Hold, ..bounded(Mode::Hold) });
    machine.beat(0, at(10, 0));
    assert_eq!(machine.pulse(0, at(23, 0)), Verdict::Wait);
    assert_eq!(machine.keep(0, 0).highest, None, "and says nothing of what is missing");
    assert!(machine.override_pause());
    machine.beat(0, at(10, 20));
    machine.resume(T0);
    assert_eq!(lags(&machine.pulse(0, at(23, 0))).len(), 1, "whenever its lane looks");
    assert_eq!(machine.pulse(1, at(10, 40)), Verdict::Wait, "the next one waits");
}

#[test]
fn a_seek_past_a_message_that_waits_ends_its_outage() {
    let mut machine = machine(Rules { mode: Mode::Hold, ..rules(vec![dependency("weather", minutes(0))]) });
    machine.beat(0, at(10, 0));
    assert_eq!(machine.pulse(0, at(23, 0)), Verdict::Wait);
    machine.dropped(0, T0);
    machine.moved(0, None, None, T0);
    assert_eq!(machine.told(), ["down 1 weather", "up weather", "recovered 1"]);
    machine.resume(T0);
    assert_eq!(machine.pulse(1, at(10, 30)), Verdict::Wait);
    assert_eq!(machine.told(), ["resumed", "down 2 weather"]);
}

#[test]
fn two_that_are_never_there_at_once_end_an_overridden_outage_all_the_same() {
    let mut machine = machine(rules(vec![dependency("weather", minutes(0)), dependency("news", minutes(0))]));
    machine.pulse(0, at(10, 0));
    assert!(machine.override_pause());
    machine.pulse(1, at(10, 1));
    machine.beat(0, at(10, 1));
    assert_eq!(machine.told(), ["down 1 weather", "down 1 news", "overridden", "up weather"]);
    machine.pulse(2, at(10, 2));
    machine.beat(1, at(10, 2));
    assert_eq!(machine.told(), ["up news", "recovered 1"], "what came meanwhile is not told as another one");
    assert_eq!(machine.due(), [(0, 0)]);
}

#[test]
fn an_answer_older_than_the_last_heartbeat_does_not_pause_for_good() {
    let custom = DependencyRules { is_custom: true, ..dependency("weather", minutes(10)) };
    let down = Answers { down: Some(Err(Lag::Unknown)), ..Answers::default() };
    let mut own = machine(rules(vec![custom.clone()]));
    own.beat(0, at(10, 0));
    own.beat(0, at(23, 0));
    own.pulse_with(0, at(11, 0), &[Answers { beats: 1, ..down }]);
    assert_eq!(own.told(), ["down 1 weather", "up weather", "recovered 1"]);
    let asks = DependencyRules { asks_recovery: true, ..custom };
    let mut asked = machine(rules(vec![asks]));
    asked.beat(0, at(10, 0));
    assert!(!asked.is_overtaken(&[Answers { beats: 1, ..down }]));
    asked.beat(0, at(23, 0));
    assert!(asked.is_overtaken(&[Answers { beats: 1, ..down }]), "then it is asked once more");
    assert!(!asked.is_overtaken(&[Answers { beats: 1, down: Some(Ok(())), ..down }]));
}

#[test]
fn where_the_user_says_who_has_recovered_neither_the_comparison_nor_the_clock_does() {
    let own =
        DependencyRules { asks_recovery: true, idle_after: Some(minutes(1)), ..dependency("weather", minutes(10)) };
    let mut machine = machine(rules(vec![own]));
    machine.beat(0, at(10, 0));
    machine.pulse(0, at(11, 0));
    machine.advance(0, 0, (at(12, 0), -1), Some(false), T0);
    machine.tick(minutes(30));
    machine.assigned(0, &[(1, Some(at(12, 0).into()))], T0);
    assert_eq!(machine.told(), ["down 1 weather"]);
    machine.ended(0, 0, T0);
    machine.ended(0, 1, T0);
    assert_eq!(machine.told(), ["up weather", "recovered 1"], "of what has ended nothing more can come");
}

#[test]
fn a_jump_that_turns_out_to_be_real_is_corrected() {
    let mut machine = machine(bounded(Mode::Detect));
    machine.beat(0, at(10, 0));
    assert_eq!(machine.pulse(0, at(20, 0)), Verdict::Pass(None));
    machine.beat(0, at(20, 1));
    assert_eq!(machine.told(), Vec::<String>::new(), "the dependency jumps, too");
    machine.beat(0, at(20, 2));
    assert_eq!(machine.told(), ["recovered 1"]);
    assert_eq!((machine.due(), machine.highest()), (vec![(0, 0)], Some(at(20, 0))));
}

#[test]
fn a_doubt_survives_a_restart_and_is_not_confirmed_by_the_message_that_it_is_about() {
    let mut first = machine(bounded(Mode::Hold));
    first.advance(0, 0, (at(10, 0), 0), None, T0);
    first.advance(0, 0, (at(20, 0), 1), None, T0);
    let kept = first.kept_of(0, 0).unwrap();
    assert_eq!(KeptMark::decode(&kept.encode()), Some(kept));
    let mut second = Machine::new(bounded(Mode::Hold));
    second.assigned(0, &[(0, Some(kept))], T0);
    second.advance(0, 0, (at(20, 0), 1), None, T0);
    assert_eq!((second.reach(0), second.far_future()), (Some(at(10, 0)), 0), "it came again");
    second.advance(0, 0, (at(20, 0), 2), None, T0);
    assert_eq!(second.reach(0), Some(at(20, 0)));
}

#[test]
fn a_dependency_that_was_sent_to_another_place_is_not_seeded() {
    let mut machine = seeded(weather());
    machine.pulse(0, at(10, 0));
    assert_eq!(machine.reach(0), Some(at(10, 0)));
    machine.sought(0, 0, T0);
    machine.pulse(1, at(10, 1));
    assert_eq!(machine.reach(0), None);
}

#[test]
fn what_was_handled_early_is_corrected_in_hold_mode_too() {
    let kept = Kept { safe: Some(3), ..Kept::default() };
    let mut machine = Machine::new(Rules { mode: Mode::Hold, rewinds: false, ..rules(weather()) });
    machine.begin(0, Some(kept), T0);
    assert_eq!((machine.begins_at(0), machine.keep(0, 9).safe), (Some(3), Some(3)));
    machine.moved(0, Some(3), None, T0);
    assert_eq!(machine.keep(0, 4).safe, None);
}

#[test]
fn an_outage_on_record_with_markers_of_another_kind_is_over() {
    let mut first = machine(Rules { mode: Mode::Hold, ..rules(vec![dependency("weather", 0)]) });
    first.pulse(0, 20.mark());
    let outage = first.take_events().into_iter().find_map(|event| match event {
        Event::Down(outage) => Some(outage),
        _ => None,
    });
    let mut second = Machine::new(Rules { mode: Mode::Hold, ..rules(weather()) });
    second.restore(1, outage, None);
    second.assigned(0, &[(0, None)], T0);
    second.begin(0, None, T0);
    second.begun(T0);
    assert_eq!(second.told(), ["recovered 1"]);
}

#[test]
fn an_outage_that_begins_while_the_last_recovery_is_told_has_a_number_of_its_own() {
    let mut machine = machine(Rules { max_pause: Some(minutes(5)), ..rules(weather()) });
    machine.beat(0, at(10, 0));
    machine.pulse(0, at(11, 0));
    machine.beat(0, at(12, 0));
    assert!(machine.override_pause());
    machine.pulse(1, at(13, 0));
    machine.resume(LATER);
    machine.beat(0, at(14, 0));
    let told =
        ["down 1 weather", "up weather", "recovered 1", "overridden", "down 2 weather", "up weather", "recovered 2"];
    assert_eq!(machine.told(), told);
    machine.resume(LATER);
    assert_eq!(machine.phase(), Phase::Running);
}

#[test]
fn a_partition_that_comes_while_a_recovery_is_told_is_told_of_next() {
    let mut machine = machine(Rules { rewinds: false, ..rules(weather()) });
    machine.beat(0, at(10, 0));
    machine.pulse(0, at(11, 0));
    machine.beat(0, at(12, 0));
    assert_eq!(machine.recovered_outage().safe_offsets, [(0, 0)]);
    let kept = Kept { safe: Some(7), highest: Some(at(11, 0)), is_down: true, ..Kept::default() };
    machine.begin(1, Some(kept), T0);
    machine.begun(T0);
    machine.resume(T0);
    assert_eq!(machine.recovered_outage().safe_offsets, [(1, 7)]);
}
