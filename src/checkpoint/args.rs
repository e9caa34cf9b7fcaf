//! What a handler of the dependent can ask for, and the handle on a checkpoint.

use std::sync::Arc;

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

/// What the checkpoint says that the handler is bound to; all of them, of a handler that is bound to their source itself.
fn seen(unit: &UnitCx) -> impl Iterator<Item = &Seen> {
    let all = unit.seen().iter().filter_map(|view| view.downcast_ref::<Seen>());
    all.filter(|seen| unit.bound().is_none_or(|own| **own == *seen.handle.0.name))
}

impl Argument for Option<Downtime> {
    type Prepared = ();

    fn prepare(_env: &Env, _handler: &Arc<str>) -> Result<()> {
        Ok(())
    }

    fn get((): &(), unit: &UnitCx) -> Self {
        Downtime::all(seen(unit).filter_map(|seen| seen.downtime.as_ref()))
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
        self.0.override_pause()
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
        // Of several the first that has something to say.
        let is_behind = |seen: &&Seen| seen.downtime.is_some();
        seen(unit).find(is_behind).or_else(|| seen(unit).next()).map(|seen| seen.handle.clone())
    }
}
