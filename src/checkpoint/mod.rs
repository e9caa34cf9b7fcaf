//! Checkpoints: a source that notices when another falls behind, waits for it, and corrects itself.

mod args;
mod bound;
mod check;
mod check_plan;
mod core;
mod declare;
mod keeper;
mod keeping;
mod machine;
mod mark;
mod note;
mod outage;
mod pending;
mod plan;
mod record;
mod status;
mod tap;
mod watched;
mod watermark;

pub use args::CheckpointHandle;
pub use check::{DowntimeAnswer, Gap, RecoveryAnswer};
pub use declare::Checkpoint;
pub use mark::{Mark, Marker, Measure, Span};
pub use outage::{Downtime, Lag, Outage, Snapshot};
pub use plan::{AtLimit, Begin, CallbackReturn, Dependency, Guard};
pub use status::{Counts, DependencyStatus, Doing, Status};
