//! What is told of an outage: to handlers while it lasts, to callbacks when it begins and ends.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::mark::{Mark, Span};
use crate::codec::DefaultCodec;
use crate::error::Result;

/// Any state that the user keeps with a checkpoint.
pub(crate) type State = Arc<dyn Any + Send + Sync>;

/// How a state of some type is written down and read again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateCodec {
    pub encode: fn(&State) -> Result<Option<Bytes>>,
    pub decode: fn(&Bytes) -> Result<State>,
}

impl StateCodec {
    pub(super) fn of<St: DefaultCodec + Send + Sync>() -> Self {
        let encode = |state: &State| match state.downcast_ref::<St>() {
            Some(state) => St::CODEC.encode_nullable(state),
            None => Ok(None),
        };
        Self { encode, decode: |bytes| Ok(Arc::new(St::CODEC.decode(bytes)?)) }
    }
}

/// How far a dependency is behind a message.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lag {
    /// By this much.
    By(Span),
    /// It has no marker yet.
    Unknown,
    /// No longer beyond its threshold, but not caught up either.
    Recovering,
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(span) => span.fmt(f),
            Self::Unknown => f.write_str("no marker yet"),
            Self::Recovering => f.write_str("recovering"),
        }
    }
}

/// As people read it.
impl fmt::Debug for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which dependencies a message is ahead of, and how far. A handler asks for it as `Option<Downtime>`: `None` when the
/// message has everything that it depends on.
///
/// ```
/// use slipstream::checkpoint::{Downtime, Lag};
///
/// fn label(downtime: Option<&Downtime>) -> String {
///     match downtime {
///         Some(downtime) => format!("late: {}", downtime.iter().map(|(name, lag)| format!("{name} {lag}")).collect::<String>()),
///         None => "fine".to_owned(),
///     }
/// }
/// assert_eq!(label(None), "fine");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Downtime(Arc<BTreeMap<Arc<str>, Lag>>);

impl Downtime {
    /// `None` when there is nothing in it.
    pub(super) fn new(lags: BTreeMap<Arc<str>, Lag>) -> Option<Self> {
        (!lags.is_empty()).then(|| Self(Arc::new(lags)))
    }

    /// What several say, as one; of two dependencies of one name the one that is said first.
    pub(super) fn all<'a>(several: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut several = several.peekable();
        let first = several.next()?;
        if several.peek().is_none() {
            return Some(first.clone());
        }
        let mut lags = BTreeMap::clone(&first.0);
        for (name, lag) in several.flat_map(|other| other.0.iter()) {
            lags.entry(Arc::clone(name)).or_insert(*lag);
        }
        Self::new(lags)
    }

    /// How far this dependency is behind; `None` when it is not.
    pub fn get(&self, dependency: &str) -> Option<Lag> {
        self.0.get(dependency).copied()
    }

    /// The dependencies that are behind, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Lag)> {
        self.0.iter().map(|(name, lag)| (&**name, *lag))
    }

    /// The largest lag that is known.
    pub fn longest(&self) -> Option<Span> {
        let known = self.0.values().filter_map(|lag| match lag {
            Lag::By(span) => Some(*span),
            Lag::Unknown | Lag::Recovering => None,
        });
        known.max()
    }
}

impl fmt::Display for Downtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lags: Vec<_> = self.iter().map(|(name, lag)| format!("{name}: {lag}")).collect();
        f.write_str(&lags.join(", "))
    }
}

/// As people read it.
impl fmt::Debug for Downtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How everything stood at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(super) marker: Option<Mark>,
    pub(super) dependencies: Vec<(Arc<str>, Option<Mark>)>,
    pub(super) state: Option<State>,
}

impl Snapshot {
    /// The highest marker of the dependent; `None` before its first message.
    pub fn marker(&self) -> Option<Mark> {
        self.marker
    }

    /// How far a dependency was; `None` before it had a marker in each partition.
    pub fn dependency(&self, name: &str) -> Option<Mark> {
        self.dependencies.iter().find(|(own, _)| **own == *name).and_then(|(_, mark)| *mark)
    }

    /// The state that the checkpoint's [`state`](super::Guard::state) made; `None` before the first message, and for
    /// another type.
    pub fn state<T: Clone + 'static>(&self) -> Option<T> {
        self.state.as_ref().and_then(|state| state.downcast_ref::<T>()).cloned()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_struct("Snapshot");
        map.field("marker", &self.marker);
        for (name, mark) in &self.dependencies {
            map.field(name, mark);
        }
        map.finish_non_exhaustive()
    }
}

/// One outage, as callbacks get it. It does not change while anybody looks at it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outage {
    /// Counts the outages of this checkpoint, in each member of a group by itself. A callback may run again for the same
    /// one after a crash: by the number it can tell.
    pub number: u64,
    /// The checkpoint.
    pub checkpoint: Arc<str>,
    /// The dependency that went down last, or that has recovered last.
    pub dependency: Arc<str>,
    /// How far which dependency was behind when the outage was detected.
    pub downtime: Option<Downtime>,
    /// At the last heartbeat before it, while all was well.
    pub healthy: Snapshot,
    /// When it was detected.
    pub detected: Snapshot,
    /// When the last dependency had caught up; `None` until then.
    pub recovered: Option<Snapshot>,
    /// Per partition of the dependent, the first message that was handled too early.
    pub safe_offsets: Vec<(i32, i64)>,
}

impl Outage {
    /// The same, of which nothing can be compared any more.
    pub(super) fn without_markers(&self) -> Self {
        let bare = |snapshot: &Snapshot| Snapshot { state: snapshot.state.clone(), ..Snapshot::default() };
        Self { healthy: bare(&self.healthy), detected: bare(&self.detected), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_told_reads_the_same_in_both_ways_of_printing() {
        let lags = [("news", Lag::Unknown), ("weather", Lag::By(Span::from(Duration::from_mins(90))))];
        let downtime = Downtime::new(lags.map(|(name, lag)| (Arc::from(name), lag)).into()).unwrap();
        assert_eq!(format!("{downtime}"), "news: no marker yet, weather: 5400s");
        assert_eq!(format!("{downtime:?} {:?}", Lag::Recovering), format!("{downtime} recovering"));
    }
}
