//! The steps that `#[handle]` writes: sources, pipes, the handler, sinks, one call each, under the span of the user's
//! word that it is about.
//!
//! A step that fails must be reported there and nowhere else, though every later step needs it. Therefore what a step
//! gives is named through the trait that it asks for (`S::From`, `J::Both<…>`): where that is not fulfilled the name
//! stands for no type, and the compiler has nothing to say about what is done with it. This needs a trait that no
//! impl is chosen for when it fails; one that has a blanket impl gets a second, for types that are [`Impossible`].

use std::hash::Hash;
use std::marker::PhantomData;

use futures::Stream;

use super::bind::{Builder, Call, Called, HandlerOptions};
use super::sources::{And, One, Pipe, Sources};
use crate::error::Result;
use crate::flow::UnitCx;
use crate::handler::{Never, Outputs};
use crate::pipe::Piped;
use crate::sink::{Both, IntoSink, Mapped, NoSink, Sink, SinkBinding, SinkReturn};
use crate::source::{IntoSource, LogSource};

/// Implemented by no type.
pub trait Impossible {}

/// Marker: the trait is fulfilled, by `M`.
pub struct Yes<M>(M);
/// Marker: it is not.
pub enum No {}

/// A source of a handler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source",
    label = "a handler cannot read from this",
    note = "a source is a `Stream`, a `Topic`, a `Cache`, a `Proxy`, a `SharedStream`, a `Checkpoint` or `every(period)`; a function that returns a stream is called: `numbers()`",
    note = "each handler of a `Topic`, `Cache`, `Proxy` or `SharedStream` gets a clone: write `#[derive(Clone)]` on its messages if they have no `Clone`"
)]
pub trait Source<M>: Sized {
    /// The sources of a handler that has this one.
    type From: Sources;
    /// Begins with it.
    fn from(self) -> Self::From;
}

#[diagnostic::do_not_recommend]
impl<S: IntoSource<M>, M> Source<Yes<M>> for S {
    type From = One<S, M>;
    fn from(self) -> One<S, M> {
        One(self, PhantomData)
    }
}

#[diagnostic::do_not_recommend]
impl<S: Impossible + Sources> Source<No> for S {
    type From = S;
    fn from(self) -> S {
        self
    }
}

/// Begins with a source.
pub fn from<S: Source<M>, M>(source: S) -> S::From {
    source.from()
}

/// The item of one more source.
#[diagnostic::on_unimplemented(
    message = "the sources of a handler give one type, here it is `{Self}` after `{I}`",
    label = "gives `{Self}`, the sources before it give `{I}`"
)]
pub trait SameItem<I>: Sized {
    /// Both together.
    type Both<A: Sources<Item = I>, B: Sources<Item = Self>>: Sources<Item = I>;
    /// Puts them together.
    fn both<A: Sources<Item = I>, B: Sources<Item = Self>>(a: A, b: B) -> Self::Both<A, B>;
}

impl<I: Send + 'static> SameItem<I> for I {
    type Both<A: Sources<Item = I>, B: Sources<Item = I>> = And<A, B>;
    fn both<A: Sources<Item = I>, B: Sources<Item = I>>(a: A, b: B) -> And<A, B> {
        And(a, b)
    }
}

/// Another source of the same item.
pub fn and<A, B, I, J>(sources: A, more: B) -> J::Both<A, B>
where
    A: Sources<Item = I>,
    B: Sources<Item = J>,
    J: SameItem<I>,
{
    J::both(sources, more)
}

/// The source of a handler that writes tables.
#[diagnostic::on_unimplemented(
    message = "a table has one topic as its source",
    label = "`table` needs one topic",
    note = "rows are stored with one position in one topic's log; a pipe, or a second source, has no place in it"
)]
pub trait Folded {}

impl<S: LogSource, M> Folded for One<S, M> {}

/// Tables are filled from one topic.
pub fn folded<A: Sources + Folded>(sources: A) -> A {
    sources
}

/// The key by which lanes are chosen.
pub fn keyed<A, K, H>(_sources: &A, options: HandlerOptions, key: K) -> HandlerOptions
where
    A: Sources,
    K: Fn(&A::Item) -> H + Send + Sync + 'static,
    H: Hash,
{
    options.key(key)
}

