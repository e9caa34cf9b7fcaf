//! Functions of the user's that decide instead of the comparison, and what they see.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::machine::Machine;
use super::mark::{Mark, Span};
use super::outage::Lag;

/// What a check sees: both sides at the moment of a message or of a heartbeat.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Gap {
    /// The dependency that is asked about.
    pub dependency: Arc<str>,
    /// The highest marker of the dependent.
    pub marker: Option<Mark>,
    /// How far the dependency is.
    pub dependency_marker: Option<Mark>,
    /// Whether the dependency is down.
    pub is_down: bool,
}

impl Gap {
    /// How far the dependent is ahead; `None` while one of the two has no marker.
    pub fn span(&self) -> Option<Span> {
        Some(self.marker?.since(self.dependency_marker?))
    }

    pub(super) fn of(machine: &Machine, dependency: usize) -> Option<Self> {
        let name = Arc::clone(&machine.rules().dependencies.get(dependency)?.name);
        let own = machine.dependency(dependency)?;
        let (marker, dependency_marker) = (machine.highest(), own.reach.mark());
        Some(Self { dependency: name, marker, dependency_marker, is_down: own.down.is_some() })
    }
}

/// An answer, now or later.
pub(crate) enum Answer<T> {
    Now(T),
    Later(BoxFuture<'static, T>),
}

pub(crate) type DowntimeCheck = Arc<dyn Fn(Gap) -> Answer<Option<Lag>> + Send + Sync>;
pub(crate) type RecoveryCheck = Arc<dyn Fn(Gap) -> Answer<bool> + Send + Sync>;

/// What a downtime check returns: how far the dependency is behind (`None`: it is not), a `bool`, or a future of either.
#[diagnostic::on_unimplemented(
    message = "a downtime check cannot return `{Self}`",
    label = "its check must return a `bool`, an `Option` of a span, or a future of either",
    note = "a `bool` says whether the dependency is down; a `Some` how far it is behind: a duration, a number or a `Span`"
)]
pub trait DowntimeAnswer<M>: Sized {
    #[doc(hidden)]
    fn answer(self) -> AnswerOf<Option<Lag>>;
}

/// What a recovery check returns: a `bool`, or a future of one.
#[diagnostic::on_unimplemented(
    message = "a recovery check cannot return `{Self}`",
    label = "its check must return a `bool`, or a future of one",
    note = "it says whether the dependency has recovered"
)]
pub trait RecoveryAnswer<M>: Sized {
    #[doc(hidden)]
    fn answer(self) -> AnswerOf<bool>;
}

#[doc(hidden)]
pub struct AnswerOf<T>(pub(super) Answer<T>);

/// Marker: the answer itself.
#[derive(Debug)]
pub enum Plain {}
/// Marker: a future of it.
#[derive(Debug)]
pub struct Awaited<M>(M);

impl<S: Into<Span>> DowntimeAnswer<Plain> for Option<S> {
    fn answer(self) -> AnswerOf<Option<Lag>> {
        AnswerOf(Answer::Now(self.map(|span| Lag::By(span.into()))))
    }
}

impl DowntimeAnswer<Plain> for bool {
    fn answer(self) -> AnswerOf<Option<Lag>> {
        AnswerOf(Answer::Now(self.then_some(Lag::Unknown)))
    }
}

#[diagnostic::do_not_recommend]
impl<F, T, M> DowntimeAnswer<Awaited<M>> for F
where
    F: Future<Output = T> + Send + 'static,
    T: DowntimeAnswer<M> + Send,
{
    fn answer(self) -> AnswerOf<Option<Lag>> {
        AnswerOf(Answer::Later(Box::pin(async move {
            match self.await.answer().0 {
                Answer::Now(lag) => lag,
                Answer::Later(later) => later.await,
            }
        })))
    }
}

impl RecoveryAnswer<Plain> for bool {
    fn answer(self) -> AnswerOf<bool> {
        AnswerOf(Answer::Now(self))
    }
}

#[diagnostic::do_not_recommend]
impl<F: Future<Output = bool> + Send + 'static> RecoveryAnswer<Awaited<Plain>> for F {
    fn answer(self) -> AnswerOf<bool> {
        AnswerOf(Answer::Later(Box::pin(self)))
    }
}
