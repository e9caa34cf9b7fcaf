//! Outages and rewinds: the app is killed at each step of them and at random. In the end the last value of each key is
//! that of the batch join, and nothing that was begun before a seek came out after it.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use crate::child::{Child, Plan};
use crate::embedded::Home;
use crate::schedule::{Length, PATIENCE, Schedule, pass, until};

/// What the app calls the steps of an outage and of what follows, in order; several: one after the other.
const STEPS: [&str; 15] = [
    "down",
    "down,committing",
    "down,committed",
    "down,committed,committing",
    "recovered",
    "goes back",
    "stopped",
    "drained",
    "sought",
    "sought,sought",
    "moved",
    "rewound",
    "resumes",
    "resumed",
    "resumed,committed",
];
/// Times that one piece of weather brings, at most.
const PIECE: u64 = 12;
/// Activities at one time, as the app has it.
const PER_TIME: u64 = 4;
/// Pieces of weather that a life needs before it is killed, about.
const PIECES_PER_LIFE: u64 = 10;

/// When an activity was, and which weather it belongs to.
fn time_of(id: u64) -> u64 {
    id / PER_TIME + id * 7 % 5
}

/// What the weather was, after the forecast.
fn weather_of(time: u64) -> u64 {
    2 * time + 1
}

/// One output of the app.
struct Joined {
    id: u64,
    /// The weather; -1 without any.
    seen: i64,
    partition: i32,
    life: u32,
    epoch: u64,
}

impl Joined {
    fn parse(text: &str) -> Self {
        let parts: Vec<i64> = text.split(' ').map(|part| part.parse().expect("a number")).collect();
        let number = |at: usize| u64::try_from(parts[at]).expect("not negative");
        Self {
            id: number(0),
            seen: parts[1],
            partition: i32::try_from(parts[2]).expect("a partition"),
            life: u32::try_from(parts[3]).expect("a life"),
            epoch: number(4),
        }
    }

    fn is_right(&self) -> bool {
        u64::try_from(self.seen) == Ok(weather_of(time_of(self.id)))
    }
}

