//! What a handler gives, as one thing a lane can drive: ready values, iterators, streams, and futures of these.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use pin_project_lite::pin_project;

use crate::error::BoxError;

/// One output, or why there is none.
pub type Output<T> = Result<T, BoxError>;

/// The outputs of one call of a handler.
///
/// Those that never wait ([`SYNC`](Self::SYNC)) are iterators and are driven by a loop of their own, without being
/// pinned; the others are polled where the stage keeps them.
pub trait Outputs: Send {
    /// What the sinks get.
    type Item: Send;
    /// Whether [`next_now`](Self::next_now) gives everything.
    const SYNC: bool;

    /// The next output of one that never waits.
    fn next_now(&mut self) -> Option<Output<Self::Item>>;

    /// The next output.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<Self::Item>>>;
}

/// Exactly one output.
pub struct Ready<T>(pub(crate) Option<T>);

// Never pinned: values are moved in and out.
impl<T> Unpin for Ready<T> {}

impl<T: Send> Outputs for Ready<T> {
    type Item = T;
    const SYNC: bool = true;
    #[inline]
    fn next_now(&mut self) -> Option<Output<T>> {
        self.0.take().map(Ok)
    }
    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Output<T>>> {
        Poll::Ready(self.next_now())
    }
}

/// Each item of an iterator.
pub struct Each<I>(pub(crate) I);

// Never pinned: the iterator is used by reference.
impl<I> Unpin for Each<I> {}

impl<I: Iterator<Item: Send> + Send> Outputs for Each<I> {
    type Item = I::Item;
    const SYNC: bool = true;
    #[inline]
    fn next_now(&mut self) -> Option<Output<I::Item>> {
        self.0.next().map(Ok)
    }
    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Output<I::Item>>> {
        Poll::Ready(self.next_now())
    }
}

pin_project! {
    /// Each item of a stream.
    pub struct Streamed<S> {
        #[pin]
        pub(crate) stream: S,
    }
}

impl<S: Stream<Item: Send> + Send> Outputs for Streamed<S> {
    type Item = S::Item;
    const SYNC: bool = false;
    fn next_now(&mut self) -> Option<Output<S::Item>> {
        None
    }
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<S::Item>>> {
        self.project().stream.poll_next(cx).map(|item| item.map(Ok))
    }
}

pin_project! {
    /// Each item of a stream of results.
    pub struct TryStreamed<S> {
        #[pin]
        pub(crate) stream: S,
    }
}

impl<T: Send, E: Into<BoxError>, S: Stream<Item = Result<T, E>> + Send> Outputs for TryStreamed<S> {
    type Item = T;
    const SYNC: bool = false;
    fn next_now(&mut self) -> Option<Output<T>> {
        None
    }
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<T>>> {
        self.project().stream.poll_next(cx).map(|item| item.map(|result| result.map_err(Into::into)))
    }
}

pin_project! {
    /// The outputs of a call that can fail.
    #[project = TryProjected]
    #[expect(missing_docs, reason = "the macro takes no documentation of variants' fields")]
    pub enum Try<O> {
        /// It did not fail.
        Outputs {
            #[pin] outputs: O,
        },
        /// It failed; the error is given once.
        Failed {
            error: Option<BoxError>,
        },
    }
}

impl<O> Try<O> {
    /// The outputs of a success, or the error.
    pub fn new<T, E: Into<BoxError>>(result: Result<T, E>, outputs: impl FnOnce(T) -> O) -> Self {
        match result {
            Ok(value) => Self::Outputs { outputs: outputs(value) },
            Err(error) => Self::Failed { error: Some(error.into()) },
        }
    }
}

impl<O: Outputs> Outputs for Try<O> {
    type Item = O::Item;
    const SYNC: bool = O::SYNC;
    #[inline]
    fn next_now(&mut self) -> Option<Output<O::Item>> {
        match self {
            Self::Outputs { outputs } => outputs.next_now(),
            Self::Failed { error } => error.take().map(Err),
        }
    }
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<O::Item>>> {
        match self.project() {
            TryProjected::Outputs { outputs } => outputs.poll_next(cx),
            TryProjected::Failed { error } => Poll::Ready(error.take().map(Err)),
        }
    }
}

pin_project! {
    /// The outputs that a future ends with.
    #[project = LaterProjected]
    #[expect(missing_docs, reason = "the macro takes no documentation of variants' fields")]
    pub enum Later<F, G, O> {
        /// The handler has not returned.
        Calling {
            #[pin] future: F,
            wrap: Option<G>,
        },
        /// It has.
        Outputs {
            #[pin] outputs: O,
        },
    }
}

impl<F, G, O> Outputs for Later<F, G, O>
where
    F: Future + Send,
    G: FnOnce(F::Output) -> O + Send,
    O: Outputs,
{
    type Item = O::Item;
    const SYNC: bool = false;
    fn next_now(&mut self) -> Option<Output<O::Item>> {
        None
    }
    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<O::Item>>> {
        loop {
            match self.as_mut().project() {
                LaterProjected::Calling { future, wrap } => {
                    let returned = ready!(future.poll(cx));
                    let Some(wrap) = wrap.take() else { return Poll::Ready(None) };
                    self.set(Self::Outputs { outputs: wrap(returned) });
                }
                LaterProjected::Outputs { outputs } => return outputs.poll_next(cx),
            }
        }
    }
}

/// No outputs: the handler returns `()`. The item type is one that no value has.
pub struct Nothing;

/// The output type of a handler that returns nothing; it has no values.
#[derive(Debug, Clone, Copy)]
pub enum Never {}

impl Outputs for Nothing {
    type Item = Never;
    const SYNC: bool = true;
    #[inline]
    fn next_now(&mut self) -> Option<Output<Never>> {
        None
    }
    fn poll_next(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Output<Never>>> {
        Poll::Ready(None)
    }
}
