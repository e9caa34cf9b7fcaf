//! Handlers that borrow rows: `fn` and `async fn`, after the message and the other arguments.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::outputs::{Outputs, Try};
use super::shape::{Immediate, Return};
use super::{Argument, FromItem, Handler};
use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::fold::{Lent, TableRef};
use crate::flow::{Env, UnitCx};

/// As many tables as the handler takes rows.
pub(super) fn check(tables: &[TableRef], wanted: usize, handler: &str) -> Result<()> {
    if tables.len() == wanted {
        return Ok(());
    }
    let has = tables.len();
    let message = format!("takes `&mut Rows` {wanted} times and has {has} tables: the n-th is lent by the n-th table");
    Err(Error::new(Kind::Build, message).at(format!("handler {handler}")))
}

/// What the n-th table lends.
fn lender<S: Lent>(tables: &[TableRef], at: usize, handler: &str) -> Result<S::Prepared> {
    let missing = || check(tables, at + 1, handler).err().unwrap_or_else(|| Error::new(Kind::Build, "no table"));
    S::prepare(tables.get(at).ok_or_else(missing)?, handler)
}

/// Marker: a function that borrows rows.
#[derive(Debug)]
pub struct Folding<M>(PhantomData<M>);

/// Marker: an async function that borrows rows.
#[derive(Debug)]
pub struct FoldingAsync<M>(PhantomData<M>);

/// An async function of `In` (the message and arguments by value) that borrows `S`.
pub trait Borrows<'s, In, S> {
    /// What it ends with.
    type End;
    /// The future.
    type Future: Future<Output = Self::End> + Send + 's;

    /// Calls it.
    fn call(&self, input: In, lent: S) -> Self::Future;
}

macro_rules! folding {
    ($([$($arg:ident $argument:ident),*] [$($lent:ident $rows:ident $at:tt),+] $count:literal;)*) => { $(
        impl<'s, F, Fut, First, $($arg,)* $($lent: 's),+> Borrows<'s, (First, $($arg,)*), ($(&'s mut $lent,)+)> for F
        where
            F: Fn(First, $($arg,)* $(&'s mut $lent),+) -> Fut,
            Fut: Future + Send + 's,
        {
            type End = Fut::Output;
            type Future = Fut;

            #[inline]
            fn call(&self, (first, $($argument,)*): (First, $($arg,)*), ($($rows,)+): ($(&'s mut $lent,)+)) -> Fut {
                self(first, $($argument,)* $($rows),+)
            }
        }

        impl<In, F, First, R, M, $($arg,)* $($lent),+> Handler<In, Folding<(First, R, M, ($($arg,)*), ($($lent,)+))>> for F
        where
            F: Fn(First, $($arg,)* $(&mut $lent),+) -> R + Send + Sync + 'static,
            First: FromItem<In>,
            $($arg: Argument,)*
            $($lent: Lent,)+
            R: Immediate<M> + Return<M, Out: Outputs<Item: 'static> + 'static>,
        {
            type Out = Try<R::Out>;
            type Prepared = (($($arg::Prepared,)*), ($($lent::Prepared,)+));

            #[allow(unused_variables, clippy::allow_attributes, reason = "not every arity uses them")]
            fn prepare(env: &Env, name: &Arc<str>, tables: &[TableRef]) -> Result<Self::Prepared> {
                check(tables, $count, name)?;
                Ok((($($arg::prepare(env, name)?,)*), ($(lender::<$lent>(tables, $at, name)?,)+)))
            }

            #[inline]
            fn call(&self, (arguments, rows): &Self::Prepared, item: In, unit: &UnitCx) -> Self::Out {
                let ($($argument,)*) = arguments;
                let lend = || Ok::<_, BoxError>((First::from_item(item)?, $($lent::lend(&rows.$at, unit)?,)+));
                Try::new(lend(), |(first, $(mut $rows,)+)| {
                    self(first, $($arg::get($argument, unit),)* $(&mut $rows),+).outputs()
                })
            }
        }

        impl<In, F, First, R, M, $($arg,)* $($lent),+>
            Handler<In, FoldingAsync<(First, R, M, ($($arg,)*), ($($lent,)+))>> for F
        where
            F: for<'s> Borrows<'s, (First, $($arg,)*), ($(&'s mut $lent,)+), End = R> + Clone + Send + Sync + 'static,
            First: FromItem<In> + Send + 'static,
            $($arg: Argument + 'static,)*
            $($lent: Lent,)+
            R: Send + 'static,
            BoxFuture<'static, R>: Return<M, Out: Outputs<Item: 'static> + 'static>,
        {
            type Out = Try<<BoxFuture<'static, R> as Return<M>>::Out>;
            type Prepared = (($($arg::Prepared,)*), ($($lent::Prepared,)+));

            #[allow(unused_variables, clippy::allow_attributes, reason = "not every arity uses them")]
            fn prepare(env: &Env, name: &Arc<str>, tables: &[TableRef]) -> Result<Self::Prepared> {
                check(tables, $count, name)?;
                Ok((($($arg::prepare(env, name)?,)*), ($(lender::<$lent>(tables, $at, name)?,)+)))
            }

            fn call(&self, (arguments, rows): &Self::Prepared, item: In, unit: &UnitCx) -> Self::Out {
                let ($($argument,)*) = arguments;
                let lend = || Ok::<_, BoxError>((First::from_item(item)?, $($lent::lend(&rows.$at, unit)?,)+));
                Try::new(lend(), |(first, $(mut $rows,)+)| {
                    let handler = self.clone();
                    let input = (first, $($arg::get($argument, unit),)*);
                    let future: BoxFuture<'static, R> =
                        Box::pin(async move { handler.call(input, ($(&mut $rows,)+)).await });
                    future.outputs()
                })
            }
        }
    )* };
}
folding! {
    [] [S0 s0 0] 1;
    [] [S0 s0 0, S1 s1 1] 2;
    [] [S0 s0 0, S1 s1 1, S2 s2 2] 3;
    [A a] [S0 s0 0] 1;
    [A a] [S0 s0 0, S1 s1 1] 2;
    [A a] [S0 s0 0, S1 s1 1, S2 s2 2] 3;
    [A a, B b] [S0 s0 0] 1;
    [A a, B b] [S0 s0 0, S1 s1 1] 2;
    [A a, B b] [S0 s0 0, S1 s1 1, S2 s2 2] 3;
}
