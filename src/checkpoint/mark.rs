//! Markers: how far a message is, on a line that all messages of a checkpoint share.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone};

/// What the markers of a checkpoint are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Time: thresholds are durations.
    Time,
    /// Whole numbers.
    Count,
    /// Floating-point numbers, in total order.
    Real,
}

/// How far a message is: what a checkpoint compares. Implemented for the times of chrono, durations, integers and
/// floats; for a type of your own, say what it is measured in and give the mark of what it wraps.
///
/// ```
/// use slipstream::checkpoint::{Mark, Marker, Measure};
///
/// struct Version(u32);
///
/// impl Marker for Version {
///     const MEASURE: Measure = Measure::Count;
///     fn mark(&self) -> Mark {
///         self.0.mark()
///     }
/// }
/// assert!(Version(3).mark() > Version(2).mark());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a marker",
    note = "a marker is a time of chrono, a duration, an integer, a float, or a type of yours that implements `Marker`"
)]
pub trait Marker: 'static {
    /// What it is measured in.
    const MEASURE: Measure;
    /// Where it is on the line.
    fn mark(&self) -> Mark;
}

/// A place on the line that markers are compared on; made by [`Marker::mark`].
#[derive(Debug, Clone, Copy)]
pub struct Mark(Value);

#[derive(Debug, Clone, Copy)]
enum Value {
    /// Nanoseconds since 1970-01-01, or of a duration.
    Time(i128),
    Count(i128),
    Real(f64),
}

impl Mark {
    pub(super) fn plus(self, span: Span) -> Self {
        Self(match (self.0, span.0) {
            (Value::Time(at), Value::Time(by)) => Value::Time(at.saturating_add(by)),
            (Value::Count(at), Value::Count(by)) => Value::Count(at.saturating_add(by)),
            // Not what addition makes of -0.0.
            (Value::Real(_), Value::Real(0.0)) => self.0,
            (Value::Real(at), Value::Real(by)) => Value::Real(at + by),
            // Units were compared when the app was built.
            (at, _) => at,
        })
    }

    /// How far it is ahead of `other`.
    pub(super) fn since(self, other: Self) -> Span {
        Span(match (self.0, other.0) {
            (Value::Time(at), Value::Time(from)) => Value::Time(at.saturating_sub(from)),
            (Value::Real(at), Value::Real(from)) => Value::Real(at - from),
            (Value::Count(at), Value::Count(from)) => Value::Count(at.saturating_sub(from)),
            (at, _) => at,
        })
    }

    /// What it is measured in.
    pub(super) fn measure(self) -> Measure {
        Span(self.0).unit()
    }

    /// As a word of a note.
    pub(super) fn encode(self) -> String {
        match self.0 {
            Value::Time(at) => format!("t{at}"),
            Value::Count(at) => format!("c{at}"),
            Value::Real(at) => format!("r{:016x}", at.to_bits()),
        }
    }

    pub(super) fn decode(word: &str) -> Option<Self> {
        let digits = word.get(1..)?;
        Some(Self(match word.chars().next()? {
            't' => Value::Time(digits.parse().ok()?),
            'c' => Value::Count(digits.parse().ok()?),
            'r' => Value::Real(f64::from_bits(u64::from_str_radix(digits, 16).ok()?)),
            _ => return None,
        }))
    }
}

impl Value {
    fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Time(a), Self::Time(b)) | (Self::Count(a), Self::Count(b)) => a.cmp(&b),
            (Self::Real(a), Self::Real(b)) => a.total_cmp(&b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Time(_) => 0,
            Self::Count(_) => 1,
            Self::Real(_) => 2,
        }
    }
}

macro_rules! ordered {
    ($($type:ident)*) => { $(
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Ordering::Equal
            }
        }

        impl Eq for $type {}

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.order(other.0)
            }
        }
    )* };
}
ordered!(Mark Span);

/// The mark as people read it: a time, or a number.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Count(at) => at.fmt(f),
            Value::Real(at) => at.fmt(f),
            Value::Time(at) => match i64::try_from(at).map(DateTime::from_timestamp_nanos) {
                Ok(time) => time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true).fmt(f),
                Err(_) => write!(f, "{at} ns"),
            },
        }
    }
}

/// A distance between markers: a threshold, or how far something is behind.
///
/// ```
/// use std::time::Duration;
/// use slipstream::checkpoint::Span;
///
/// assert_eq!(Span::from(Duration::from_secs(90)).duration(), Some(Duration::from_secs(90)));
/// assert_eq!(Span::from(3).to_string(), "3");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Span(Value);

impl Span {
    pub(super) fn unit(self) -> Measure {
        match self.0 {
            Value::Time(_) => Measure::Time,
            Value::Count(_) => Measure::Count,
            Value::Real(_) => Measure::Real,
        }
    }

