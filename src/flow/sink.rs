//! What a lane gives outputs to.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::UnitCx;
use crate::error::{BoxError, Result};

/// A place for outputs, for one lane.
///
/// It accepts a value (that is the back-pressure) and may acknowledge it later through a guard of the unit.
pub trait Sink<T>: Send {
    /// Offers `value`. Called until it is ready; the sink takes the value out when it has room for it, and says with
    /// `Ready` that it has accepted it for good.
    fn poll_send(
        self: Pin<&mut Self>,
        value: &mut Option<T>,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>>;

    /// The same sink for another lane.
    #[must_use]
    fn fork(&self) -> Self
    where
        Self: Sized;
}
