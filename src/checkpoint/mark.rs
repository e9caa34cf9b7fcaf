//! Markers: how far a message is, on a line that all messages of a checkpoint share.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike as _};

/// What the markers of a checkpoint are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Points in time: thresholds are durations.
    Time,
    /// Durations: so are thresholds.
    Length,
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
#[derive(Clone, Copy)]
pub struct Mark(Value);

#[derive(Clone, Copy)]
enum Value {
    /// Nanoseconds since 1970-01-01.
    Time(i128),
    /// Nanoseconds of a duration: on the same line, and read as what it is.
    Length(i128),
    Count(i128),
    Real(f64),
}

impl Mark {
    pub(super) fn plus(self, span: Span) -> Self {
        Self(match (self.0, span.0) {
            (Value::Time(at), Value::Length(by)) => Value::Time(at.saturating_add(by)),
            (Value::Length(at), Value::Length(by)) => Value::Length(at.saturating_add(by)),
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
            (Value::Time(at) | Value::Length(at), Value::Time(from) | Value::Length(from)) => {
                Value::Length(at.saturating_sub(from))
            }
            (Value::Real(at), Value::Real(from)) => Value::Real(at - from),
            (Value::Count(at), Value::Count(from)) => Value::Count(at.saturating_sub(from)),
            (at, _) => at,
        })
    }

    /// What it is measured in.
    pub(super) fn measure(self) -> Measure {
        match self.0 {
            Value::Length(_) => Measure::Length,
            _ => Span(self.0).unit(),
        }
    }

    /// As a word of a note.
    pub(super) fn encode(self) -> String {
        match self.0 {
            Value::Time(at) => format!("t{at}"),
            Value::Length(at) => format!("d{at}"),
            Value::Count(at) => format!("c{at}"),
            Value::Real(at) => format!("r{:016x}", at.to_bits()),
        }
    }

    pub(super) fn decode(word: &str) -> Option<Self> {
        let digits = word.get(1..)?;
        Some(Self(match word.chars().next()? {
            't' => Value::Time(digits.parse().ok()?),
            'd' => Value::Length(digits.parse().ok()?),
            'c' => Value::Count(digits.parse().ok()?),
            'r' => Value::Real(f64::from_bits(u64::from_str_radix(digits, 16).ok()?)),
            _ => return None,
        }))
    }
}

impl Value {
    fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Time(a) | Self::Length(a), Self::Time(b) | Self::Length(b)) | (Self::Count(a), Self::Count(b)) => {
                a.cmp(&b)
            }
            (Self::Real(a), Self::Real(b)) => a.total_cmp(&b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Time(_) | Self::Length(_) => 0,
            Self::Count(_) => 1,
            Self::Real(_) => 2,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count(at) => at.fmt(f),
            Self::Real(at) => at.fmt(f),
            Self::Time(at) => match i64::try_from(at).map(DateTime::from_timestamp_nanos) {
                Ok(time) => time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true).fmt(f),
                Err(_) => write!(f, "{at} ns"),
            },
            Self::Length(nanos) => match u64::try_from(nanos.unsigned_abs()).map(Duration::from_nanos) {
                Ok(length) => write!(f, "{}{length:?}", if nanos < 0 { "-" } else { "" }),
                Err(_) => write!(f, "{nanos} ns"),
            },
        }
    }
}

