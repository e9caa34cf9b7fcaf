//! A stream of bytes cut into frames.

use bytes::{Buf as _, Bytes, BytesMut};

use super::{LENGTH_BYTES, MAX_FRAME_BYTES, RESPONSE_HEADER_BYTES, WireError};

/// The room that is made for a read: many small frames come in with one call.
const READ_BYTES: usize = 64 << 10;
/// The room that the side that asks makes for an answer it asked for, before more of it than this has arrived.
const ANSWER_BYTES: usize = 1 << 20;

/// Collects bytes as they arrive, in whatever pieces, and gives out whole frames without their length.
///
/// What it holds is bounded by what has arrived, not by what a length announces: [`space`](Self::space) makes room for
/// 64 KiB more (1 MiB for an answer), and for as much again as has come of a frame that does go on.
///
/// A frame is a slice of the buffer. It may be kept; the memory it was read into is then kept with it.
///
/// ```
/// use slipstream::booblik::wire::Frames;
///
/// let mut frames = Frames::of_requests();
/// for byte in [0, 0, 0, 2, b'h', b'i', 0, 0] {
///     frames.feed(&[byte]);
/// }
/// assert_eq!(frames.next()?.as_deref(), Some(&b"hi"[..]));
/// assert_eq!(frames.next()?, None);
/// assert!(frames.has_partial(), "half of a length");
/// assert_eq!(frames.frame_bytes(), 0, "not known yet");
/// # Ok::<(), slipstream::booblik::wire::WireError>(())
/// ```
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    min_bytes: usize,
    read_bytes: usize,
}

impl Frames {
    /// For the side that answers: frames of 1 to 8,388,608 bytes.
    pub fn of_requests() -> Self {
        Self { buffer: BytesMut::new(), min_bytes: 1, read_bytes: READ_BYTES }
    }

    /// For the side that asks: frames of 6 to 8,388,608 bytes.
    pub fn of_responses() -> Self {
        Self { buffer: BytesMut::new(), min_bytes: RESPONSE_HEADER_BYTES, read_bytes: ANSWER_BYTES }
    }

    /// Where to read into, for example with `read_buf`; it has room.
    pub fn space(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 4 {
            let trusted = self.buffer.len().max(self.read_bytes);
            self.buffer.reserve(self.missing_bytes().min(trusted).max(READ_BYTES));
        }
        &mut self.buffer
    }

    /// What the frame that has begun still lacks, as far as its length is one; 0 when that is not here yet.
    fn missing_bytes(&self) -> usize {
        let Some(head) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return 0 };
        let length = (u32::from_be_bytes(*head) as usize).min(MAX_FRAME_BYTES);
        (LENGTH_BYTES + length).saturating_sub(self.buffer.len())
    }

    /// The bytes of the frame that has begun, with its length; 0 when that is not here yet.
    pub fn frame_bytes(&self) -> usize {
        match self.missing_bytes() {
            0 => 0,
            missing => self.buffer.len() + missing,
        }
    }

    /// Adds bytes that were read elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, without its length; `None` until all of it is here.
    ///
    /// # Errors
    ///
    /// [`WireError::FrameLength`] as soon as the length itself is here. Nothing that follows can be read then.
    #[expect(clippy::should_implement_trait, reason = "it goes on after `None`, and can fail")]
    pub fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        let Some(head) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let announced = i32::from_be_bytes(*head);
        let length = usize::try_from(announced).unwrap_or(0);
        if !(self.min_bytes..=MAX_FRAME_BYTES).contains(&length) {
            return Err(WireError::FrameLength(announced));
        }
        if self.buffer.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Whether a frame has begun and is not complete: an end of the stream here is a cut.
    pub fn has_partial(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The bytes that are held for frames to come.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }
}
