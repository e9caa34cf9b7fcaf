//! The machine alone: the model's suite (CP), and random schedules.

mod holding;
mod outages;
mod overtaken;
mod parity;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::checkpoint::Marker as _;
use crate::checkpoint::note::{Kept, KeptMark};

const T0: Duration = Duration::ZERO;

fn minutes(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// A time of day as a marker.
fn at(hour: u64, minute: u64) -> Mark {
    (chrono::DateTime::UNIX_EPOCH + minutes(hour * 60 + minute)).mark()
}

fn dependency(name: &str, threshold: impl Into<Span>) -> DependencyRules {
    let threshold = threshold.into();
    DependencyRules {
        name: Arc::from(name),
        threshold,
        zero: Span::zero(threshold.unit()),
        idle_after: None,
        is_custom: false,
        asks_recovery: false,
    }
}

fn rules(dependencies: Vec<DependencyRules>) -> Rules {
    Rules {
        name: Arc::from("activity"),
        mode: Mode::Detect,
        measure: dependencies.first().map_or(Measure::Time, |own| own.zero.unit()),
        pauses: true,
        inclusive: false,
        seeds: false,
        rewinds: true,
        single_member: false,
        far_future: None,
        grace: T0,
        max_pause: None,
        dependencies,
    }
}

fn weather() -> Vec<DependencyRules> {
    vec![dependency("weather", minutes(10))]
}

/// A machine with one partition on each side.
fn machine(rules: Rules) -> Machine {
    let mut machine = Machine::new(rules);
    for dependency in 0..machine.dependencies.len() {
        machine.assigned(dependency, &[(0, None)], T0);
    }
    machine.begin(0, None, T0);
    machine.take_events();
    machine
}

/// The model's machine: seeded by the first pulse.
fn seeded(dependencies: Vec<DependencyRules>) -> Machine {
    machine(Rules { seeds: true, ..rules(dependencies) })
}

impl Machine {
    fn pulse(&mut self, offset: i64, mark: Mark) -> Verdict {
        self.pulse_with(offset, mark, &[])
    }

    fn pulse_with(&mut self, offset: i64, mark: Mark, answers: &[Answers]) -> Verdict {
        self.comes_with(0, offset, mark, answers, T0)
    }

    fn comes(&mut self, partition: i32, offset: i64, mark: Mark, now: Duration) -> Verdict {
        self.comes_with(partition, offset, mark, &[], now)
    }

    fn comes_with(&mut self, partition: i32, offset: i64, mark: Mark, answers: &[Answers], now: Duration) -> Verdict {
        let message = Message { partition, seq: offset.cast_unsigned(), offset, mark };
        let state: State = Arc::new(offset);
        let first = (self.rules.mode == Mode::Detect).then(|| Arc::clone(&state));
        if !self.arrive(message, first, now) {
            return Verdict::Wait;
        }
        let verdict = self.judge(message, answers, now);
        if self.rules.mode == Mode::Hold && verdict != Verdict::Wait {
            self.set_state(state);
        }
        verdict
    }

    fn beat(&mut self, dependency: usize, mark: Mark) {
        self.advance(dependency, 0, (mark, -1), None, T0);
    }

    fn reach(&self, dependency: usize) -> Option<Mark> {
        self.dependencies[dependency].watermark.reach().mark()
    }

    fn is_down(&self, dependency: usize) -> bool {
        self.dependencies[dependency].down.is_some()
    }

    /// What happened, in words.
    fn told(&mut self) -> Vec<String> {
        let word = |event: Event| match event {
            Event::Down(outage) => format!("down {} {}", outage.number, outage.dependency),
            Event::Up(name) => format!("up {name}"),
            Event::Recovered(outage) => format!("recovered {}", outage.number),
            Event::Resumed => "resumed".to_owned(),
            Event::Overridden => "overridden".to_owned(),
        };
        self.take_events().into_iter().map(word).collect()
    }

    fn recovered_outage(&mut self) -> Arc<Outage> {
        let found = self.take_events().into_iter().find_map(|event| match event {
            Event::Recovered(outage) => Some(outage),
            _ => None,
        });
        found.unwrap()
    }
}

fn lags(verdict: &Verdict) -> Vec<(String, Lag)> {
    match verdict {
        Verdict::Pass(Some(downtime)) => downtime.iter().map(|(name, lag)| (name.to_owned(), lag)).collect(),
        _ => Vec::new(),
    }
}

fn by(name: &str, span: impl Into<Span>) -> (String, Lag) {
    (name.to_owned(), Lag::By(span.into()))
}
