//! Functions and closures as sinks.

use std::future::{Future, Ready};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{IntoSink, Sink, SinkBinding};
use crate::error::{BoxError, Result};
use crate::flow::UnitCx;

/// What a sink function returns: nothing, a `Result<(), _>`, or a future of either.
#[diagnostic::on_unimplemented(
    message = "a sink cannot return `{Self}`: its result would be lost",
    note = "a sink returns `()`, `Result<(), E>`, or a future of either"
)]
pub trait SinkReturn<M>: Send + Sized {
    /// How it is waited for.
    type Wait: Future<Output = Result<(), BoxError>> + Send;
    /// A function that returns it, as a sink. Named here, so that where a result would be lost there is no sink either
    /// and the compiler says so once.
    type Sink<F, T>: Sink<T>
    where
        F: Fn(T) -> Self + Send + Sync;

    /// Makes it.
    fn sink<F: Fn(T) -> Self + Send + Sync, T>(call: F) -> Self::Sink<F, T>;
    /// Whether it is known now or later.
    fn settle(self) -> Settled<Self::Wait>;
}

/// The end of a call, known or awaited.
pub enum Settled<W> {
    /// Known.
    Now(Result<(), BoxError>),
    /// Awaited.
    Later(W),
}

/// Marker: returns `()`.
#[derive(Debug)]
pub enum Plain {}
/// Marker: returns a `Result`.
#[derive(Debug)]
pub enum Fallible {}
/// Marker: returns a future of `()`.
#[derive(Debug)]
pub enum Async {}
/// Marker: returns a future of a `Result`.
#[derive(Debug)]
pub enum AsyncFallible {}

impl SinkReturn<Plain> for () {
    type Wait = Ready<Result<(), BoxError>>;
    type Sink<C, T>
        = CallSink<C, T, Self, Plain>
    where
        C: Fn(T) -> Self + Send + Sync;

    fn sink<C: Fn(T) -> Self + Send + Sync, T>(call: C) -> CallSink<C, T, Self, Plain> {
        CallSink::new(call)
    }
    #[inline]
    fn settle(self) -> Settled<Self::Wait> {
        Settled::Now(Ok(()))
    }
}

impl<E: Into<BoxError> + Send> SinkReturn<Fallible> for Result<(), E> {
    type Wait = Ready<Result<(), BoxError>>;
    type Sink<C, T>
        = CallSink<C, T, Self, Fallible>
    where
        C: Fn(T) -> Self + Send + Sync;

    fn sink<C: Fn(T) -> Self + Send + Sync, T>(call: C) -> CallSink<C, T, Self, Fallible> {
        CallSink::new(call)
    }
    #[inline]
    fn settle(self) -> Settled<Self::Wait> {
        Settled::Now(self.map_err(Into::into))
    }
}

pin_project! {
    /// A future of `()` that always succeeds.
    pub struct Succeeds<F> { #[pin] future: F }
}

impl<F: Future<Output = ()>> Future for Succeeds<F> {
    type Output = Result<(), BoxError>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(Ok)
    }
}

impl<F: Future<Output = ()> + Send> SinkReturn<Async> for F {
    type Wait = Succeeds<F>;
    type Sink<C, T>
        = CallSink<C, T, Self, Async>
    where
        C: Fn(T) -> Self + Send + Sync;

    fn sink<C: Fn(T) -> Self + Send + Sync, T>(call: C) -> CallSink<C, T, Self, Async> {
        CallSink::new(call)
    }
    fn settle(self) -> Settled<Self::Wait> {
        Settled::Later(Succeeds { future: self })
    }
}

pin_project! {
    /// A future whose error is boxed.
    pub struct Boxes<F> { #[pin] future: F }
}

impl<E: Into<BoxError>, F: Future<Output = Result<(), E>>> Future for Boxes<F> {
    type Output = Result<(), BoxError>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(|result| result.map_err(Into::into))
    }
}

impl<E: Into<BoxError>, F: Future<Output = Result<(), E>> + Send> SinkReturn<AsyncFallible> for F {
    type Wait = Boxes<F>;
    type Sink<C, T>
        = CallSink<C, T, Self, AsyncFallible>
    where
        C: Fn(T) -> Self + Send + Sync;

    fn sink<C: Fn(T) -> Self + Send + Sync, T>(call: C) -> CallSink<C, T, Self, AsyncFallible> {
        CallSink::new(call)
    }
    fn settle(self) -> Settled<Self::Wait> {
        Settled::Later(Boxes { future: self })
    }
}

pin_project! {
    /// A function as a sink; its future, if it gives one, lives in one place that every value reuses.
    pub struct CallSink<F, T, R: SinkReturn<M>, M> {
        call: Arc<F>,
        #[pin]
        wait: Option<R::Wait>,
        marker: PhantomData<fn(T) -> (R, M)>,
    }
}

impl<F, T, R: SinkReturn<M>, M> CallSink<F, T, R, M> {
    fn new(call: F) -> Self {
        Self { call: Arc::new(call), wait: None, marker: PhantomData }
    }
}

impl<T, F, R, M> Sink<T> for CallSink<F, T, R, M>
where
    F: Fn(T) -> R + Send + Sync,
    R: SinkReturn<M>,
{
    #[inline]
    fn poll_send(
        self: Pin<&mut Self>,
        value: &mut Option<T>,
        _unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let mut this = self.project();
        if let Some(value) = value.take() {
            match (this.call)(value).settle() {
                Settled::Now(result) => return Poll::Ready(result),
                Settled::Later(wait) => this.wait.set(Some(wait)),
            }
        }
        let Some(wait) = this.wait.as_mut().as_pin_mut() else { return Poll::Ready(Ok(())) };
        let result = ready!(wait.poll(cx));
        this.wait.set(None);
        Poll::Ready(result)
    }

    fn fork(&self) -> Self {
        Self { call: Arc::clone(&self.call), wait: None, marker: PhantomData }
    }
}

impl<T, F, R, M> IntoSink<T, (R, M)> for F
where
    T: 'static,
    F: Fn(T) -> R + Send + Sync + 'static,
    R: SinkReturn<M> + 'static,
    M: 'static,
{
    type Sink = R::Sink<F, T>;
    fn into_sink(self, _binding: &mut SinkBinding<'_>) -> Result<Self::Sink> {
        Ok(R::sink(self))
    }
}
