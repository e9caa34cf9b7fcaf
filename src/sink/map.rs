//! `.map` on a sink: the value is adapted on its way, everything else stays as it was.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{IntoSink, Sink, SinkBinding};
use crate::error::{BoxError, Result};
use crate::flow::UnitCx;

/// A sink with a function in front of it; made by `.map` on a topic, cache or proxy, or by [`map`].
#[derive(Debug, Clone)]
pub struct MapSink<S, F> {
    sink: S,
    map: F,
}

/// Puts `map` in front of `sink`. Topics, caches and proxies have it as a method.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::sink::map;
///
/// # slipstream::testing::block_on(async {
/// App::new()
///     .handle(stream::iter([1, 2]), |n: u32| n, map(print, |n: u32| format!("got {n}")))
///     .run()
///     .await
/// # }).unwrap();
/// ```
pub fn map<S, T, U, F: Fn(T) -> U>(sink: S, map: F) -> MapSink<S, F> {
    MapSink { sink, map }
}

impl<S, F> MapSink<S, F> {
    /// Another function in front of this one.
    #[must_use]
    pub fn map<T, U, G: Fn(T) -> U>(self, map: G) -> MapSink<Self, G> {
        MapSink { sink: self, map }
    }
}

/// Marker: a sink with a function in front.
#[derive(Debug)]
pub struct MapMarker<U, M>(U, M);

impl<S, F, T, U, M> IntoSink<T, MapMarker<U, M>> for MapSink<S, F>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> U + Send + Sync + 'static,
    S: IntoSink<U, M>,
{
    type Sink = Mapped<S::Sink, F, T, U>;
    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<Self::Sink> {
        let sink = self.sink.into_sink(binding)?;
        Ok(Mapped { sink, map: Arc::new(self.map), value: None, marker: PhantomData })
    }
}

pin_project! {
    /// A sink with a function in front, for one lane.
    pub struct Mapped<S, F, T, U> {
        #[pin]
        sink: S,
        map: Arc<F>,
        value: Option<U>,
        marker: PhantomData<fn(T)>,
    }
}

impl<T: Send, U: Send, S: Sink<U>, F: Fn(T) -> U + Send + Sync> Sink<T> for Mapped<S, F, T, U> {
    #[inline]
    fn poll_send(
        self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let this = self.project();
        if let Some(value) = value.take() {
            *this.value = Some((this.map)(value));
        }
        this.sink.poll_send(this.value, unit, cx)
    }

    fn fork(&self) -> Self {
        Self { sink: self.sink.fork(), map: Arc::clone(&self.map), value: None, marker: PhantomData }
    }
}
