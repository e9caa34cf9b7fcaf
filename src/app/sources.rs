//! The sources of one handler: one, several of the same item, and a pipe behind them.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::Stream;

use super::piped::{noting, piped, refuse_taps};
use crate::error::Result;
use crate::flow::Stage;
use crate::pipe::{PipeStage, Piped, SharedStage, refuse_lanes};
use crate::source::{Attach, IntoSource, SourceOptions};

/// The sources of one handler.
pub trait Sources: Sized {
    /// What they all give.
    type Item: Send + 'static;
    /// How many there are.
    const COUNT: usize;

    /// Attaches a stage to each of them.
    ///
    /// # Errors
    /// Those of [`IntoSource::attach`].
    fn attach_all<St, F>(
        self,
        to: &mut Attach<'_>,
        label: &str,
        options: SourceOptions<Self::Item>,
        make: F,
    ) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static;
}

/// One source.
pub struct One<S, M>(pub(super) S, pub(super) PhantomData<fn() -> M>);

impl<S: IntoSource<M>, M> Sources for One<S, M> {
    type Item = S::Item;
    const COUNT: usize = 1;

    fn attach_all<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<S::Item>, make: F) -> Result<()>
    where
        St: Stage<S::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static,
    {
        self.0.attach(to, label, options, make)
    }
}

/// More sources of the same item.
pub struct And<A, B>(pub(super) A, pub(super) B);

impl<A: Sources, B: Sources<Item = A::Item>> Sources for And<A, B> {
    type Item = A::Item;
    const COUNT: usize = A::COUNT + B::COUNT;

    fn attach_all<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<A::Item>, make: F) -> Result<()>
    where
        St: Stage<A::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static,
    {
        self.0.attach_all(to, label, options.clone(), make.clone())?;
        self.1.attach_all(to, label, options, make)
    }
}

/// Sources with a pipe behind them. The pipe is called once, so it may be boxed, and only what it gives is in the type.
pub struct Pipe<A: Sources, S> {
    pub(super) sources: A,
    pub(super) pipe: Box<dyn FnOnce(Piped<A::Item>) -> S>,
}

impl<A, S> Sources for Pipe<A, S>
where
    A: Sources,
    S: Stream<Item: Send + 'static> + Send + 'static,
{
    type Item = S::Item;
    const COUNT: usize = A::COUNT;

    fn attach_all<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<S::Item>, make: F) -> Result<()>
    where
        St: Stage<S::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static,
    {
        refuse_lanes(label, options.concurrency, &options.handlers)?;
        refuse_taps(label, &options)?;
        let stage = PipeStage::new(self.pipe, make(), Arc::from(label));
        let shared = SharedStage::new(stage, A::COUNT);
        noting(to, |to| self.sources.attach_all(to, label, piped(label), move || shared.lane()))
    }
}
