//! What a handler can ask for: the message first, then arguments chosen by type.

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::{Env, UnitCx};
use crate::message::Message;

/// How a source's item becomes a handler's first argument: as it is, the value of a [`Message`], or what a `Result`
/// holds.
#[diagnostic::on_unimplemented(
    message = "the source gives `{I}`, this handler takes `{Self}`",
    label = "the first argument is the message: it must be `{I}`, or its value"
)]
pub trait FromItem<I>: Sized {
    /// The argument, or the error in its place.
    ///
    /// # Errors
    /// The error of an item that is an `Err`.
    fn from_item(item: I) -> std::result::Result<Self, BoxError>;
}

impl<T> FromItem<T> for T {
    #[inline]
    fn from_item(item: T) -> std::result::Result<Self, BoxError> {
        Ok(item)
    }
}

impl<V, K> FromItem<Message<V, K>> for V {
    #[inline]
    fn from_item(item: Message<V, K>) -> std::result::Result<Self, BoxError> {
        Ok(item.value)
    }
}

impl<T, E: Into<BoxError>> FromItem<std::result::Result<T, E>> for T {
    #[inline]
    fn from_item(item: std::result::Result<T, E>) -> std::result::Result<Self, BoxError> {
        item.map_err(Into::into)
    }
}

/// An argument after the message. Resolved when the app is built; a message costs at most a clone.
#[diagnostic::on_unimplemented(
    message = "a handler cannot ask for `{Self}`",
    label = "unknown handler argument",
    note = "after the message a handler takes any of `Unit`, `Ext<T>`, and, as options, `Option<Downtime>` and `Option<CheckpointHandle>`",
    note = "then it takes `&mut Rows<K, V>` for each table"
)]
pub trait Argument: Sized + Send {
    /// What is found when the app is built.
    type Prepared: Send + Sync + 'static;

    /// Finds it.
    ///
    /// # Errors
    /// [`Kind::Build`] when it is missing.
    fn prepare(env: &Env, handler: &Arc<str>) -> Result<Self::Prepared>;

    /// The argument for one message.
    fn get(prepared: &Self::Prepared, unit: &UnitCx) -> Self;
}

/// What a handler may know of the unit of work it is called for.
///
/// ```
/// use slipstream::prelude::*;
///
/// fn located(line: String, unit: Unit) -> String {
///     format!("{}: {line}", unit.place())
/// }
/// # slipstream::testing::block_on(async {
/// let app = App::new().handle(stream::iter([String::from("hi")]), located, print);
/// app.run().await
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Unit {
    fixed: Arc<UnitFixed>,
    source: Arc<str>,
    partition: i32,
    offset: i64,
}

#[derive(Debug)]
#[doc(hidden)]
pub struct UnitFixed {
    app_id: Arc<str>,
    handler: Arc<str>,
    shutdown: CancellationToken,
}

impl Unit {
    /// The app's id.
    pub fn app_id(&self) -> &str {
        &self.fixed.app_id
    }

    /// The handler's name.
    pub fn handler(&self) -> &str {
        &self.fixed.handler
    }

    /// The source's name: a topic's as the broker knows it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The partition; 0 when the source has none.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offset; `None` when the source has none.
    pub fn offset(&self) -> Option<i64> {
        (self.offset >= 0).then_some(self.offset)
    }

    /// Which try this is, from 1.
    pub fn attempt(&self) -> u32 {
        1
    }

    /// Cancelled when the app begins to shut down.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.fixed.shutdown
    }

    /// `source[partition]@offset`, or the source alone.
    pub fn place(&self) -> String {
        match self.offset() {
            Some(offset) => crate::message::place(&self.source, self.partition, offset),
            None => self.source.to_string(),
        }
    }
}

impl Argument for Unit {
    type Prepared = Arc<UnitFixed>;

    fn prepare(env: &Env, handler: &Arc<str>) -> Result<Self::Prepared> {
        Ok(Arc::new(UnitFixed {
            app_id: Arc::clone(&env.parts().app_id),
            handler: Arc::clone(handler),
            shutdown: env.stop().clone(),
        }))
    }

    fn get(prepared: &Self::Prepared, unit: &UnitCx) -> Self {
        Self {
            fixed: Arc::clone(prepared),
            source: Arc::clone(unit.source()),
            partition: unit.partition(),
            offset: unit.offset(),
        }
    }
}

/// What `stream().with(value)` passed, shared by all handlers that ask for it.
///
/// ```
/// use slipstream::prelude::*;
///
/// struct Greeting(&'static str);
///
/// fn greet(name: String, Ext(greeting): Ext<Greeting>) -> String {
///     format!("{} {name}", greeting.0)
/// }
/// # slipstream::testing::block_on(async {
/// App::new()
///     .handle(stream::iter([String::from("Ada")]), greet, print)
///     .with(Greeting("Hello"))
///     .run()
///     .await
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Ext<T>(pub Arc<T>);

impl<T> Clone for Ext<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Ext<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> Argument for Ext<T> {
    type Prepared = Arc<T>;

    fn prepare(env: &Env, handler: &Arc<str>) -> Result<Self::Prepared> {
        env.ext::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::new(
                Kind::Build,
                format!("asks for `Ext<{name}>`, which nothing gave: add `.with(value)` to the run"),
            )
            .at(format!("handler {handler}"))
        })
    }

    fn get(prepared: &Self::Prepared, _unit: &UnitCx) -> Self {
        Self(Arc::clone(prepared))
    }
}
