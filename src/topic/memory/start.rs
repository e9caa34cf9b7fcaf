//! Where reading a partition begins.

use super::assign::Tp;
use super::log::PartitionLog;
use crate::error::{Error, Kind, Result};
use crate::flow::fold::LogEnds;
use crate::message::place;
use crate::topic::driver::{OutOfRange, Start, Wanted};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub from: i64,
    /// The group's position was out of range and has been replaced.
    pub reset: bool,
}

/// Decides by the group's position, else by `start`.
///
/// Errors: `Kind::OutOfRange` when the log does not have the position and the policy is to stop.
pub(super) fn begin(tp: &Tp, log: &PartitionLog, committed: Option<i64>, wanted: &Wanted) -> Result<Begin> {
    let ends = LogEnds { low: log.start(), high: log.end() };
    if let Some(from) = wanted.folded_from(tp.1, committed, ends) {
        return Ok(Begin { from, reset: false });
    }
    let Some(next) = committed else {
        let from = match wanted.start {
            Start::Earliest => log.start(),
            Start::Latest => log.end(),
        };
        return Ok(Begin { from, reset: false });
    };
    if log.covers(next) {
        return Ok(Begin { from: next, reset: false });
    }
    let at = place(&tp.0, tp.1, next);
    let (start, end) = (log.start(), log.end());
    let from = match wanted.out_of_range {
        OutOfRange::Stop => {
            let message = format!("the position is outside the log, which has {start} to {end}");
            return Err(Error::new(Kind::OutOfRange, message).at(at));
        }
        OutOfRange::Earliest => start,
        OutOfRange::Latest => end,
    };
    let records = from.abs_diff(next);
    tracing::error!(position = %at, start, end, from, records, "the position is outside the log: reading goes on elsewhere");
    Ok(Begin { from, reset: true })
}

#[cfg(test)]
mod tests {
    use super::super::log::TopicLog;
    use super::*;
    use crate::message::Record;

    fn begins(committed: Option<i64>, start: Start, out_of_range: OutOfRange) -> Result<Begin> {
        let mut topic = TopicLog::new(1);
        for _ in 0..6 {
            topic.append(0, Record::default());
        }
        topic.trim(&[2]);
        let wanted = Wanted { name: "t".into(), start, out_of_range, partitions: None, folded: None };
        begin(&("t".into(), 0), topic.partition(0).unwrap(), committed, &wanted)
    }

    #[test]
    fn a_position_wins_over_start() {
        let at = |committed| begins(committed, Start::Latest, OutOfRange::Stop).unwrap();
        assert_eq!(at(Some(3)), Begin { from: 3, reset: false });
        assert_eq!(at(Some(6)), Begin { from: 6, reset: false }, "the end is in range");
        assert_eq!(at(None), Begin { from: 6, reset: false });
        let earliest = begins(None, Start::Earliest, OutOfRange::Stop).unwrap();
        assert_eq!(earliest, Begin { from: 2, reset: false });
    }

    #[test]
    fn a_position_that_the_log_does_not_have_goes_by_the_policy() {
        for outside in [1, 7] {
            let stop = begins(Some(outside), Start::Earliest, OutOfRange::Stop).unwrap_err();
            assert_eq!(stop.kind(), Kind::OutOfRange);
            let earliest = begins(Some(outside), Start::Latest, OutOfRange::Earliest).unwrap();
            assert_eq!(earliest, Begin { from: 2, reset: true });
            let latest = begins(Some(outside), Start::Earliest, OutOfRange::Latest).unwrap();
            assert_eq!(latest, Begin { from: 6, reset: true });
        }
    }
}
