//! The same choice for `#[handle]`, made by autoref on the value's type, so that aliases, boxed streams and own types
//! all work without a word from the user: the generated code asks `(&&&…Tag::of(&value)).kind()`, and method lookup
//! takes the first of the traits below that the type fulfils (most references are tried first).

use std::future::Future;
use std::marker::PhantomData;

use futures::Stream;

use super::outputs::{Each, Later, Nothing, Outputs, Ready, Streamed, Try, TryStreamed};
use super::shape::One;
use crate::error::BoxError;

/// Stands for a value's type.
pub struct Tag<T>(PhantomData<T>);

impl<T> Tag<T> {
    /// The tag of a value.
    pub fn of(_: &T) -> Self {
        Self(PhantomData)
    }
}

/// Marker types for what was found.
pub mod kind {
    /// A future.
    pub struct Future;
    /// Anything but a future.
    pub struct Now;
    /// A `Result`.
    pub struct Result;
    /// Anything but a `Result`.
    pub struct Bare;
    /// `()`.
    pub struct Nothing;
    /// `One(value)`.
    pub struct Wrapped;
    /// An option.
    pub struct Option;
    /// A vector.
    pub struct Vec;
    /// An array.
    pub struct Array;
    /// A stream of results.
    pub struct TryStream;
    /// A stream.
    pub struct Stream;
    /// An iterator.
    pub struct Iter;
    /// Any other value.
    pub struct Value;
}

macro_rules! probe {
    ($(#[$doc:meta])* $trait:ident, $method:ident, [$($generics:tt)*], $type:ty, $kind:ident $(, where $($bounds:tt)*)?) => {
        $(#[$doc])*
        pub trait $trait {
            /// Names what was found.
            fn $method(&self) -> kind::$kind {
                kind::$kind
            }
        }
        impl<$($generics)*> $trait for $type $(where $($bounds)*)? {}
    };
}

probe!(/// Futures.
    IsFuture, when, [F], &Tag<F>, Future, where F: Future);
probe!(/// All others.
    IsNow, when, [T], Tag<T>, Now);

probe!(/// Results.
    IsResult, whether, [T, E], &Tag<Result<T, E>>, Result);
probe!(/// All others.
    IsBare, whether, [T], Tag<T>, Bare);

probe!(/// `()`.
    IsNothing, shape, [], &&&&&&&&Tag<()>, Nothing);
probe!(/// `One`.
    IsWrapped, shape, [T], &&&&&&&Tag<One<T>>, Wrapped);
probe!(/// Options.
    IsOption, shape, [T], &&&&&&Tag<Option<T>>, Option);
probe!(/// Vectors.
    IsVec, shape, [T], &&&&&Tag<Vec<T>>, Vec);
probe!(/// Arrays.
    IsArray, shape, [T, const N: usize], &&&&Tag<[T; N]>, Array);
probe!(/// Streams of results.
    IsTryStream, shape, [T, E, S], &&&Tag<S>, TryStream, where S: Stream<Item = Result<T, E>>);
probe!(/// Streams.
    IsStream, shape, [S], &&Tag<S>, Stream, where S: Stream);
probe!(/// Iterators.
    IsIter, shape, [I], &Tag<I>, Iter, where I: Iterator);
probe!(/// Any other value.
    IsValue, shape, [T], Tag<T>, Value);

impl kind::Future {
    /// Waits for it first.
    pub fn wrap<F: Future, O: Outputs, G: FnOnce(F::Output) -> O>(self, future: F, wrap: G) -> Later<F, G, O> {
        Later::Calling { future, wrap: Some(wrap) }
    }
}

impl kind::Now {
    /// Goes on at once.
    #[inline]
    pub fn wrap<T, O: Outputs>(self, value: T, wrap: impl FnOnce(T) -> O) -> O {
        wrap(value)
    }
}

impl kind::Result {
    /// Fails by the error policy, or goes on.
    #[inline]
    pub fn wrap<T, E: Into<BoxError>, O: Outputs>(self, result: Result<T, E>, wrap: impl FnOnce(T) -> O) -> Try<O> {
        Try::new(result, wrap)
    }
}

impl kind::Bare {
    /// Goes on.
    #[inline]
    pub fn wrap<T, O: Outputs>(self, value: T, wrap: impl FnOnce(T) -> O) -> O {
        wrap(value)
    }
}

macro_rules! shapes {
    ($($kind:ident, [$($generics:tt)*], $type:ty => $out:ty, $value:ident => $make:expr;)*) => { $(
        impl kind::$kind {
            /// The outputs.
            #[inline]
            pub fn outputs<$($generics)*>(self, $value: $type) -> $out {
                $make
            }
        }
    )* };
}

shapes! {
    Nothing, [], () => Nothing, value => { let () = value; Nothing };
    Wrapped, [T], One<T> => Ready<T>, value => Ready(Some(value.0));
    Option, [T], Option<T> => Each<std::option::IntoIter<T>>, value => Each(value.into_iter());
    Vec, [T], Vec<T> => Each<std::vec::IntoIter<T>>, value => Each(value.into_iter());
    Array, [T, const N: usize], [T; N] => Each<std::array::IntoIter<T, N>>, value => Each(value.into_iter());
    TryStream, [T, E, S: Stream<Item = Result<T, E>>], S => TryStreamed<S>, stream => TryStreamed { stream };
    Stream, [S: Stream], S => Streamed<S>, stream => Streamed { stream };
    Iter, [I: Iterator], I => Each<I>, value => Each(value);
    Value, [T], T => Ready<T>, value => Ready(Some(value));
}