macro_rules! on_the_line {
    ($($type:ident)*) => { $(
        /// As people read it: a time, a duration or a number.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        /// As people read it.
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

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
on_the_line!(Mark Span);

/// A distance between markers: a threshold, or how far something is behind.
///
/// ```
/// use std::time::Duration;
/// use slipstream::checkpoint::Span;
///
/// assert_eq!(Span::from(Duration::from_secs(90)).duration(), Some(Duration::from_secs(90)));
/// assert_eq!(Span::from(3).to_string(), "3");
/// ```
#[derive(Clone, Copy)]
pub struct Span(Value);

impl Measure {
    /// What distances are measured in.
    pub(super) fn of_spans(self) -> Self {
        if self == Self::Length { Self::Time } else { self }
    }
}

impl Span {
    /// As [`Measure::of_spans`].
    pub(super) fn unit(self) -> Measure {
        match self.0 {
            Value::Time(_) | Value::Length(_) => Measure::Time,
            Value::Count(_) => Measure::Count,
            Value::Real(_) => Measure::Real,
        }
    }

    pub(super) fn zero(unit: Measure) -> Self {
        Self(match unit {
            Measure::Time | Measure::Length => Value::Length(0),
            Measure::Count => Value::Count(0),
            Measure::Real => Value::Real(0.0),
        })
    }

    pub(super) fn is_negative(self) -> bool {
        match self.0 {
            Value::Time(by) | Value::Length(by) | Value::Count(by) => by < 0,
            Value::Real(by) => by < 0.0 || by.is_nan(),
        }
    }

    pub(super) fn encode(self) -> String {
        Mark(self.0).encode()
    }

    pub(super) fn decode(word: &str) -> Option<Self> {
        let value = Mark::decode(word)?.0;
        // What older versions wrote.
        Some(Self(if let Value::Time(nanos) = value { Value::Length(nanos) } else { value }))
    }

    /// As a duration, where it is a time that is not negative and not longer than 584 years.
    pub fn duration(self) -> Option<Duration> {
        match self.0 {
            Value::Length(nanos) => u64::try_from(nanos).ok().map(Duration::from_nanos),
            _ => None,
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
        Self(Value::Length(nanos(duration)))
    }
}

impl From<TimeDelta> for Span {
    fn from(delta: TimeDelta) -> Self {
        Self(Value::Length(delta_nanos(delta)))
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
    const MEASURE: Measure = Measure::Length;
    fn mark(&self) -> Mark {
        Mark(Value::Length(delta_nanos(*self)))
    }
}

impl Marker for Duration {
    const MEASURE: Measure = Measure::Length;
    fn mark(&self) -> Mark {
        Mark(Value::Length(nanos(*self)))
    }
}

/// How long after midnight.
impl Marker for NaiveTime {
    const MEASURE: Measure = Measure::Length;
    fn mark(&self) -> Mark {
        let seconds = i128::from(self.num_seconds_from_midnight());
        Mark(Value::Length(seconds * 1_000_000_000 + i128::from(self.nanosecond())))
    }
}

/// Numbers that no `i128` can hold count as the highest one.
fn saturated<T>(number: T) -> i128
where
    i128: TryFrom<T>,
{
    i128::try_from(number).unwrap_or(i128::MAX)
}

macro_rules! integers {
    ($convert:path: $($type:ident)*) => { $(
        impl Marker for $type {
            const MEASURE: Measure = Measure::Count;
            fn mark(&self) -> Mark {
                Mark(Value::Count($convert(*self)))
            }
        }

        impl From<$type> for Span {
            fn from(by: $type) -> Self {
                Self(Value::Count($convert(by)))
            }
        }
    )* };
}
integers!(i128::from: i8 i16 i32 i64 i128 u8 u16 u32 u64);
integers!(saturated: isize usize u128);

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
        let lengths =
            [TimeDelta::MIN, -TimeDelta::nanoseconds(1), TimeDelta::zero(), TimeDelta::MAX].map(|own| own.mark());
        for marks in [times.as_slice(), &floats, &counts, &lengths] {
            assert!(marks.windows(2).all(|pair| pair[0] < pair[1]));
            let copy = |mark: &Mark| Mark::decode(&mark.encode()).unwrap();
            assert!(marks.iter().all(|mark| copy(mark) == *mark && copy(mark).to_string() == mark.to_string()));
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

    #[test]
    fn durations_are_read_as_durations_and_lie_on_the_line_of_times() {
        let hours = Duration::from_hours(2).mark();
        assert_eq!((hours.to_string(), hours.measure()), ("7200s".to_owned(), Measure::Length));
        assert_eq!((-TimeDelta::milliseconds(1500)).mark().to_string(), "-1.5s");
        let noon = NaiveTime::from_hms_milli_opt(12, 0, 0, 500).unwrap().mark();
        assert_eq!((noon, noon.to_string()), (Duration::from_millis(43_200_500).mark(), "43200.5s".to_owned()));
        let date = DateTime::UNIX_EPOCH.mark();
        assert_eq!(date.to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(date.plus(hours.since(date)).to_string(), "1970-01-01T02:00:00Z");
        assert_eq!(
            (hours.cmp(&date), hours.plus(Span::from(Duration::from_hours(1)))),
            (Ordering::Greater, Duration::from_hours(3).mark())
        );
        assert_eq!(Mark::decode("t7200000000000"), Some(hours));
    }

    #[test]
    fn spans_are_read_as_durations_whoever_wrote_them() {
        let span = Span::from(Duration::from_mins(90));
        for word in [span.encode(), "t5400000000000".to_owned()] {
            let read = Span::decode(&word).unwrap();
            assert_eq!(
                (read, read.duration(), format!("{read} {read:?}")),
                (span, span.duration(), "5400s 5400s".to_owned())
            );
        }
    }

    #[test]
    fn integers_of_every_width_are_compared_and_the_widest_saturate() {
        assert!((usize::MAX.mark(), isize::MIN.mark()) > (7_u128.mark(), 0_i128.mark()));
        assert_eq!((7_u128.mark(), 7_usize.mark(), (-7_isize).mark()), (7.mark(), 7.mark(), (-7).mark()));
        assert_eq!((u128::MAX.mark(), Span::from(u128::MAX)), (i128::MAX.mark(), Span::from(i128::MAX)));
        assert_eq!(format!("{:?} {:?}", 20.mark(), 1.5.mark()), "20 1.5");
    }
}
