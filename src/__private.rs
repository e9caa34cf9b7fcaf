//! What the code of `#[handle]` uses.

use std::sync::Arc;

pub use crate::app::Registered;
pub use crate::app::bind::{Builder, HandlerOptions};
pub use crate::app::links::{and, bind, call, closure, folded, from, keyed, mapped, more, pipe, probe, sink};
pub use crate::error::Result;
pub use crate::flow::UnitCx;
pub use crate::handler::outputs::Try;
pub use crate::handler::probe::Tag;
pub use crate::util::watch_steps;
pub use inventory;

/// The traits whose methods the code calls, without names that could stand in front of the user's.
pub mod methods {
    pub use crate::app::links::{Nothing as _, Something as _};
    pub use crate::handler::probe::{
        IsArray as _, IsBare as _, IsFuture as _, IsIter as _, IsNothing as _, IsNow as _, IsOption as _,
        IsResult as _, IsStream as _, IsTryStream as _, IsValue as _, IsVec as _, IsWrapped as _,
    };
}

use crate::error::BoxError;
use crate::flow::Env;
use crate::flow::fold::{Lent, TableOf, TableRef};
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

/// A table without its types, and what lends a handler its rows.
///
/// # Errors
/// None, since the compiler has compared the types.
pub fn lender<S: Lent, T: TableOf<S>>(table: T, handler: &str) -> Result<(TableRef, S::Prepared)> {
    let table = table.table_ref();
    let prepared = S::prepare(&table, handler)?;
    Ok((table, prepared))
}

/// Rows for one message.
///
/// # Errors
/// None in a lane that was made for the handler.
#[inline]
pub fn lent<S: Lent>(prepared: &S::Prepared, unit: &UnitCx) -> std::result::Result<S, BoxError> {
    Ok(S::lend(prepared, unit)?)
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
