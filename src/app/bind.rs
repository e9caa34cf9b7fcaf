//! Binding one handler: sources → (pipe) → handler → sinks, typed all the way. `#[handle]` writes these calls, the
//! explicit API makes them.

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;

use super::graph::{Edge, Graph};
use crate::error::{Error, Kind, Result};
use crate::flow::{Env, NodeId, Stage, UnitCx};
use crate::handler::{Bound, Outputs};
use crate::pipe::{PipeStage, Piped, SharedStage, refuse_lanes};
use crate::sink::{Both, IntoSink, Mapped, NoSink, Sink, SinkBinding};
use crate::source::{AnyShared, Attach, IntoSource, KeyHash, Root, SourceOptions};

/// Who a handler is and what was asked for it.
#[derive(Default)]
pub struct HandlerOptions {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) concurrency: usize,
    pub(crate) timeout: Option<Duration>,
    /// A `KeyHash` of the source's item.
    pub(crate) key: Option<Box<dyn Any + Send>>,
}

impl HandlerOptions {
    /// Options of a handler called `name`, which reads what the text `source` says.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.into(), source: source.into(), concurrency: 1, timeout: None, key: None }
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

/// The sources of one handler.
pub trait Sources: Sized {
    /// What they all give.
    type Item: Send + 'static;
    /// How many there are.
    const COUNT: usize;

    /// Attaches a stage to each of them.
    ///
    /// # Errors
    /// Those of [`IntoSource::attach`].
    fn attach_all<St, F>(
        self,
        to: &mut Attach<'_>,
        label: &str,
        options: SourceOptions<Self::Item>,
        make: F,
    ) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static;
}

/// One source.
pub struct From<S, M>(S, PhantomData<fn() -> M>);

/// Begins with a source.
pub fn from<S: IntoSource<M>, M>(source: S) -> From<S, M> {
    From(source, PhantomData)
}

impl<S: IntoSource<M>, M> Sources for From<S, M> {
    type Item = S::Item;
    const COUNT: usize = 1;

    fn attach_all<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<S::Item>, make: F) -> Result<()>
    where
        St: Stage<S::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static,
    {
        self.0.attach(to, label, options, make)
    }
}

/// One more source of the same item.
pub struct And<A, S, M>(A, S, PhantomData<fn() -> M>);

impl<A: Sources, S: IntoSource<M, Item = A::Item>, M> Sources for And<A, S, M> {
    type Item = A::Item;
    const COUNT: usize = A::COUNT + 1;

    fn attach_all<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<A::Item>, make: F) -> Result<()>
    where
        St: Stage<A::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static,
    {
        self.0.attach_all(to, label, options.clone(), make.clone())?;
        self.1.attach(to, label, options, make)
    }
}

/// Sources with a pipe behind them.
pub struct Pipe<A, P>(A, P);

impl<A, P, S> Sources for Pipe<A, P>
where
    A: Sources<Item: Send>,
    P: FnOnce(Piped<A::Item>) -> S,
    S: Stream<Item: Send + 'static> + Send + 'static,
{
    type Item = S::Item;
    const COUNT: usize = A::COUNT;

    fn attach_all<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<S::Item>, make: F) -> Result<()>
    where
        St: Stage<S::Item> + 'static,
        F: Fn() -> St + Clone + Send + Sync + 'static,
    {
        refuse_lanes(label, options.concurrency)?;
        let stage = PipeStage::new(self.1, make(), Arc::from(label));
        let shared = SharedStage::new(stage, A::COUNT);
        self.0.attach_all(to, label, SourceOptions::default(), move || shared.lane())
    }
}

macro_rules! chain {
    ($([$($generics:tt)*] $type:ty),*) => { $(
        impl<$($generics)*> $type
        where
            Self: Sources,
        {
            /// Another source of the same item.
            pub fn and<T: IntoSource<N, Item = <Self as Sources>::Item>, N>(self, source: T) -> And<Self, T, N> {
                And(self, source, PhantomData)
            }

            /// The key by which lanes are chosen.
            pub fn keyed<K, H>(&self, options: HandlerOptions, key: K) -> HandlerOptions
            where
                K: Fn(&<Self as Sources>::Item) -> H + Send + Sync + 'static,
                H: std::hash::Hash,
            {
                options.key(key)
            }

            /// A pipe behind the sources.
            pub fn pipe<Q, T>(self, pipe: Q) -> Pipe<Self, Q>
            where
                Q: FnOnce(Piped<<Self as Sources>::Item>) -> T,
                T: Stream<Item: Send + 'static> + Send + 'static,
            {
                Pipe(self, pipe)
            }

            /// The handler, as a function of an item.
            pub fn call<C, O>(self, call: C) -> Called<Self, C, NoSink>
            where
                C: Fn(<Self as Sources>::Item, &UnitCx) -> O + Send + Sync + 'static,
                O: Outputs,
            {
                Called { sources: self, call, sinks: NoSink }
            }
        }
    )* };
}
chain!([S, M] From<S, M>, [A, S, M] And<A, S, M>, [A, P] Pipe<A, P>);

/// Sources, a handler, and the sinks so far.
pub struct Called<A, C, K> {
    pub(super) sources: A,
    pub(super) call: C,
    pub(super) sinks: K,
}

