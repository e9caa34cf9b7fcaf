//! Topics that are no dependency of a checkpoint themselves, but what handlers of the app fill one from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::open::OpenTopic;
use crate::error::{Error, Kind, Result};
use crate::flow::{Env, NodeId};

/// For such a topic: the dependency that it fills, and the checkpoint that compares with that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fills {
    pub dependency: NodeId,
    pub checkpoint: Arc<str>,
}

/// Those of an app that has not promised to be alone.
pub(crate) type AllFills = BTreeMap<NodeId, Fills>;

const ALL: &str = "what topics fill";

/// Remembers them for topics that are opened.
pub(crate) fn remember(all: AllFills, env: &Env) -> Result<()> {
    env.single(ALL, || Ok(Arc::new(all))).map(drop)
}

/// Each member of a group would compare with what it made of its part. `is_shared`: other apps can be members too.
pub(super) fn check(open: &OpenTopic, topic: &NodeId, is_shared: bool, env: &Env) -> Result<()> {
    let all = env.single(ALL, || Ok(Arc::new(AllFills::new())))?;
    let Some(Fills { dependency, checkpoint }) = all.get(topic).filter(|_| is_shared) else { return Ok(()) };
    let message = format!(
        "handlers fill {dependency} from it, which checkpoint {checkpoint} depends on, but it is shared with the other \
         members of the group `{}`, so that each has a part of {dependency} only: declare it `.broadcast()`, so that every \
         member reads all of it, or promise `.single_member()` on the checkpoint",
        open.settings.group_id()
    );
    Err(Error::new(Kind::Build, message).at(format!("topic {}", open.settings.declared_name())))
}
