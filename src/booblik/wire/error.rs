//! What is wrong with bytes.

use super::{MAX_FRAME_BYTES, MAX_NAME_BYTES};

/// Bytes that are no frame of this protocol, or a request that does not fit one.
///
/// What it says about a stream is final: a connection on which it turns up is of no more use.
///
/// ```
/// use slipstream::booblik::wire::{Frames, WireError};
///
/// let mut frames = Frames::of_responses();
/// frames.feed(&[0xff; 4]);
/// assert_eq!(frames.next(), Err(WireError::FrameLength(-1)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A length that no frame has.
    #[error("a frame of {0} bytes, which is outside of what the protocol allows")]
    FrameLength(i32),
    /// A response ends before it is complete, or goes on after it.
    #[error("the {0} of a response has the wrong length")]
    Body(&'static str),
    /// A request that is larger than a frame may be.
    #[error("a request of {0} bytes does not fit a frame of {MAX_FRAME_BYTES}")]
    TooLarge(usize),
    /// More entries than the format can count.
    #[error("{0} entries are more than a request can count")]
    Count(usize),
    /// A topic name outside of `[A-Za-z0-9._-]{1,249}`.
    #[error("a topic name has 1 to {MAX_NAME_BYTES} letters, digits, dots, dashes and underscores of ASCII")]
    Name,
}