/// How a life ends.
#[derive(Debug, Clone, Copy)]
enum Death {
    At(&'static str),
    /// When so many milliseconds are over.
    After(u64),
    /// The same, and until then weather comes as fast as it can, from the moment on that it can.
    Amid(u64),
}

/// Each step as often as asked for, and kills at random, shuffled.
fn deaths(schedule: &Schedule, steps: &[&'static str], at_random: u64) -> Vec<Death> {
    let mut deaths: Vec<_> = steps.iter().map(|step| Death::At(step)).collect();
    deaths.extend((0..at_random).map(|at| match at % 2 {
        0 => Death::After(schedule.between(20, 400)),
        _ => Death::Amid(schedule.between(1, 100)),
    }));
    for last in (1..deaths.len()).rev() {
        let other = usize::try_from(schedule.between(0, last as u64)).expect("an index");
        deaths.swap(last, other);
    }
    deaths
}

/// Brings weather piece by piece.
struct Sky {
    /// Times before this one have come.
    next: u64,
    end: u64,
}

impl Sky {
    /// A piece, or nothing when the app has died.
    fn bring(&mut self, schedule: &Schedule, child: &mut Child) -> Option<()> {
        let to = (self.next + schedule.between(1, PIECE)).min(self.end);
        let answer = child.try_ask(&format!("weather {} {to}", self.next))?;
        // An app that does not run yet, or is about to die, cannot write.
        if answer == "brought" {
            self.next = to;
        }
        Some(())
    }
}

fn live_and_die(schedule: &Schedule, sky: &mut Sky, plan: &Plan, life: u32, death: Death) {
    let plan = match death {
        Death::At(step) => plan.clone().with("CHAOS_KILL_AT", step),
        Death::After(_) | Death::Amid(_) => plan.clone(),
    };
    let mut child = plan.start(life);
    let limit = match death {
        Death::At(_) => PATIENCE,
        Death::After(millis) => {
            until(PATIENCE, "it runs", || child.try_ask("status").is_some_and(|status| status != "not yet"));
            Duration::from_millis(millis)
        }
        Death::Amid(millis) => {
            let before = sky.next;
            let began = Instant::now();
            while sky.bring(schedule, &mut child).is_some() && sky.next == before {
                assert!(began.elapsed() < PATIENCE, "no weather comes");
                pass(Duration::from_millis(1));
            }
            Duration::from_millis(millis)
        }
    };
    let most = if matches!(death, Death::At(_)) { u64::MAX } else { PIECES_PER_LIFE };
    let (began, mut pieces) = (Instant::now(), 0);
    while child.runs() && began.elapsed() < limit {
        // Mostly when it has come as far as it could: then there is another outage.
        let Some(status) = child.try_ask("status") else { break };
        let waits = matches!(death, Death::Amid(_))
            || status != "not yet" && !status.starts_with("Running")
            || schedule.between(0, 50) == 0;
        if waits && pieces < most {
            pieces += 1;
            if sky.bring(schedule, &mut child).is_none() {
                break;
            }
        }
        pass(Duration::from_millis(schedule.between(1, if matches!(death, Death::Amid(_)) { 3 } else { 10 })));
    }
    match death {
        Death::At(step) => {
            let (status, _) = child.ends(PATIENCE);
            assert_eq!(status.signal(), Some(libc::SIGKILL), "at `{step}`: {status}");
        }
        Death::After(_) | Death::Amid(_) => child.kill(),
    }
    schedule.step(format!("life {life}: {death:?}, with the weather before {}", sky.next));
}

/// Lives that die, and a last one that brings everything to its end.
fn all_lives(schedule: &Schedule, plan: &Plan, ids: u64, deaths: &[Death], at_the_end: impl FnOnce(&mut Child)) {
    let mut sky = Sky { next: 0, end: time_of(ids - 1) + 20 };
    let mut life = 0;
    for death in deaths {
        live_and_die(schedule, &mut sky, plan, life, *death);
        life += 1;
    }
    assert!(sky.next < time_of(ids - 1), "all weather was there before the last kill: too few ids");
    let mut last = plan.start(life);
    while sky.next < sky.end {
        sky.bring(schedule, &mut last).expect("the last life stays alive");
        pass(Duration::from_millis(2));
    }
    assert_eq!(last.ask("close"), "closed");
    let all = format!("Running {ids}");
    until(PATIENCE, "all is right and committed", || last.ask("status") == all);
    at_the_end(&mut last);
    last.leave();
}

/// What came out: last values that are wrong, values that were corrected later, and what left after a seek although it
/// was begun before.
#[derive(Default)]
struct Verdict {
    wrong: Vec<u64>,
    corrected: usize,
    old: Vec<u64>,
}

impl Verdict {
    /// `outputs` by partition; all of one key are in one.
    fn of(outputs: &[Vec<String>], ids: u64) -> Self {
        let mut verdict = Self::default();
        let mut last: BTreeMap<u64, Joined> = BTreeMap::new();
        for texts in outputs {
            let mut epochs: HashMap<(u32, i32), u64> = HashMap::new();
            for joined in texts.iter().map(|text| Joined::parse(text)) {
                let epoch = epochs.entry((joined.life, joined.partition)).or_default();
                if joined.epoch < *epoch {
                    verdict.old.push(joined.id);
                }
                *epoch = joined.epoch.max(*epoch);
                verdict.corrected += usize::from(!joined.is_right());
                last.insert(joined.id, joined);
            }
        }
        verdict.wrong = (0..ids).filter(|id| !last.get(id).is_some_and(Joined::is_right)).collect();
        verdict.corrected -= last.values().filter(|joined| !joined.is_right()).count();
        verdict
    }

    fn check(&self, schedule: &Schedule, mode: &str, ids: u64, kills: usize) {
        assert!(self.wrong.is_empty(), "not what the batch join gives: {:?}", self.wrong);
        assert!(self.old.is_empty(), "left after a seek although begun before: {:?}", self.old);
        assert!(mode == "detect" || self.corrected == 0, "wrong values left while held: {}", self.corrected);
        schedule.figure("keys, kills", format!("{ids}, {kills}"));
        schedule.figure("last values unlike the batch join", self.wrong.len());
        schedule.figure("values that were corrected", self.corrected);
        schedule.figure("outputs from before a seek that came after it", self.old.len());
    }
}

/// Runs of the app that corrects nothing, until one leaves something wrong.
const WRONG_RUNS_MAX: u32 = 10;

fn ids_for(deaths: &[Death]) -> u64 {
    let pieces = (deaths.len() as u64 + 2) * PIECES_PER_LIFE;
    pieces * PIECE * PER_TIME / 2
}

fn on_embedded(schedule: &Schedule, mode: &str, deaths: &[Death]) -> (Verdict, u64) {
    let ids = ids_for(deaths);
    let home = Home::new();
    home.feed(0..ids);
    // Several writes of the table within most lives.
    let plan = home.plan().with("CHAOS_JOINS", mode).delay(0, 5).conf("commit.interval", "10ms");
    let plan = plan.conf("table.generation.time", "20ms");
    let of_fold = format!("{ids} rows, 0 wrong");
    all_lives(schedule, &plan, ids, deaths, |last| {
        if mode == "fold" {
            assert_eq!(last.ask("rows"), of_fold, "the table is no fold over each message once, with its weather");
        }
    });
    (Verdict::of(&home.outputs(), ids), ids)
}

#[test]
fn killed_at_each_step_on_an_embedded_log_the_last_value_is_that_of_the_batch_join() {
    let schedule = Schedule::new("outages, embedded");
    let steps = Length::read().choose(STEPS.to_vec(), [STEPS, STEPS].concat());
    let deaths = deaths(&schedule, &steps, Length::read().choose(1, 20));
    let (verdict, ids) = on_embedded(&schedule, "detect", &deaths);
    verdict.check(&schedule, "detect", ids, deaths.len());
}

#[test]
fn killed_at_random_while_messages_are_held_nothing_wrong_ever_leaves() {
    let schedule = Schedule::new("held messages, embedded");
    let deaths = deaths(&schedule, &[], Length::read().choose(2, 50));
    let (verdict, ids) = on_embedded(&schedule, "hold", &deaths);
    verdict.check(&schedule, "hold", ids, deaths.len());
}

#[test]
fn killed_at_random_a_table_behind_the_gate_has_each_message_once_with_its_weather() {
    let schedule = Schedule::new("held messages in a table, embedded");
    let deaths = deaths(&schedule, &[], Length::read().choose(2, 50));
    let (verdict, ids) = on_embedded(&schedule, "fold", &deaths);
    verdict.check(&schedule, "hold", ids, deaths.len());
    schedule.figure("rows of the table that differ", 0);
}

#[test]
fn an_app_that_corrects_nothing_is_caught() {
    let schedule = Schedule::new("wrong join");
    // How many values a run leaves wrong is chance, and may be none.
    let wrong =
        (0..WRONG_RUNS_MAX).map(|_| on_embedded(&schedule, "never", &[]).0.wrong.len()).find(|wrong| *wrong > 0);
    let wrong = wrong.expect("the harness must notice what this app leaves wrong");
    schedule.figure("wrong last values, found by the harness", wrong);
}

#[cfg(feature = "kafka")]
#[test]
fn killed_at_each_step_on_kafka_the_last_value_is_that_of_the_batch_join() {
    use crate::broker::servers;
    use crate::child::Place;

    let Some(servers) = servers() else { return };
    let schedule = Schedule::new("outages, Kafka");
    let place = Place::new(&servers);
    let (_, input, output) = place.names();
    crate::broker::create_topic(&servers, &format!("{input}-weather"), 2);
    let first = usize::try_from(schedule.between(0, 4)).expect("an index");
    let some: Vec<_> = STEPS.into_iter().skip(first).step_by(5).collect();
    let steps = Length::read().choose(some, [STEPS, STEPS].concat());
    let deaths = deaths(&schedule, &steps, Length::read().choose(0, 20));
    let ids = ids_for(&deaths);
    place.feeder().feed(0..ids);
    let plan = place.plan("a").conf("group.instance.id", "a").conf("session.timeout.ms", 6000);
    let plan = plan.with("CHAOS_JOINS", "detect").delay(0, 5);
    all_lives(&schedule, &plan, ids, &deaths, |_| {});
    let outputs = crate::echoes::values(&servers, output, i32::from(crate::child::PARTITIONS));
    Verdict::of(&outputs, ids).check(&schedule, "detect", ids, deaths.len());
}

#[test]
fn the_verdict_names_what_is_wrong_and_what_came_late() {
    let text = |id: u64, seen: u64, epoch: u64| format!("{id} {seen} 0 1 {epoch}");
    let right = |id, epoch| text(id, weather_of(time_of(id)), epoch);
    let outputs = [vec![text(1, 0, 0), right(1, 1), right(0, 0)], vec![text(2, 0, 0)]];
    let verdict = Verdict::of(&outputs, 4);
    assert_eq!((verdict.wrong, verdict.corrected, verdict.old), (vec![2, 3], 1, vec![0]));
}