/// What a pipe gives.
#[diagnostic::on_unimplemented(
    message = "a pipe gives a stream, this one gives `{Self}`",
    label = "does not give a stream",
    note = "a pipe is `fn(impl Stream<Item = T>) -> impl Stream<Item = U>`, and its stream is `Send`"
)]
pub trait PipeEnd<M>: Sized {
    /// Sources with it behind them.
    type Pipe<A: Sources>: Sources;
    /// Puts it there.
    fn pipe<A: Sources>(sources: A, pipe: impl FnOnce(Piped<A::Item>) -> Self + 'static) -> Self::Pipe<A>;
}

#[diagnostic::do_not_recommend]
impl<S: Stream<Item: Send + 'static> + Send + 'static> PipeEnd<Yes<()>> for S {
    type Pipe<A: Sources> = Pipe<A, S>;
    fn pipe<A: Sources>(sources: A, pipe: impl FnOnce(Piped<A::Item>) -> S + 'static) -> Pipe<A, S> {
        Pipe { sources, pipe: Box::new(pipe) }
    }
}

#[diagnostic::do_not_recommend]
impl<S: Impossible> PipeEnd<No> for S {
    type Pipe<A: Sources> = A;
    fn pipe<A: Sources>(sources: A, _pipe: impl FnOnce(Piped<A::Item>) -> S + 'static) -> A {
        sources
    }
}

/// A pipe behind the sources.
pub fn pipe<A, P, S, M>(sources: A, pipe: P) -> S::Pipe<A>
where
    A: Sources,
    P: FnOnce(Piped<A::Item>) -> S + 'static,
    S: PipeEnd<M>,
{
    S::pipe(sources, pipe)
}

/// Sources and a handler, the sinks so far, and what the handler gives: known even if something is wrong with it.
pub struct Step<A, C, K, T> {
    called: Called<A, C, K>,
    item: PhantomData<fn() -> T>,
}

fn step<A, C, K, T>(sources: A, call: C, sinks: K) -> Step<A, C, K, T> {
    Step { called: Called { sources, call, sinks }, item: PhantomData }
}

/// The handler, as a function of an item.
pub fn call<A, C, O>(sources: A, call: C) -> Step<A, C, NoSink, O::Item>
where
    A: Sources,
    C: Fn(A::Item, &UnitCx) -> O + Send + Sync + 'static,
    O: Outputs<Item: 'static> + 'static,
{
    step(sources, call, NoSink)
}

/// What a handler returns that has sinks. No type implements it: only a mistake asks for it.
#[diagnostic::on_unimplemented(
    message = "this handler returns nothing, so there is nothing for a sink to take",
    label = "gets nothing: give the handler something to return, or drop `sink`"
)]
pub trait ReturnsSomething: Sized {
    /// What it is.
    type Item;
    /// The handler that does.
    type Call;
    /// The handler, as it was.
    fn same<A, C, K>(step: Step<A, C, K, Self>) -> Step<A, Self::Call, K, Self::Item>;
}

/// Finds out whether the handler returns nothing: method lookup prefers the trait for [`Never`].
pub struct Probe<T>(PhantomData<T>);

/// What a handler gives.
pub fn probe<A, C, K, T>(_: &Step<A, C, K, T>) -> Probe<T> {
    Probe(PhantomData)
}

/// The handler returns nothing.
pub trait Nothing {
    /// Refuses.
    fn check<A, C, K, T: ReturnsSomething>(&self, step: Step<A, C, K, T>) -> Step<A, T::Call, K, T::Item>;
}

impl Nothing for &Probe<Never> {
    fn check<A, C, K, T: ReturnsSomething>(&self, step: Step<A, C, K, T>) -> Step<A, T::Call, K, T::Item> {
        T::same(step)
    }
}

/// It returns something.
pub trait Something {
    /// Goes on.
    fn check<A, C, K, T>(&self, step: Step<A, C, K, T>) -> Step<A, C, K, T>;
}

impl<T> Something for Probe<T> {
    fn check<A, C, K, U>(&self, step: Step<A, C, K, U>) -> Step<A, C, K, U> {
        step
    }
}

/// The sinks before the next one.
pub trait Before<T> {
    /// These and the next one.
    type And<S: Sink<T> + 'static>: Sink<T> + 'static;
    /// Puts it behind them.
    fn and<S: Sink<T> + 'static>(self, next: S) -> Self::And<S>;
}

