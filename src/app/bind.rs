//! Binding one handler: sources → (pipe) → handler → sinks, typed all the way. `#[handle]` writes the calls in
//! [`links`](super::links), the explicit API makes a [`Called`] itself.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::graph::{Edge, Graph};
use super::piped::ThroughPipe;
use super::sources::Sources;
use crate::error::{Error, Kind, Result};
use crate::flow::fold::{HandlerTables, TableRef};
use crate::flow::{Env, NodeId, UnitCx};
use crate::handler::{Bound, Outputs};
use crate::sink::{Sink, SinkBinding};
use crate::source::{AnyShared, Attach, KeyHash, Root, SourceOptions};

/// Who a handler is and what was asked for it.
#[derive(Default)]
pub struct HandlerOptions {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) concurrency: usize,
    pub(crate) timeout: Option<Duration>,
    /// A `KeyHash` of the source's item.
    pub(crate) key: Option<Box<dyn Any + Send>>,
    /// Those that it writes, in the order of its arguments.
    pub(crate) tables: Vec<TableRef>,
}

impl HandlerOptions {
    /// Options of a handler called `name`, which reads what the text `source` says.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.into(), source: source.into(), concurrency: 1, timeout: None, key: None, tables: Vec::new() }
    }

    /// How many lanes per partition.
    #[must_use]
    pub fn concurrency(mut self, lanes: usize) -> Self {
        self.concurrency = lanes;
        self
    }

    /// How long one message may take.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// One more table that it writes.
    #[must_use]
    pub fn table(mut self, table: TableRef) -> Self {
        self.tables.push(table);
        self
    }

    /// By which key lanes are chosen.
    #[must_use]
    pub fn key<In: 'static, K: std::hash::Hash>(mut self, key: impl Fn(&In) -> K + Send + Sync + 'static) -> Self {
        let hash: KeyHash<In> = Arc::new(move |item| hash_of(&key(item)));
        self.key = Some(Box::new(hash));
        self
    }
}

fn hash_of<K: std::hash::Hash>(key: &K) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// An app while it is built.
pub struct Builder<'a> {
    pub(crate) env: &'a Env,
    pub(crate) roots: Vec<Root>,
    pub(crate) shared: BTreeMap<NodeId, Box<dyn AnyShared>>,
    pub(crate) graph: Graph,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(env: &'a Env) -> Self {
        Self { env, roots: Vec::new(), shared: BTreeMap::new(), graph: Graph::default() }
    }

    /// The run it is built for.
    pub fn env(&self) -> &'a Env {
        self.env
    }

    /// What sinks open themselves with.
    pub fn sinks(&self) -> SinkBinding<'a> {
        SinkBinding::new(self.env)
    }
}

/// A handler as a function of an item, and what it gives.
pub trait Call<In>: Send + Sync + 'static {
    /// What the sinks get.
    type Item: Send + 'static;
    /// How a lane drives what it returns.
    type Out: Outputs<Item = Self::Item> + 'static;

    /// Calls it.
    fn call(&self, item: In, unit: &UnitCx) -> Self::Out;
}

impl<In, C, O> Call<In> for C
where
    C: Fn(In, &UnitCx) -> O + Send + Sync + 'static,
    O: Outputs<Item: 'static> + 'static,
{
    type Item = O::Item;
    type Out = O;

    #[inline]
    fn call(&self, item: In, unit: &UnitCx) -> O {
        self(item, unit)
    }
}

/// Sources, a handler, and the sinks so far.
pub struct Called<A, C, K> {
    pub(super) sources: A,
    pub(super) call: C,
    pub(super) sinks: K,
}

impl<A, C, K> Called<A, C, K>
where
    A: Sources,
    C: Call<A::Item>,
    K: Sink<C::Item> + 'static,
{
    /// Attaches it all.
    ///
    /// # Errors
    /// Those of [`IntoSource::attach`](crate::source::IntoSource::attach).
    #[expect(clippy::needless_pass_by_value, reason = "options are used up")]
    pub fn bind(self, builder: &mut Builder<'_>, options: HandlerOptions, sinks: SinkBinding<'_>) -> Result<()> {
        let name: Arc<str> = Arc::from(options.name.as_str());
        let (concurrency, key) = (options.concurrency.max(1), key_of(&options)?);
        let has_ids = sinks.name_ids(&name);
        if has_ids {
            check_ids(&name, builder.env)?;
        }
        let tables =
            HandlerTables { handler: Arc::clone(&name), tables: options.tables.clone(), has_ids, is_piped: false };
        if !tables.tables.is_empty() && concurrency > 1 {
            let message = "`table` with `concurrency` is refused: rows belong to the one lane of their partition";
            return Err(Error::new(Kind::Build, message).at(format!("handler {name}")));
        }
        let source_options = SourceOptions { concurrency, key, handlers: vec![tables], ..SourceOptions::default() };
        let (call, timeout, handler) = (Arc::new(self.call), options.timeout, Arc::clone(&name));
        // Behind a lock since a sink's place for a future need not be `Sync`; taken once per lane.
        let spec = Arc::new(Mutex::new(self.sinks));
        let make = move || {
            let sinks = spec.lock().unwrap_or_else(PoisonError::into_inner).fork();
            let call = Arc::clone(&call);
            let call = move |item, unit: &UnitCx| call.call(item, unit);
            Bound::new(Arc::new(call), Arc::clone(&handler), timeout, sinks)
        };
        let (mut reads, mut external) = (Vec::new(), Vec::new());
        let label = if options.source.is_empty() { &options.name } else { &options.source };
        let mut attach = Attach {
            env: builder.env,
            roots: &mut builder.roots,
            shared: &mut builder.shared,
            reads: &mut reads,
            external: &mut external,
            guarded: builder.graph.guarded(),
        };
        self.sources.attach_all(&mut attach, label, source_options, make)?;
        external.into_iter().for_each(|node| builder.graph.add_external(node));
        let piped = ThroughPipe::take(builder.env)?;
        builder.graph.add(Edge { handler: name, reads, writes: sinks.into_nodes(), piped });
        Ok(())
    }
}

/// A handler whose outputs carry ids has a name that stays, and that no other one has.
fn check_ids(handler: &str, env: &Env) -> Result<()> {
    let refused = |message| Err(Error::new(Kind::Build, message).at(format!("handler {handler}")));
    // What `App::handle` calls closures and generic functions has a line number in it.
    if handler.contains(", line ") {
        return refused("writes stable ids, which have its name in them: give it one that stays, `.name(\"…\")`");
    }
    let named = env.single(&format!("ids of {handler}"), || Ok(Arc::new(AtomicBool::new(false))))?;
    if named.swap(true, Ordering::Relaxed) {
        return refused("writes stable ids under the name of another one: give it one of its own, `.name(\"…\")`");
    }
    Ok(())
}

fn key_of<In: 'static>(options: &HandlerOptions) -> Result<Option<KeyHash<In>>> {
    let Some(key) = &options.key else { return Ok(None) };
    let wrong = || {
        let wanted = std::any::type_name::<In>();
        Error::new(Kind::Build, format!("`key` must take `&{wanted}`")).at(format!("handler {}", options.name))
    };
    key.downcast_ref::<KeyHash<In>>().cloned().map(Some).ok_or_else(wrong)
}
