//! Where outputs go: the [`Sink`] a lane drives, and [`IntoSink`], by which functions, closures, topics, caches and
//! proxies become one.

mod callable;
mod list;
mod map;

pub use callable::{CallSink, Settled, SinkReturn};
pub use list::{Both, IntoSinks, NoSink};
pub use map::{MapSink, Mapped, map};

use std::sync::{Arc, OnceLock};

pub use crate::flow::Sink;

use crate::error::{Error, Kind, Result};
use crate::flow::{Env, NodeId};

/// What a handler's outputs of type `T` can go to. `M` tells the rules apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a sink for `{T}`",
    label = "this sink does not take `{T}`, which is what the handler gives",
    note = "a sink is `fn(T)` or `async fn(T)` (returning nothing or a `Result<(), _>`), a closure, a `Topic`, `Cache` or `Proxy`",
    note = "a tombstone (`None`) goes to a topic declared with an optional value: `Topic<Option<V>>`"
)]
pub trait IntoSink<T, M> {
    /// What a lane drives.
    type Sink: Sink<T> + 'static;

    /// Opens what it needs.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    fn into_sink(self, binding: &mut SinkBinding<'_>) -> Result<Self::Sink>;
}

/// What a sink sees of the app while a handler is bound to it.
pub struct SinkBinding<'a> {
    env: &'a Env,
    nodes: Vec<NodeId>,
    ids: Option<Arc<OnceLock<Arc<str>>>>,
}

impl<'a> SinkBinding<'a> {
    pub(crate) fn new(env: &'a Env) -> Self {
        Self { env, nodes: Vec::new(), ids: None }
    }

    pub(crate) fn env(&self) -> &'a Env {
        self.env
    }

    /// The handler writes to this node; the graph needs to know.
    pub(crate) fn writes_to(&mut self, node: NodeId) {
        self.nodes.push(node);
    }

    /// The name of the handler, known when it is bound, for a sink that writes ids with it.
    ///
    /// Errors: `Kind::Build` when another sink of the handler already does so for this node: they would write equal ones.
    pub(crate) fn ids(&mut self, node: &NodeId) -> Result<Arc<OnceLock<Arc<str>>>> {
        if self.nodes.iter().filter(|own| *own == node).count() > 1 {
            let message = "is written by two sinks of one handler: their outputs would have equal ids";
            return Err(Error::new(Kind::Build, message).at(node.to_string()));
        }
        Ok(Arc::clone(self.ids.get_or_insert_default()))
    }

    /// Gives the handler's name to those that write ids; whether there are any.
    pub(crate) fn name_ids(&self, handler: &Arc<str>) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.set(Arc::clone(handler)).is_ok())
    }

    pub(crate) fn into_nodes(self) -> Vec<NodeId> {
        self.nodes
    }
}

/// Prints each value on a line of its own; the sink of many examples.
///
/// ```
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(App::new().handle(stream::iter([1, 2]), |n: u32| n, print).run().into_future()).unwrap();
/// ```
#[expect(clippy::print_stdout, reason = "that is its job")]
pub fn print<T: std::fmt::Display>(value: T) {
    println!("{value}");
}

/// Like [`print`](fn@print), as `{:?}`: for values such as tuples that have no `Display`.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::debug;
///
/// # slipstream::testing::block_on(App::new().handle(stream::iter([1, 2]), |n: u32| (n, n), debug).run().into_future()).unwrap();
/// ```
#[expect(clippy::print_stdout, reason = "that is its job")]
pub fn debug<T: std::fmt::Debug>(value: T) {
    println!("{value:?}");
}
