//! Several sinks for one handler: each value goes to all of them, in order; the last one gets the value itself.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{IntoSink, Sink, SinkBinding};
use crate::error::{BoxError, Result};
use crate::flow::UnitCx;

/// No sink: values are dropped.
#[derive(Debug, Clone, Copy)]
pub struct NoSink;

impl<T> Sink<T> for NoSink {
    #[inline]
    fn poll_send(
        self: Pin<&mut Self>,
        value: &mut Option<T>,
        _unit: &mut UnitCx,
        _cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        *value = None;
        Poll::Ready(Ok(()))
    }

    fn fork(&self) -> Self {
        Self
    }
}

pin_project! {
    /// One sink after the other.
    pub struct Both<A, B, T> {
        #[pin]
        first: A,
        #[pin]
        second: B,
        copy: Option<T>,
        first_in_hand: bool,
        first_done: bool,
    }
}

impl<A, B, T> Both<A, B, T> {
    pub(crate) fn new(first: A, second: B) -> Self {
        Self { first, second, copy: None, first_in_hand: false, first_done: false }
    }
}

impl<T: Clone + Send, A: Sink<T>, B: Sink<T>> Sink<T> for Both<A, B, T> {
    #[inline]
    fn poll_send(
        self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = self.project();
        if !*this.first_done {
            if !*this.first_in_hand {
                this.copy.clone_from(value);
                *this.first_in_hand = true;
            }
            ready!(this.first.poll_send(this.copy, unit, cx)).inspect_err(|_| *this.first_in_hand = false)?;
            *this.first_in_hand = false;
            *this.first_done = true;
        }
        let result = ready!(this.second.poll_send(value, unit, cx));
        *this.first_done = false;
        Poll::Ready(result)
    }

    fn fork(&self) -> Self {
        Self::new(self.first.fork(), self.second.fork())
    }
}

/// The sinks of a handler in the explicit API: one sink, an array or a tuple of sinks, or `()` for none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the sinks for `{T}`",
    label = "does not take `{T}`, which is what the handler gives",
    note = "give one sink, a tuple or an array of sinks, or `()` for none"
)]
pub trait IntoSinks<T, M> {
    /// What a lane drives.
    type Sink: Sink<T> + 'static;

    /// Opens what they need.
    ///
    /// # Errors
    /// Whatever keeps one from opening.
    fn into_sinks(self, binding: &mut SinkBinding<'_>) -> Result<Self::Sink>;
}

/// Marker: a single sink.
#[derive(Debug)]
pub struct Single<M>(M);

impl<T, M, S: IntoSink<T, M>> IntoSinks<T, Single<M>> for S {
    type Sink = S::Sink;
    fn into_sinks(self, binding: &mut SinkBinding<'_>) -> Result<S::Sink> {
        self.into_sink(binding)
    }
}

impl<T> IntoSinks<T, ()> for () {
    type Sink = NoSink;
    fn into_sinks(self, _binding: &mut SinkBinding<'_>) -> Result<NoSink> {
        Ok(NoSink)
    }
}

/// Marker: an array of sinks.
#[derive(Debug)]
pub struct Array<M>(M);

/// The sinks of an array, one after the other.
pub struct Many<S, T> {
    sinks: Vec<Pin<Box<S>>>,
    copy: Option<T>,
    at: usize,
    in_hand: bool,
}

// The sinks are boxed, the value is moved through.
impl<S, T> Unpin for Many<S, T> {}

impl<T, M, S: IntoSink<T, M>, const N: usize> IntoSinks<T, Array<M>> for [S; N]
where
    T: Clone + Send + 'static,
{
    type Sink = Many<S::Sink, T>;
    fn into_sinks(self, binding: &mut SinkBinding<'_>) -> Result<Self::Sink> {
        let sinks = self.into_iter().map(|sink| Ok(Box::pin(sink.into_sink(binding)?))).collect::<Result<_>>()?;
        Ok(Many { sinks, copy: None, at: 0, in_hand: false })
    }
}

impl<T: Clone + Send, S: Sink<T>> Sink<T> for Many<S, T> {
    fn poll_send(
        mut self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = &mut *self;
        while let Some(sink) = this.sinks.get_mut(this.at) {
            if !this.in_hand {
                this.copy.clone_from(value);
                this.in_hand = true;
            }
            let result = ready!(sink.as_mut().poll_send(&mut this.copy, unit, cx));
            this.in_hand = false;
            this.at = if result.is_ok() { this.at + 1 } else { 0 };
            result?;
        }
        this.at = 0;
        *value = None;
        Poll::Ready(Ok(()))
    }

    fn fork(&self) -> Self {
        let sinks = self.sinks.iter().map(|sink| Box::pin(sink.fork())).collect();
        Self { sinks, copy: None, at: 0, in_hand: false }
    }
}

/// Marker: a tuple of sinks.
#[derive(Debug)]
pub struct Tuple<M>(M);

macro_rules! nested {
    ($a:ty) => { $a };
    ($a:ty, $b:ty $(, $rest:ty)*) => { nested!(Both<$a, $b, T> $(, $rest)*) };
}

macro_rules! tuples {
    ($(($first:ident $first_marker:ident, $($sink:ident $marker:ident),*))*) => { $(
        impl<T, $first, $first_marker, $($sink, $marker),*> IntoSinks<T, Tuple<($first_marker, $($marker),*)>>
            for ($first, $($sink),*)
        where
            T: Clone + Send + 'static,
            $first: IntoSink<T, $first_marker>,
            $($sink: IntoSink<T, $marker>),*
        {
            type Sink = nested!($first::Sink $(, $sink::Sink)*);
            #[expect(non_snake_case, reason = "one name for a type and its value")]
            fn into_sinks(self, binding: &mut SinkBinding<'_>) -> Result<Self::Sink> {
                let ($first, $($sink),*) = self;
                let sinks = $first.into_sink(binding)?;
                $(let sinks = Both::new(sinks, $sink.into_sink(binding)?);)*
                Ok(sinks)
            }
        }
    )* };
}
tuples! {
    (A MA, B MB)
    (A MA, B MB, C MC)
    (A MA, B MB, C MC, D MD)
    (A MA, B MB, C MC, D MD, E ME)
    (A MA, B MB, C MC, D MD, E ME, F MF)
    (A MA, B MB, C MC, D MD, E ME, F MF, G MG)
    (A MA, B MB, C MC, D MD, E ME, F MF, G MG, H MH)
}
