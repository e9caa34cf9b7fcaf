//! Which segments may go.

use std::time::{Duration, SystemTime};

use super::segment::Segment;

/// How long and how much a partition keeps; nothing goes by default. What goes are whole segments, and never the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Bytes of records.
    pub(crate) bytes: Option<u64>,
    /// Since the youngest record of a segment was written.
    pub(crate) age: Option<Duration>,
}

/// What a segment weighs and when it was last written to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Age {
    pub(super) bytes: u64,
    pub(super) written: Option<SystemTime>,
}

impl Age {
    pub(super) fn of(segment: &Segment) -> Self {
        Self { bytes: segment.bytes(), written: segment.modified().ok() }
    }
}

/// How many of `segments`, oldest first, may go: first by size, then by age.
pub(super) fn expired(segments: &[Age], retention: &Retention, now: SystemTime) -> usize {
    let most = segments.len().saturating_sub(1);
    let mut sum: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut count = 0;
    for segment in segments.iter().take(most) {
        let too_much = retention.bytes.is_some_and(|limit| sum > limit);
        if !too_much && !is_old(segment, retention, now) {
            break;
        }
        sum -= segment.bytes;
        count += 1;
    }
    count
}

fn is_old(segment: &Age, retention: &Retention, now: SystemTime) -> bool {
    let (Some(limit), Some(written)) = (retention.age, segment.written) else { return false };
    now.duration_since(written).is_ok_and(|age| age > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ages(seconds: &[u64]) -> Vec<Age> {
        let at = |second: &u64| SystemTime::UNIX_EPOCH + Duration::from_secs(*second);
        seconds.iter().map(|second| Age { bytes: 100, written: Some(at(second)) }).collect()
    }

    fn count(segments: &[Age], bytes: Option<u64>, age: Option<u64>) -> usize {
        let retention = Retention { bytes, age: age.map(Duration::from_secs) };
        expired(segments, &retention, SystemTime::UNIX_EPOCH + Duration::from_secs(100))
    }

    #[test]
    fn without_limits_everything_stays() {
        assert_eq!(count(&ages(&[0, 0, 0]), None, None), 0);
    }

    #[test]
    fn by_size_the_oldest_go_until_the_rest_fits() {
        assert_eq!(count(&ages(&[0, 0, 0, 0]), Some(250), None), 2);
        assert_eq!(count(&ages(&[0, 0, 0, 0]), Some(400), None), 0);
    }

    #[test]
    fn by_age_the_first_young_one_ends_it() {
        assert_eq!(count(&ages(&[10, 95, 10, 100]), None, Some(20)), 1);
        assert_eq!(count(&ages(&[80, 90]), None, Some(20)), 0);
    }

    #[test]
    fn the_last_one_stays_whatever_its_size_and_age() {
        assert_eq!(count(&ages(&[0]), Some(0), Some(1)), 0);
        assert_eq!(count(&ages(&[0, 0]), Some(0), Some(1)), 1);
    }
}
