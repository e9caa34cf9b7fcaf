//! Where a partition's rows go on: pure decisions.

use crate::flow::fold::LogEnds;

/// Why rows cannot be brought up to date from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Records behind the position were deleted before they were read.
    Gone { position: i64, ends: LogEnds },
    /// There are no rows, and the log does not go back to its beginning.
    Headless { ends: LogEnds },
    /// The log ends before the position.
    Beyond { position: i64, ends: LogEnds },
}

/// The offset that the rows go on at.
pub(super) fn start(position: Option<i64>, ends: LogEnds) -> Result<i64, Refusal> {
    match position {
        Some(position) if position < ends.low => Err(Refusal::Gone { position, ends }),
        Some(position) if position > ends.high => Err(Refusal::Beyond { position, ends }),
        Some(position) => Ok(position),
        None if ends.low > 0 => Err(Refusal::Headless { ends }),
        None => Ok(ends.low),
    }
}

/// The group's commit as far as this log knows of it: one beyond its end is of another log.
pub(super) fn valid_commit(committed: Option<i64>, ends: LogEnds) -> Option<i64> {
    committed.filter(|committed| *committed <= ends.high)
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone { position, ends } => write!(
                f,
                "the rows are as of offset {position}, but the log begins at {}: {} records were deleted unread",
                ends.low,
                ends.low - position
            ),
            Self::Headless { ends } => {
                write!(
                    f,
                    "there are no rows here yet, and the log begins at {}: what was before cannot be counted",
                    ends.low
                )
            }
            Self::Beyond { position, ends } => write!(
                f,
                "the rows are as of offset {position}, which is {} beyond the end of the log at {}: the log was replaced or cut off",
                position - ends.high,
                ends.high
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogEnds = LogEnds { low: 10, high: 20 };

    #[test]
    fn a_position_inside_the_log_goes_on_there() {
        for position in [10, 15, 20] {
            assert_eq!(start(Some(position), LOG), Ok(position));
        }
        assert_eq!(start(None, LogEnds { low: 0, high: 20 }), Ok(0));
    }

    #[test]
    fn what_the_log_cannot_give_is_refused() {
        assert_eq!(start(Some(9), LOG), Err(Refusal::Gone { position: 9, ends: LOG }));
        assert_eq!(start(Some(21), LOG), Err(Refusal::Beyond { position: 21, ends: LOG }));
        assert_eq!(start(None, LOG), Err(Refusal::Headless { ends: LOG }));
    }

    #[test]
    fn a_commit_beyond_the_end_is_of_another_log() {
        assert_eq!(valid_commit(Some(20), LOG), Some(20));
        assert_eq!(valid_commit(Some(5), LOG), Some(5));
        assert_eq!(valid_commit(Some(21), LOG), None);
    }
}
