//! Where a consumer begins, and where it goes on when the log does not have its position.

use super::Client;
use super::error::{ClientError, Place};
use crate::booblik::wire::{ErrorCode, PartitionInfo};

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Start {
    /// With the oldest record that is stored.
    #[default]
    Earliest,
    /// With the next record that is written.
    Latest,
    /// With this offset.
    At(i64),
}

/// What a consumer does when its position is outside of the log, or in a part of it that the broker has lost.
///
/// Behind lost records [`Earliest`](Self::Earliest) and [`Latest`](Self::Latest) do the same: both go on with the first
/// record that is still there, and leave out nothing that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OutOfRange {
    /// Fails with [`ClientError::OutOfRange`], which tells on which side: records were lost to retention, or the log is
    /// another one than it was; or with [`ClientError::Gap`]. The default.
    #[default]
    Stop,
    /// Goes on with the oldest record that is stored, and logs a warning.
    Earliest,
    /// Goes on with the next record that is written, and logs a warning.
    Latest,
}

/// What to do after a position was refused.
pub(super) enum Step {
    /// Ask again: the log has it now.
    Again,
    /// Go on here, behind a lost record.
    Behind(i64),
    /// Go on here, inside of the log.
    Into(i64),
}

/// Decides that for the position `offset`. `is_again`: it was refused before although the log had it.
pub(super) async fn step(
    client: &Client,
    place: &Place,
    offset: i64,
    is_again: bool,
    policy: OutOfRange,
) -> Result<Step, ClientError> {
    let info = describe(client, place).await?;
    let PartitionInfo { log_start_offset, high_watermark, .. } = info;
    if (log_start_offset..high_watermark).contains(&offset) {
        return match policy {
            // It may have been written since.
            _ if !is_again => Ok(Step::Again),
            OutOfRange::Stop => Err(ClientError::Gap { place: place.clone(), offset, next: None }),
            OutOfRange::Earliest | OutOfRange::Latest => Ok(Step::Behind(offset + 1)),
        };
    }
    let to = match policy {
        OutOfRange::Earliest => log_start_offset,
        OutOfRange::Latest => high_watermark,
        OutOfRange::Stop => offset,
    };
    if to == offset {
        return Err(ClientError::OutOfRange { place: place.clone(), offset, log_start_offset, high_watermark });
    }
    tracing::warn!(%place, offset, log_start_offset, high_watermark, "position moved into the log");
    Ok(Step::Into(to))
}

/// Where the log of a partition begins and ends.
pub(super) async fn describe(client: &Client, place: &Place) -> Result<PartitionInfo, ClientError> {
    let described = client.metadata(&[&place.topic]).await?;
    let mut partitions =
        described.iter().filter(|topic| *topic.name == *place.topic).flat_map(|topic| &topic.partitions);
    let own = partitions.find(|info| Some(info.partition) == place.partition).copied();
    let unknown = ErrorCode::UnknownTopicOrPartition;
    own.ok_or_else(|| ClientError::Refused { code: unknown, place: Some(place.clone()) })
}
