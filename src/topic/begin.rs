//! Where reading of a partition begins: pure decisions.

use super::driver::{OutOfRange, Start, Wanted};
use crate::flow::fold::LogEnds;

/// The ends of a partition's log.
pub(crate) type Bounds = LogEnds;

/// Where to begin, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// At the position.
    Position(i64),
    /// There is no position: by the topic's `start`.
    Start(i64),
    /// The log does not have the position; goes on elsewhere by the topic's policy.
    Moved { to: i64, position: i64 },
    /// The log does not have the position, and the policy is to stop.
    Refused { position: i64 },
}

/// Decides for one partition. `is_new`: it was created after we began to read the topic, so that all its records were
/// written since.
pub(crate) fn begin(wanted: &Wanted, position: Option<i64>, bounds: Bounds, is_new: bool) -> Begin {
    match position {
        // Where tables begin is decided at each assignment; later they may miss nothing.
        Some(position) if wanted.folded.is_some() => Begin::Refused { position },
        Some(position) if (bounds.low..=bounds.high).contains(&position) => Begin::Position(position),
        Some(position) => match wanted.out_of_range {
            OutOfRange::Stop => Begin::Refused { position },
            OutOfRange::Earliest => Begin::Moved { to: bounds.low, position },
            OutOfRange::Latest => Begin::Moved { to: bounds.high, position },
        },
        None if is_new => Begin::Start(bounds.low),
        None => Begin::Start(match wanted.start {
            Start::Earliest => bounds.low,
            Start::Latest => bounds.high,
        }),
    }
}

/// What is wrong with a position, in numbers.
pub(crate) fn describe(position: i64, bounds: Bounds) -> String {
    if position < bounds.low {
        let missing = bounds.low - position;
        format!("position {position} is gone: the log begins at {}, {missing} records were deleted unread", bounds.low)
    } else {
        let missing = position - bounds.high;
        format!("position {position} is {missing} beyond the end of the log at {}", bounds.high)
    }
}

/// What is missing inside of a log, in numbers.
#[cfg(feature = "booblik")]
pub(crate) fn describe_gap(position: i64, next: i64, bounds: Bounds) -> String {
    let (last, Bounds { low, high }) = (next - 1, bounds);
    format!("records {position} to {last} are lost by damage, in the middle of the log of {low} to {high}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LOG: Bounds = Bounds { low: 10, high: 20 };

    fn wanted(start: Start, out_of_range: OutOfRange) -> Wanted {
        Wanted { name: Arc::from("t"), start, out_of_range, partitions: None, folded: None }
    }

    #[test]
    fn a_position_inside_the_log_wins_over_start() {
        let wanted = wanted(Start::Latest, OutOfRange::Stop);
        for position in [10, 15, 20] {
            assert_eq!(begin(&wanted, Some(position), LOG, true), Begin::Position(position));
        }
    }

    #[test]
    fn without_a_position_start_decides_and_a_new_partition_is_read_whole() {
        assert_eq!(begin(&wanted(Start::Earliest, OutOfRange::Stop), None, LOG, false), Begin::Start(10));
        assert_eq!(begin(&wanted(Start::Latest, OutOfRange::Stop), None, LOG, false), Begin::Start(20));
        assert_eq!(begin(&wanted(Start::Latest, OutOfRange::Stop), None, LOG, true), Begin::Start(10));
    }

    #[test]
    fn a_position_outside_the_log_follows_its_policy() {
        for position in [9, 21] {
            let at = |policy| begin(&wanted(Start::Earliest, policy), Some(position), LOG, false);
            assert_eq!(at(OutOfRange::Stop), Begin::Refused { position });
            assert_eq!(at(OutOfRange::Earliest), Begin::Moved { to: 10, position });
            assert_eq!(at(OutOfRange::Latest), Begin::Moved { to: 20, position });
        }
        assert!(describe(4, LOG).contains("6 records were deleted unread"));
        assert!(describe(25, LOG).contains("5 beyond the end"));
    }
}
