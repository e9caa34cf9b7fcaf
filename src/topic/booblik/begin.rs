//! Where reading a partition begins, and whether the log is still the one that was read before.

use std::sync::Arc;

use super::log::{Log, Reader as _};
use super::place;
use crate::error::{Error, Kind, Result};
use crate::message::Record;
use crate::topic::begin::{Begin, Bounds, begin, describe};
use crate::topic::driver::{Kept, SeekTo, Wanted};

/// Where to begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct From {
    pub offset: i64,
    pub committed: Option<i64>,
}

/// Decides by the position, else by the topic's `start`; looks whether the record before the position is the one that
/// was read.
///
/// Errors: `Kind::OutOfRange` for another log than the one that was read, and for a position outside of it when the
/// policy is to stop.
pub(super) async fn find<L: Log>(
    log: &L,
    wanted: &Wanted,
    partition: i32,
    bounds: Bounds,
    kept: Option<&Kept>,
    is_new: bool,
) -> Result<From> {
    let name = place(&wanted.name, partition);
    let verified = match kept {
        Some(kept) => verify(log, bounds, kept).await,
        None => Ok(()),
    };
    let committed = kept.map(|kept| kept.next);
    if wanted.folded.is_some() {
        // A position in another log says nothing; whether it is another one to the tables, they find out.
        let committed = committed.filter(|_| verified.is_ok());
        let offset = wanted.folded_from(partition, committed, bounds).unwrap_or(bounds.low);
        return Ok(From { offset, committed });
    }
    verified?;
    match begin(wanted, committed, bounds, is_new) {
        Begin::Position(offset) | Begin::Start(offset) => Ok(From { offset, committed }),
        Begin::Moved { to, position } => {
            tracing::error!(topic = &*wanted.name, partition, to, "{}", describe(position, bounds));
            Ok(From { offset: to, committed })
        }
        Begin::Refused { position } => {
            let text =
                format!("{}; choose where to go on by the topic's out-of-range policy", describe(position, bounds));
            Err(Error::new(Kind::OutOfRange, text).at(name))
        }
    }
}

/// The record before the position must be the one that was read, if it is there.
async fn verify<L: Log>(log: &L, bounds: Bounds, kept: &Kept) -> Result<()> {
    let last = kept.next - 1;
    let Some(expected) = kept.crc.filter(|_| (bounds.low..bounds.high).contains(&last)) else { return Ok(()) };
    match log.crc(&kept.topic, kept.partition, last).await? {
        Some(found) if found != expected => Err(replaced(kept, expected, found)),
        _ => Ok(()),
    }
}

fn replaced(kept: &Kept, expected: u32, found: u32) -> Error {
    let text = format!(
        "the log was replaced: record {} has the checksum {found:08x}, the one that was read had {expected:08x}. Bring \
         the log back, or remove the app's file of positions to begin anew",
        kept.next - 1
    );
    Error::new(Kind::OutOfRange, text).at(place(&kept.topic, kept.partition))
}

/// The offset that a seek goes to.
///
/// Errors: `Kind::Seek` for one outside of the log.
pub(super) async fn resolve<L: Log>(
    log: &L,
    topic: &Arc<str>,
    partition: i32,
    bounds: Bounds,
    to: SeekTo,
) -> Result<i64> {
    let refuse = |message: String| Err(Error::new(Kind::Seek, message).at(place(topic, partition)));
    match to {
        SeekTo::Beginning => Ok(bounds.low),
        SeekTo::End => Ok(bounds.high),
        SeekTo::Time(millis) if millis < 0 => refuse(format!("{millis} ms is before 1970")),
        SeekTo::Time(millis) => at_time(log, topic, partition, bounds, millis).await,
        SeekTo::Offset(offset) if (bounds.low..=bounds.high).contains(&offset) => Ok(offset),
        SeekTo::Offset(offset) => refuse(format!("offset {offset}: the log has {} to {}", bounds.low, bounds.high)),
    }
}

/// Records that are looked at in one step.
const STEP_RECORDS: usize = 4096;

/// The first record whose timestamp is not before `millis`, found by reading from the beginning: times lie in the
/// records and may come in any order.
async fn at_time<L: Log>(log: &L, topic: &Arc<str>, partition: i32, bounds: Bounds, millis: i64) -> Result<i64> {
    let mut reader = log.reader(topic, partition, bounds.low).await?;
    let mut records = Vec::new();
    while reader.position() < bounds.high {
        reader.next(&mut records, STEP_RECORDS).await?;
        let is_late = |record: &Record| record.timestamp.millis().is_some_and(|made| made >= millis);
        if let Some(found) = records.iter().find(|record| is_late(record)) {
            return Ok(found.offset.min(bounds.high));
        }
        records.clear();
        tokio::task::yield_now().await;
    }
    Ok(bounds.high)
}