    pub(super) fn zero(unit: Measure) -> Self {
        Self(match unit {
            Measure::Time => Value::Time(0),
            Measure::Count => Value::Count(0),
            Measure::Real => Value::Real(0.0),
        })
    }

    pub(super) fn is_negative(self) -> bool {
        match self.0 {
            Value::Time(by) | Value::Count(by) => by < 0,
            Value::Real(by) => by < 0.0 || by.is_nan(),
        }
    }

    pub(super) fn encode(self) -> String {
        Mark(self.0).encode()
    }

    pub(super) fn decode(word: &str) -> Option<Self> {
        Mark::decode(word).map(|mark| Self(mark.0))
    }

    /// As a duration, where it is a time that is not negative and not longer than 584 years.
    pub fn duration(self) -> Option<Duration> {
        match self.0 {
            Value::Time(nanos) => u64::try_from(nanos).ok().map(Duration::from_nanos),
            _ => None,
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.duration()) {
            (_, Some(duration)) => write!(f, "{duration:?}"),
            (Value::Time(nanos), None) => write!(f, "{nanos} ns"),
            (Value::Count(by), None) => by.fmt(f),
            (Value::Real(by), None) => by.fmt(f),
        }
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

fn delta_nanos(delta: TimeDelta) -> i128 {
    i128::from(delta.num_seconds()) * 1_000_000_000 + i128::from(delta.subsec_nanos())
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(Value::Time(nanos(duration)))
    }
}

impl From<TimeDelta> for Span {
    fn from(delta: TimeDelta) -> Self {
        Self(Value::Time(delta_nanos(delta)))
    }
}

impl<Tz: TimeZone + 'static> Marker for DateTime<Tz> {
    const MEASURE: Measure = Measure::Time;
    fn mark(&self) -> Mark {
        self.naive_utc().mark()
    }
}

impl Marker for NaiveDateTime {
    const MEASURE: Measure = Measure::Time;
    fn mark(&self) -> Mark {
        let utc = self.and_utc();
        Mark(Value::Time(i128::from(utc.timestamp()) * 1_000_000_000 + i128::from(utc.timestamp_subsec_nanos())))
    }
}

impl Marker for NaiveDate {
    const MEASURE: Measure = Measure::Time;
    fn mark(&self) -> Mark {
        self.and_time(chrono::NaiveTime::MIN).mark()
    }
}

impl Marker for TimeDelta {
    const MEASURE: Measure = Measure::Time;
    fn mark(&self) -> Mark {
        Mark(Value::Time(delta_nanos(*self)))
    }
}

impl Marker for Duration {
    const MEASURE: Measure = Measure::Time;
    fn mark(&self) -> Mark {
        Mark(Value::Time(nanos(*self)))
    }
}

macro_rules! integers {
    ($($type:ident)*) => { $(
        impl Marker for $type {
            const MEASURE: Measure = Measure::Count;
            fn mark(&self) -> Mark {
                Mark(Value::Count(i128::from(*self)))
            }
        }

        impl From<$type> for Span {
            fn from(by: $type) -> Self {
                Self(Value::Count(i128::from(by)))
            }
        }
    )* };
}
integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

macro_rules! floats {
    ($($type:ident)*) => { $(
        impl Marker for $type {
            const MEASURE: Measure = Measure::Real;
            fn mark(&self) -> Mark {
                Mark(Value::Real(f64::from(*self)))
            }
        }

        impl From<$type> for Span {
            fn from(by: $type) -> Self {
                Self(Value::Real(f64::from(by)))
            }
        }
    )* };
}
floats!(f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_ordered_as_what_they_stand_for_and_survive_a_note() {
        let times =
            ["1900-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z", "9999-01-01T00:00:00Z"]
                .map(|text| text.parse::<DateTime<chrono::Utc>>().unwrap().mark());
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, f64::INFINITY].map(|value| value.mark());
        let counts = [i64::MIN, -1, 0, i64::MAX].map(|value| value.mark());
        for marks in [times.as_slice(), &floats, &counts] {
            assert!(marks.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(marks.iter().all(|mark| Mark::decode(&mark.encode()) == Some(*mark)));
        }
        assert!(["", "t", "x1", "tx", "r1g"].iter().all(|word| Mark::decode(word).is_none()));
    }

    #[test]
    fn nothing_added_is_the_same_mark() {
        let zero = Span::zero(Measure::Real);
        assert!([-0.0, 0.0, -1.5, f64::NAN, f64::INFINITY].iter().all(|at| at.mark().plus(zero) == at.mark()));
    }

    #[test]
    fn distances_do_not_wrap() {
        assert_eq!(i128::MAX.mark().plus(Span::from(1)), i128::MAX.mark());
        assert_eq!(i128::MIN.mark().since(1.mark()), Span::from(i128::MIN));
        assert_eq!(
            Duration::MAX.mark().plus(Span::from(Duration::MAX)).since(Duration::MAX.mark()),
            Span::from(Duration::MAX)
        );
    }
}
