//! The shapes of return values, as the compiler sees them in the explicit API: each shape has a marker of its own, and
//! the markers are flat, so that a mistyped handler gets one error and not an overflow.

use std::future::Future;

use futures::Stream;

use super::outputs::{Each, Later, Nothing, Outputs, Ready, Streamed, Try, TryStreamed};
use crate::error::BoxError;

/// Sends a `Vec`, an `Option` or any other value as exactly one output.
///
/// ```
/// use slipstream::One;
///
/// fn pair(n: u32) -> One<Vec<u32>> { One(vec![n, n]) } // one output of type Vec<u32>, not two of u32
/// # assert_eq!(pair(1).0, [1, 1]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct One<T>(pub T);

/// A type whose value is one output when a handler of the explicit API returns it.
///
/// Numbers, strings, tuples, [`Message`](crate::Message) and the like have it; an own type is returned as
/// [`One`] or implements this (there is nothing to write). Handlers bound with `#[handle]` need neither.
///
/// ```
/// struct Flight { id: u64 }
/// impl slipstream::Output for Flight {}
/// ```
pub trait Output {}

macro_rules! output {
    ($($type:ty),* $(,)?) => { $(impl Output for $type {})* };
}
output!(bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, String);
output!(bytes::Bytes, chrono::NaiveDate, chrono::NaiveDateTime, chrono::TimeDelta, std::time::Duration);
impl Output for &'static str {}
impl<Tz: chrono::TimeZone> Output for chrono::DateTime<Tz> {}
impl<V, K> Output for crate::message::Message<V, K> {}
impl<T> Output for std::sync::Arc<T> {}
impl<A, B> Output for (A, B) {}
impl<A, B, C> Output for (A, B, C) {}
impl<A, B, C, D> Output for (A, B, C, D) {}
impl<K, V> Output for std::collections::BTreeMap<K, V> {}
impl<K, V, S> Output for std::collections::HashMap<K, V, S> {}

/// A value that stands for outputs. `M` says by which rule.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something a handler can return here",
    note = "an own type is returned as `One(value)`, or implements `slipstream::Output`; `#[handle]` needs neither"
)]
pub trait Shape<M>: Sized {
    /// How a lane drives it.
    type Out: Outputs;
    /// Turns it into that.
    fn shape(self) -> Self::Out;
}

macro_rules! markers {
    ($($name:ident: $what:literal),* $(,)?) => { $(
        #[doc = concat!("Marker: ", $what, ".")]
        #[derive(Debug)]
        pub enum $name {}
    )* };
}
markers!(
    AsOne: "one value", AsWrapped: "one value in `One`", AsNothing: "`()`", AsOption: "none or one", AsVec: "each of a vector",
    AsArray: "each of an array", AsIter: "each of an iterator", AsStream: "each of a stream, as produced",
    AsTryStream: "each of a stream of results",
);

impl<T: Output + Send> Shape<AsOne> for T {
    type Out = Ready<T>;
    fn shape(self) -> Ready<T> {
        Ready(Some(self))
    }
}

impl<T: Send> Shape<AsWrapped> for One<T> {
    type Out = Ready<T>;
    fn shape(self) -> Ready<T> {
        Ready(Some(self.0))
    }
}

impl Shape<AsNothing> for () {
    type Out = Nothing;
    fn shape(self) -> Nothing {
        Nothing
    }
}

impl<T: Send> Shape<AsOption> for Option<T> {
    type Out = Each<std::option::IntoIter<T>>;
    fn shape(self) -> Self::Out {
        Each(self.into_iter())
    }
}

impl<T: Send> Shape<AsVec> for Vec<T> {
    type Out = Each<std::vec::IntoIter<T>>;
    fn shape(self) -> Self::Out {
        Each(self.into_iter())
    }
}

impl<T: Send, const N: usize> Shape<AsArray> for [T; N] {
    type Out = Each<std::array::IntoIter<T, N>>;
    fn shape(self) -> Self::Out {
        Each(self.into_iter())
    }
}

impl<I: Iterator<Item: Send> + Send> Shape<AsIter> for I {
    type Out = Each<I>;
    fn shape(self) -> Self::Out {
        Each(self)
    }
}

impl<S: Stream<Item: Output + Send> + Send> Shape<AsStream> for S {
    type Out = Streamed<S>;
    fn shape(self) -> Self::Out {
        Streamed { stream: self }
    }
}

impl<T: Send, E: Into<BoxError>, S: Stream<Item = Result<T, E>> + Send> Shape<AsTryStream> for S {
    type Out = TryStreamed<S>;
    fn shape(self) -> Self::Out {
        TryStreamed { stream: self }
    }
}

/// What a handler returns: a [`Shape`], a `Result` of one, or a future of either.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}` here",
    note = "an own type is returned as `One(value)`, or implements `slipstream::Output`; `#[handle]` needs neither"
)]
pub trait Return<M>: Sized {
    /// How a lane drives it.
    type Out: Outputs;
    /// Turns it into that.
    fn outputs(self) -> Self::Out;
}

/// Marker: the shape itself.
#[derive(Debug)]
pub struct Plain<M>(M);
/// Marker: a result of it.
#[derive(Debug)]
pub struct Fallible<M>(M);
/// Marker: a future of it.
#[derive(Debug)]
pub struct Async<M>(M);
/// Marker: a future of a result of it.
#[derive(Debug)]
pub struct AsyncFallible<M>(M);

impl<T: Shape<M>, M> Return<Plain<M>> for T {
    type Out = T::Out;
    fn outputs(self) -> T::Out {
        self.shape()
    }
}

impl<T: Shape<M>, E: Into<BoxError>, M> Return<Fallible<M>> for Result<T, E> {
    type Out = Try<T::Out>;
    fn outputs(self) -> Self::Out {
        Try::new(self, T::shape)
    }
}

/// What is no future. A function that borrows rows and gives a future is one of the async functions.
pub trait Immediate<M>: Return<M> {}

impl<T: Shape<M>, M> Immediate<Plain<M>> for T {}
impl<T: Shape<M>, E: Into<BoxError>, M> Immediate<Fallible<M>> for Result<T, E> {}

impl<F: Future<Output: Shape<M>> + Send, M> Return<Async<M>> for F {
    type Out = Later<F, fn(F::Output) -> <F::Output as Shape<M>>::Out, <F::Output as Shape<M>>::Out>;
    fn outputs(self) -> Self::Out {
        Later::Calling { future: self, wrap: Some(Shape::shape) }
    }
}

impl<T: Shape<M>, E: Into<BoxError>, F: Future<Output = Result<T, E>> + Send, M> Return<AsyncFallible<M>> for F {
    type Out = Later<F, fn(Result<T, E>) -> Try<T::Out>, Try<T::Out>>;
    fn outputs(self) -> Self::Out {
        Later::Calling { future: self, wrap: Some(|result| Try::new(result, T::shape)) }
    }
}
