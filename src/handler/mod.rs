//! The user's functions: what they take ([`Argument`], [`FromItem`]), what they return (probed by `#[handle]`,
//! [`Return`] in the explicit API), and the stage they become.

mod args;
mod bound;
mod folding;
pub mod outputs;
pub mod probe;
pub mod shape;

use std::sync::Arc;

pub use args::{Argument, Ext, FromItem, Unit};
pub use bound::Bound;
pub use outputs::{Never, Outputs};
pub use shape::{One, Output, Return};

use crate::error::Result;
use crate::flow::fold::TableRef;
use crate::flow::{Env, UnitCx};
use outputs::Try;

/// A function that handles items of `In`, in the explicit API: `fn`, `async fn` or a closure that takes nothing, or
/// the message and then any [`Argument`]s. `M` tells the kinds apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for `{In}`",
    note = "a handler takes nothing, or the message (`{In}` or its value), then any of `Unit`, `Ext<T>`, `Option<Downtime>`, `Option<CheckpointHandle>`, then `&mut Rows<K, V>` for each `.table(…)`; closures must name the type: `|n: u32| …`"
)]
pub trait Handler<In, M>: Send + Sync + Sized + 'static {
    /// How a lane drives what it returns.
    type Out: Outputs<Item: 'static> + 'static;
    /// What is found when the app is built.
    type Prepared: Send + Sync + 'static;

    /// Finds what the arguments need.
    ///
    /// # Errors
    /// [`Kind::Build`](crate::Kind::Build) when something is missing.
    fn prepare(env: &Env, name: &Arc<str>, tables: &[TableRef]) -> Result<Self::Prepared>;

    /// Calls it for one message.
    fn call(&self, prepared: &Self::Prepared, item: In, unit: &UnitCx) -> Self::Out;
}

/// Marker: a handler without arguments.
#[derive(Debug)]
pub struct NoArguments<M>(M);

impl<In, F, R, M> Handler<In, NoArguments<(R, M)>> for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Return<M, Out: Outputs<Item: 'static> + 'static>,
{
    type Out = R::Out;
    type Prepared = ();

    fn prepare(_env: &Env, name: &Arc<str>, tables: &[TableRef]) -> Result<()> {
        folding::check(tables, 0, name)
    }

    fn call(&self, (): &(), _item: In, _unit: &UnitCx) -> R::Out {
        self().outputs()
    }
}

macro_rules! handlers {
    ($(($($arg:ident),*))*) => { $(
        impl<In, F, First, R, M, $($arg),*> Handler<In, (First, R, M, $($arg),*)> for F
        where
            F: Fn(First, $($arg),*) -> R + Send + Sync + 'static,
            First: FromItem<In>,
            $($arg: Argument,)*
            R: Return<M, Out: Outputs<Item: 'static> + 'static>,
        {
            type Out = Try<R::Out>;
            type Prepared = ($($arg::Prepared,)*);

            #[allow(unused_variables, clippy::allow_attributes, reason = "not every arity uses them")]
            fn prepare(env: &Env, name: &Arc<str>, tables: &[TableRef]) -> Result<Self::Prepared> {
                folding::check(tables, 0, name)?;
                Ok(($($arg::prepare(env, name)?,)*))
            }

            #[allow(non_snake_case, unused_variables, clippy::allow_attributes, reason = "one name for a type and its value")]
            #[inline]
            fn call(&self, prepared: &Self::Prepared, item: In, unit: &UnitCx) -> Self::Out {
                let ($($arg,)*) = prepared;
                Try::new(First::from_item(item), |first| self(first, $($arg::get($arg, unit)),*).outputs())
            }
        }
    )* };
}
handlers! {
    ()
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
}