impl<A, C, O> Called<A, C, NoSink>
where
    A: Sources,
    C: Fn(A::Item, &UnitCx) -> O + Send + Sync + 'static,
    O: Outputs,
{
    /// The first sink.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    pub fn sink<S, M>(self, binding: &mut SinkBinding<'_>, sink: S) -> Result<Called<A, C, S::Sink>>
    where
        S: IntoSink<O::Item, M>,
    {
        Ok(Called { sources: self.sources, call: self.call, sinks: sink.into_sink(binding)? })
    }

    /// The first sink, with a closure in front.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    #[expect(clippy::type_complexity, reason = "the list of sinks is its type")]
    pub fn mapped<S, F, U, M>(
        self,
        binding: &mut SinkBinding<'_>,
        sink: S,
        map: F,
    ) -> Result<Called<A, C, Mapped<S::Sink, F, O::Item, U>>>
    where
        F: Fn(O::Item) -> U + Send + Sync + 'static,
        S: IntoSink<U, M>,
        U: Send + 'static,
        O::Item: 'static,
    {
        self.sink(binding, crate::sink::map(sink, map))
    }

    /// The first sink, a closure: its argument's type is known from the handler.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::type_complexity, reason = "the list of sinks is its type")]
    pub fn closure<F, R, M>(
        self,
        binding: &mut SinkBinding<'_>,
        sink: F,
    ) -> Result<Called<A, C, <F as IntoSink<O::Item, (R, M)>>::Sink>>
    where
        F: Fn(O::Item) -> R + IntoSink<O::Item, (R, M)>,
    {
        Ok(Called { sources: self.sources, call: self.call, sinks: sink.into_sink(binding)? })
    }
}

/// More sinks than one: each output is cloned for all but the last.
pub struct More<A, C, K>(Called<A, C, K>);

impl<A, C, K> Called<A, C, K> {
    /// Sinks may follow.
    pub fn more(self) -> More<A, C, K> {
        More(self)
    }
}

impl<A, C, K, O> More<A, C, K>
where
    A: Sources,
    C: Fn(A::Item, &UnitCx) -> O + Send + Sync + 'static,
    O: Outputs,
    K: Sink<O::Item>,
{
    /// The next sink.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    #[expect(clippy::type_complexity, reason = "the list of sinks is its type")]
    pub fn sink<S, M>(self, binding: &mut SinkBinding<'_>, sink: S) -> Result<Called<A, C, Both<K, S::Sink, O::Item>>>
    where
        S: IntoSink<O::Item, M>,
        O::Item: Clone,
    {
        let Called { sources, call, sinks } = self.0;
        Ok(Called { sources, call, sinks: Both::new(sinks, sink.into_sink(binding)?) })
    }

    /// The next sink, with a closure in front.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    #[expect(clippy::type_complexity, reason = "the list of sinks is its type")]
    pub fn mapped<S, F, U, M>(
        self,
        binding: &mut SinkBinding<'_>,
        sink: S,
        map: F,
    ) -> Result<Called<A, C, Both<K, Mapped<S::Sink, F, O::Item, U>, O::Item>>>
    where
        F: Fn(O::Item) -> U + Send + Sync + 'static,
        S: IntoSink<U, M>,
        U: Send + 'static,
        O::Item: Clone + 'static,
    {
        self.sink(binding, crate::sink::map(sink, map))
    }

    /// The next sink, a closure.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::type_complexity, reason = "the list of sinks is its type")]
    pub fn closure<F, R, M>(
        self,
        binding: &mut SinkBinding<'_>,
        sink: F,
    ) -> Result<Called<A, C, Both<K, <F as IntoSink<O::Item, (R, M)>>::Sink, O::Item>>>
    where
        F: Fn(O::Item) -> R + IntoSink<O::Item, (R, M)>,
        O::Item: Clone,
    {
        let Called { sources, call, sinks } = self.0;
        Ok(Called { sources, call, sinks: Both::new(sinks, sink.into_sink(binding)?) })
    }
}

impl<A, C, K, O> Called<A, C, K>
where
    A: Sources,
    C: Fn(A::Item, &UnitCx) -> O + Send + Sync + 'static,
    O: Outputs<Item: 'static> + 'static,
    K: Sink<O::Item> + 'static,
{
    /// Attaches it all.
    ///
    /// # Errors
    /// Those of [`IntoSource::attach`].
    #[expect(clippy::needless_pass_by_value, reason = "options are used up")]
    pub fn bind(self, builder: &mut Builder<'_>, options: HandlerOptions, sinks: SinkBinding<'_>) -> Result<()> {
        let name: Arc<str> = Arc::from(options.name.as_str());
        let source_options = SourceOptions { concurrency: options.concurrency.max(1), key: key_of(&options)? };
        let (call, timeout, handler) = (Arc::new(self.call), options.timeout, Arc::clone(&name));
        // Behind a lock since a sink's place for a future need not be `Sync`; taken once per lane.
        let spec = Arc::new(Mutex::new(self.sinks));
        let make = move || {
            let sinks = spec.lock().unwrap_or_else(PoisonError::into_inner).fork();
            Bound::new(Arc::clone(&call), Arc::clone(&handler), timeout, sinks)
        };
        let (mut reads, mut external) = (Vec::new(), Vec::new());
        let label = if options.source.is_empty() { &options.name } else { &options.source };
        let mut attach = Attach {
            env: builder.env,
            roots: &mut builder.roots,
            shared: &mut builder.shared,
            reads: &mut reads,
            external: &mut external,
        };
        self.sources.attach_all(&mut attach, label, source_options, make)?;
        external.into_iter().for_each(|node| builder.graph.add_external(node));
        builder.graph.add(Edge { handler: name, reads, writes: sinks.into_nodes() });
        Ok(())
    }
}

fn key_of<In: 'static>(options: &HandlerOptions) -> Result<Option<KeyHash<In>>> {
    let Some(key) = &options.key else { return Ok(None) };
    let wrong = || {
        let wanted = std::any::type_name::<In>();
        Error::new(Kind::Build, format!("`key` must take `&{wanted}`")).at(format!("handler {}", options.name))
    };
    key.downcast_ref::<KeyHash<In>>().cloned().map(Some).ok_or_else(wrong)
}
