//! What cannot work is refused when the app is built, with what to do about it.

use std::collections::BTreeSet;

use super::machine::Mode;
use super::mark::{Measure, Span};
use super::plan::{Dependency, Guard};
use crate::error::{Error, Kind, Result};

/// Names are part of notes and of files.
const NAME_MAX: usize = 64;

pub(super) fn check<T>(name: &str, guard: &Guard<T>) -> Result<()> {
    check_name(name)?;
    if guard.dependencies.is_empty() {
        tracing::warn!(
            checkpoint = name,
            "it has no dependency and guards nothing: `.dependency(…)` says what messages wait for"
        );
    }
    let mut names = BTreeSet::new();
    for dependency in &guard.dependencies {
        check_name(&dependency.name)?;
        if !names.insert(&dependency.name) {
            return refuse(format!("two dependencies are called `{}`: give one another name", dependency.name));
        }
        check_dependency(guard, dependency)?;
    }
    if let Some(bound) = guard.far_future {
        check_span("far_future", bound, guard.unit)?;
    }
    check_mode(guard)
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(Kind::Build, message))
}

fn check_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_MAX && name.chars().all(legal) {
        return Ok(());
    }
    let rule = "up to 64 ASCII letters, digits, `.`, `_` and `-`, the first a letter or digit";
    refuse(format!("`{}` cannot be the name of a checkpoint or dependency: {rule}", name.escape_debug()))
}

fn check_dependency<T>(guard: &Guard<T>, own: &Dependency) -> Result<()> {
    if own.unit != guard.unit {
        let message = format!(
            "the markers of dependency `{}` are measured in {}, those of the dependent in {}: give both the same kind",
            own.name,
            words(own.unit),
            words(guard.unit)
        );
        return refuse(message);
    }
    if let Some(threshold) = own.threshold.or(guard.threshold) {
        check_span("threshold", threshold, guard.unit)?;
    }
    let has_default =
        guard.unit.of_spans() == Measure::Time || guard.mode == Mode::Hold || own.downtime_check.is_some();
    if !has_default && own.threshold.or(guard.threshold).is_none() {
        let message = format!(
            "the markers are numbers, for which there is no default: say how far a message may be ahead of `{}` with \
             `.threshold(n)`, or wait for it with `.hold()`",
            own.name
        );
        return refuse(message);
    }
    if guard.mode == Mode::Hold && (own.downtime_check.is_some() || own.recovery_check.is_some()) {
        let message = format!(
            "in hold mode markers are compared for each message, and the checks of `{}` would never be asked: leave them \
             out, or leave out `.hold()`",
            own.name
        );
        return refuse(message);
    }
    Ok(())
}

fn check_span(what: &str, span: Span, unit: Measure) -> Result<()> {
    if span.unit() != unit.of_spans() {
        return refuse(format!("`{what}` is measured in {}, the markers in {}", words(span.unit()), words(unit)));
    }
    if span.is_negative() {
        return refuse(format!("`{what}` is {span}: it cannot be negative"));
    }
    Ok(())
}

fn words(unit: Measure) -> &'static str {
    match unit {
        Measure::Time => "time",
        Measure::Length => "durations",
        Measure::Count => "whole numbers",
        Measure::Real => "floating-point numbers",
    }
}

fn check_mode<T>(guard: &Guard<T>) -> Result<()> {
    if !guard.pauses && guard.max_pause.is_some() {
        return refuse(
            "`.max_pause(…)` with `.pause_dependent(false)`: nothing is paused that could last too long; leave one out"
                .into(),
        );
    }
    if guard.mode == Mode::Detect {
        return Ok(());
    }
    if !guard.pauses {
        return refuse(
            "`.hold()` with `.pause_dependent(false)`: a message that does not wait is not held; leave one out".into(),
        );
    }
    if !guard.rewinds {
        return refuse("`.hold()` with `.no_rewind()`: what is held is never rewound; leave `.no_rewind()` out".into());
    }
    Ok(())
}