impl<T> Before<T> for NoSink {
    type And<S: Sink<T> + 'static> = S;
    fn and<S: Sink<T> + 'static>(self, next: S) -> S {
        next
    }
}

/// Sinks that get a clone.
pub struct Cloning<K>(K);

impl<T: Clone + Send + 'static, K: Sink<T> + 'static> Before<T> for Cloning<K> {
    type And<S: Sink<T> + 'static> = Both<K, S, T>;
    fn and<S: Sink<T> + 'static>(self, next: S) -> Both<K, S, T> {
        Both::new(self.0, next)
    }
}

/// An output for more than one sink.
#[diagnostic::on_unimplemented(
    message = "several sinks, but `{Self}` cannot be cloned",
    label = "every sink but the last gets a clone: `{Self}` must be `Clone`"
)]
pub trait Shareable<M>: Sized {
    /// The sinks that get one.
    type Cloning<K: Sink<Self> + 'static>: Before<Self>;
    /// Gives them one.
    fn cloning<K: Sink<Self> + 'static>(sinks: K) -> Self::Cloning<K>;
}

#[diagnostic::do_not_recommend]
impl<T: Clone + Send + 'static> Shareable<Yes<()>> for T {
    type Cloning<K: Sink<T> + 'static> = Cloning<K>;
    fn cloning<K: Sink<T> + 'static>(sinks: K) -> Cloning<K> {
        Cloning(sinks)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Impossible> Shareable<No> for T {
    type Cloning<K: Sink<T> + 'static> = NoSink;
    fn cloning<K: Sink<T> + 'static>(_sinks: K) -> NoSink {
        NoSink
    }
}

/// One more sink may follow.
pub fn more<A, C, K, T, M>(handler: Step<A, C, K, T>) -> Step<A, C, T::Cloning<K>, T>
where
    K: Sink<T> + 'static,
    T: Shareable<M>,
{
    let Called { sources, call, sinks } = handler.called;
    step(sources, call, T::cloning(sinks))
}

/// A handler with one more sink.
type With<A, C, K, S, T> = Result<Step<A, C, <K as Before<T>>::And<S>, T>>;

/// The next sink.
///
/// # Errors
/// Whatever keeps it from opening.
pub fn sink<A, C, K, S, T, M>(
    handler: Step<A, C, K, T>,
    binding: &mut SinkBinding<'_>,
    sink: S,
) -> With<A, C, K, S::Sink, T>
where
    K: Before<T>,
    S: IntoSink<T, M>,
{
    let Called { sources, call, sinks } = handler.called;
    Ok(step(sources, call, sinks.and(sink.into_sink(binding)?)))
}

/// The next sink, a closure: its argument's type is known from the handler.
///
/// # Errors
/// None.
pub fn closure<A, C, K, F, R, T, M>(
    handler: Step<A, C, K, T>,
    _binding: &mut SinkBinding<'_>,
    closure: F,
) -> With<A, C, K, R::Sink<F, T>, T>
where
    K: Before<T>,
    F: Fn(T) -> R + Send + Sync + 'static,
    R: SinkReturn<M> + 'static,
    T: 'static,
    M: 'static,
{
    let Called { sources, call, sinks } = handler.called;
    Ok(step(sources, call, sinks.and(R::sink(closure))))
}

/// The next sink, with a closure in front.
///
/// # Errors
/// Whatever keeps it from opening.
#[expect(clippy::type_complexity, reason = "the list of sinks is its type")]
pub fn mapped<A, C, K, S, F, U, T, M>(
    handler: Step<A, C, K, T>,
    binding: &mut SinkBinding<'_>,
    next: S,
    map: F,
) -> With<A, C, K, Mapped<S::Sink, F, T, U>, T>
where
    K: Before<T>,
    F: Fn(T) -> U + Send + Sync + 'static,
    S: IntoSink<U, M>,
    U: Send + 'static,
    T: Send + 'static,
{
    sink(handler, binding, crate::sink::map(next, map))
}

/// The end: attaches it all.
///
/// # Errors
/// Those of [`IntoSource::attach`].
pub fn bind<A, C, K, T>(
    handler: Step<A, C, K, T>,
    builder: &mut Builder<'_>,
    options: HandlerOptions,
    binding: SinkBinding<'_>,
) -> Result<()>
where
    A: Sources,
    C: Call<A::Item, Item = T>,
    K: Sink<T> + 'static,
{
    handler.called.bind(builder, options, binding)
}
