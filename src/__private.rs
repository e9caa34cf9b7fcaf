//! What the code of `#[handle]` uses.

use std::sync::Arc;

pub use crate::app::Registered;
pub use crate::app::bind::{Builder, HandlerOptions};
pub use crate::app::links::{self, and, bind, call, closure, from, keyed, mapped, more, pipe, sink};
pub use crate::error::Result;
pub use crate::flow::UnitCx;
pub use crate::handler::outputs::Try;
pub use crate::handler::probe::{self, Tag};
pub use inventory;

use crate::error::BoxError;
use crate::flow::Env;
use crate::handler::{Argument, FromItem};

/// The message as the handler takes it.
#[inline]
pub fn message<I, T: FromItem<I>>(item: I) -> std::result::Result<T, BoxError> {
    T::from_item(item)
}

/// What an argument needs.
///
/// # Errors
/// When it is missing.
pub fn prepare<T: Argument>(env: &Env, handler: &str) -> Result<T::Prepared> {
    T::prepare(env, &Arc::from(handler))
}

/// An argument for one message.
#[inline]
pub fn argument<T: Argument>(prepared: &T::Prepared, unit: &UnitCx) -> T {
    T::get(prepared, unit)
}

/// What a handler without a message may be called for.
#[diagnostic::on_unimplemented(
    message = "the source gives `{Self}`, and this handler takes no message",
    label = "the first argument is the message: take a `{Self}`, or its value"
)]
pub trait Tick {}

impl Tick for () {}

/// A handler without a message is called for ticks only.
#[inline]
pub fn tick<T: Tick>(_: T) {}
