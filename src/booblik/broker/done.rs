//! What a producer asks for and what it is told.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, Kind};
use crate::util::panic_message;

/// Where a batch was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The offset of its first record; the others follow. −1 for [`Acks::None`](crate::booblik::wire::Acks::None).
    pub base_offset: i64,
    /// The offset behind its last record. −1 for [`Acks::None`](crate::booblik::wire::Acks::None).
    pub end_offset: i64,
}

impl Appended {
    pub(super) const UNKNOWN: Self = Self { base_offset: -1, end_offset: -1 };
}

/// Why a batch was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// The queue in front of the writer is full. Nothing was taken; wait for [`Partition::room`](super::Partition::room).
    Full,
    /// A record has no byte. The stored form of such a record is the mark for the end of the log.
    Empty,
    /// A record, or the batch as a whole, is larger than this many bytes.
    TooLarge {
        /// The most that is accepted.
        max_bytes: usize,
    },
    /// The partition cannot write: the disk is full, or an I/O error. Nothing of the batch is in the log. The partition
    /// resumes by itself; see [`Partition::available`](super::Partition::available).
    Unavailable {
        /// The disk is full, rather than broken.
        disk_full: bool,
        /// What the operating system said.
        reason: Arc<str>,
    },
    /// The broker is closed, or was closed before the batch was written.
    Closed,
}

impl AppendError {
    pub(super) fn unavailable(error: &Error) -> Self {
        let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{cause}"));
        Self::Unavailable { disk_full: error.kind() == Kind::DiskFull, reason: cause.into() }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the queue in front of the partition is full"),
            Self::Empty => f.write_str("a record must have at least one byte"),
            Self::TooLarge { max_bytes } => write!(f, "too large: at most {max_bytes} bytes are accepted"),
            Self::Unavailable { reason, .. } => write!(f, "the partition cannot write: {reason}"),
            Self::Closed => f.write_str("the broker is closed"),
        }
    }
}

impl std::error::Error for AppendError {}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        let (kind, retryable) = match &error {
            // Nothing of the kind of `Full` ends a call that can wait: there it is the time that was too short.
            AppendError::Full => (Kind::Timeout, true),
            AppendError::Empty => (Kind::Encode, false),
            AppendError::TooLarge { .. } => (Kind::TooLarge, false),
            AppendError::Unavailable { disk_full: true, .. } => (Kind::DiskFull, true),
            AppendError::Unavailable { disk_full: false, .. } => (Kind::Io, true),
            AppendError::Closed => (Kind::Closed, false),
        };
        let text = Self::new(kind, error.to_string());
        if retryable { text.retryable() } else { text }
    }
}

/// What became of a batch.
pub type Outcome = Result<Appended, AppendError>;

/// Is told what became of batches, by numbers of its own. Called on the thread that writes: it must not wait.
///
/// ```
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// # use slipstream::booblik::broker::{Acknowledge, Acks, Broker, BrokerOptions, Done, Outcome};
/// struct Highest(AtomicU64);
///
/// impl Acknowledge for Highest {
///     fn acknowledge(&self, token: u64, outcome: Outcome) {
///         if outcome.is_ok() {
///             self.0.fetch_max(token, Ordering::Relaxed);
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// # broker.ensure_topic("words", 1).await?;
/// # let words = broker.partition("words", 0)?;
/// let highest = Arc::new(Highest(0.into()));
/// for token in 1..=100 {
///     words.submit(["word"], Acks::Written, Done::Token(highest.clone(), token))?;
/// }
/// broker.close().await?;
/// assert_eq!(highest.0.load(Ordering::Relaxed), 100);
/// # Ok(())
/// # }
/// ```
pub trait Acknowledge: Send + Sync {
    /// The batch with the number `token` was written, or was not.
    fn acknowledge(&self, token: u64, outcome: Outcome);

    /// All batches that were written together have been acknowledged. Called once for each of them: the time to wake
    /// someone up.
    fn group_ended(&self) {}
}

/// Where to say what became of a batch. Each is told exactly once, also when the broker is closed.
///
/// ```
/// use slipstream::booblik::broker::Done;
///
/// let done = Done::call(|outcome| println!("{outcome:?}"));
/// # drop(done);
/// # drop(Done::Nobody);
/// ```
pub enum Done {
    /// Nobody wants to know.
    Nobody,
    /// A receiver elsewhere.
    Send(oneshot::Sender<Outcome>),
    /// A function, called on the thread that writes: it must not wait.
    Call(Box<dyn FnOnce(Outcome) + Send>),
    /// One that is told about many batches, without an allocation for each.
    Token(Arc<dyn Acknowledge>, u64),
}

impl Done {
    /// Calls `f`.
    pub fn call(f: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self::Call(Box::new(f))
    }

    /// Says it. Returns who wants to know when the whole group has been told. A panic of the one who is told is logged:
    /// the others are told all the same.
    pub(super) fn tell(self, outcome: Outcome) -> Option<Arc<dyn Acknowledge>> {
        let told = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Nobody => None,
            Self::Send(sender) => {
                // Whoever asked may have gone: that is not the log's business.
                let _ = sender.send(outcome);
                None
            }
            Self::Call(f) => {
                f(outcome);
                None
            }
            Self::Token(acknowledge, token) => {
                acknowledge.acknowledge(token, outcome);
                Some(acknowledge)
            }
        }));
        told.unwrap_or_else(|panic| {
            tracing::error!("the receiver of an acknowledgement panicked: {}", panic_message(&*panic));
            None
        })
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Done")
    }
}
