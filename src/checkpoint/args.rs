//! What a handler of the dependent can ask for, and the handle on a checkpoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::outage::Downtime;
use super::status::{self, Status};
use crate::error::Result;
use crate::flow::{Env, UnitCx};
use crate::handler::Argument;

/// What a message of the dependent carries for its handlers.
pub(crate) struct Seen {
    pub handle: CheckpointHandle,
    pub downtime: Option<Downtime>,
}

fn seen(unit: &UnitCx) -> Option<&Seen> {
    unit.view()?.downcast_ref()
}

impl Argument for Option<Downtime> {
    type Prepared = ();

    fn prepare(_env: &Env, _handler: &Arc<str>) -> Result<()> {
        Ok(())
    }

    fn get((): &(), unit: &UnitCx) -> Self {
        seen(unit)?.downtime.clone()
    }
}

/// A handle on a checkpoint of a running app. A handler asks for it as `Option<CheckpointHandle>`: `None` when its
/// message does not come from the dependent of a checkpoint.
///
/// ```
/// use slipstream::CheckpointHandle;
///
/// fn late(handle: Option<CheckpointHandle>) -> bool {
///     handle.is_some_and(|handle| handle.status().dependencies.iter().any(|dependency| dependency.is_down))
/// }
/// assert!(!late(None));
/// ```
#[derive(Clone)]
pub struct CheckpointHandle(Arc<Core>);

impl CheckpointHandle {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self(Arc::clone(core))
    }

    /// The checkpoint's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        status::of(&self.0)
    }

    /// The state that [`state`](super::Guard::state) made last; `None` before the first message, and for another type.
    pub fn state<T: Clone + 'static>(&self) -> Option<T> {
        self.0.look(|machine| machine.state().and_then(|state| state.downcast_ref::<T>()).cloned())
    }

    /// Ends the present pause although dependencies are down; true when there was one. What is handled from now on may be
    /// wrong; in detect mode it is corrected when they recover.
    pub fn resume_anyway(&self) -> bool {
        let was_paused = self.0.change(|machine, _| machine.override_pause());
        self.0.counters.overrides.fetch_add(u64::from(was_paused), Ordering::Relaxed);
        was_paused
    }
}

impl std::fmt::Debug for CheckpointHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointHandle").field("status", &self.status()).finish()
    }
}

impl Argument for Option<CheckpointHandle> {
    type Prepared = ();

    fn prepare(_env: &Env, _handler: &Arc<str>) -> Result<()> {
        Ok(())
    }

    fn get((): &(), unit: &UnitCx) -> Self {
        Some(seen(unit)?.handle.clone())
    }
}
