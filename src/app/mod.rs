//! An app: handlers, what they may ask for, and how it is run.

pub mod bind;
mod graph;
pub mod links;
mod piped;
mod registry;
mod report;
mod run;
mod shutdown;
pub mod sources;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use bind::{Builder, Called, HandlerOptions};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use piped::{FromPiped, PipedSource, pipe};
pub use registry::{Registered, stream};
pub use report::{Health, LaneHealth, LaneTotals, SourceHealth, SourceTotals, State, Stats};
pub use run::{Run, RunHandle, Signals};

use crate::conf::Conf;
use crate::error::Result;
use crate::flow::UnitCx;
use crate::flow::fold::{Lent, TableOf};
use crate::handler::{Handler, Outputs};
use crate::sink::IntoSinks;
use crate::source::IntoSource;

type Bind = Box<dyn FnOnce(&mut Builder<'_>, HandlerOptions) -> Result<()> + Send>;
type Beside = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<()>> + Send>;
type ExitHook = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// Handlers and how to run them; `#[handle]` and [`stream()`] make one of everything that is declared, this is for the
/// rest.
///
/// ```
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// App::new()
///     .handle(stream::iter(1..=3), |n: u32| n * n, print)
///     .run()
///     .await
/// # }).unwrap();
/// ```
#[must_use = "an app does nothing until it is run"]
#[derive(Default)]
pub struct App {
    bindings: Vec<(HandlerOptions, Bind)>,
    conf: Option<Conf>,
    exts: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    beside: Vec<Beside>,
    exit_hooks: Vec<ExitHook>,
    drain_timeout: Option<Duration>,
    signals: Signals,
}

impl App {
    /// An app without handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a handler: every message of `source` goes to `handler`, and each of its outputs to all `sinks` (one sink,
    /// a tuple or an array of sinks, or `()`). Handlers of one source get each message in the order of these calls.
    ///
    /// Without a [`name`](Self::name) a function is called by its own, a closure by where it is bound: `closure in
    /// my_app::orders::bind, line 12`.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// async fn store(n: u32) -> std::io::Result<()> {
    ///     assert!(n % 2 == 0);
    ///     Ok(())
    /// }
    ///
    /// App::new()
    ///     .handle(stream::iter(0..4), |n: u32| (n % 2 == 0).then_some(n), (print, store)) // two sinks
    ///     .handle(stream::iter(0..4), |n: u32| assert!(n < 4), ()) // none
    ///     .run()
    ///     .await
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn handle<S, MS, F, MF, K, MK>(mut self, source: S, handler: F, sinks: K) -> Self
    where
        S: IntoSource<MS> + Send + 'static,
        MS: 'static,
        F: Handler<S::Item, MF>,
        MF: 'static,
        K: IntoSinks<<F::Out as Outputs>::Item, MK> + Send + 'static,
        MK: 'static,
    {
        let bind = move |builder: &mut Builder<'_>, options: HandlerOptions| {
            let prepared = F::prepare(builder.env(), &Arc::from(options.name.as_str()), &options.tables)?;
            let mut binding = builder.sinks();
            let sinks = sinks.into_sinks(&mut binding)?;
            let call = move |item: S::Item, unit: &UnitCx| handler.call(&prepared, item, unit);
            Called { sources: links::from(source), call, sinks }.bind(builder, options, binding)
        };
        let options =
            HandlerOptions::new(handler_name(std::any::type_name::<F>(), Location::caller().line()), String::new());
        self.bindings.push((options, Box::new(bind)));
        self
    }

    /// Names the handler bound last, for errors, logs and counters.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.change_last(|options| options.name = name.into())
    }

    /// How long one message may take in the handler bound last; beyond it the run ends with
    /// [`Kind::Timeout`](crate::Kind::Timeout). Default: no limit.
    pub fn timeout(self, limit: Duration) -> Self {
        self.change_last(|options| options.timeout = Some(limit))
    }

    /// Gives the source of the handler bound last `lanes` lanes per partition; order is kept per key. Belongs to the
    /// source: handlers that disagree are refused. Default 1.
    pub fn concurrency(self, lanes: usize) -> Self {
        self.change_last(|options| options.concurrency = lanes)
    }

    /// Gives the handler bound last a table to write: the n-th `&mut Rows<K, V>` behind its message is lent by the n-th
    /// table. The source is a topic, read in one lane per partition. A closure needs a [`name`](Self::name), since the
    /// store remembers by whom its rows were written.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// let words: Topic<u32> = Topic::named("words");
    /// let (counts, last): (Table<String, u64>, Table<String, u32>) = (Table::named("counts"), Table::named("last"));
    /// let run = App::new()
    ///     .conf(Conf::isolated().with("broker", "memory:"))
    ///     .handle(stream::iter(1..=3), |n: u32| ("swift".to_owned(), n), words.clone())
    ///     .handle(
    ///         words,
    ///         |word: Message<u32>, counts: &mut Rows<String, u64>, last: &mut Rows<String, u32>| -> Result<()> {
    ///             counts.update(word.key()?, |n| n.unwrap_or(0) + 1)?;
    ///             last.put(word.key()?, word.value)
    ///         },
    ///         (),
    ///     )
    ///     .name("count")
    ///     .table(&counts)
    ///     .table(&last)
    ///     .run();
    /// let handle = run.handle();
    /// let look = async move |_stop| {
    ///     slipstream::testing::until(|| matches!(last.get("swift"), Ok(Some(3)))).await;
    ///     assert_eq!(counts.get("swift")?, Some(3)); // stored in the same batch
    ///     Ok(handle.trigger())
    /// };
    /// run.beside(look).await
    /// # }).unwrap();
    /// ```
    pub fn table<S: Lent>(self, table: &impl TableOf<S>) -> Self {
        let table = table.table_ref();
        self.change_last(|options| options.tables.push(table))
    }

    /// By which key the lanes of [`concurrency`](Self::concurrency) are chosen, for sources without keys. `In` is what
    /// the source gives.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// App::new()
    ///     .handle(stream::iter((0..9).map(|n| (n % 3, n))), |(sensor, n): (u32, u32)| format!("{sensor}: {n}"), print)
    ///     .concurrency(2)
    ///     .key(|(sensor, _): &(u32, u32)| *sensor)
    ///     .run()
    ///     .await
    /// # }).unwrap();
    /// ```
    pub fn key<In: 'static, Key: std::hash::Hash>(self, key: impl Fn(&In) -> Key + Send + Sync + 'static) -> Self {
        self.change_last(|options| *options = std::mem::take(options).key(key))
    }

    fn change_last(mut self, change: impl FnOnce(&mut HandlerOptions)) -> Self {
        if let Some((options, _)) = self.bindings.last_mut() {
            change(options);
        }
        self
    }

    /// The configuration to run under. Default: the process-wide one.
    pub fn conf(mut self, conf: Conf) -> Self {
        self.conf = Some(conf);
        self
    }

    /// Gives `value` to every handler that asks for [`Ext<T>`](crate::Ext).
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.exts.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Runs `task` beside the sources: it is told to stop first and awaited before the sources stop. For an HTTP
    /// server, say. An error of it ends the run.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// let server = |stop: tokio_util::sync::CancellationToken| async move {
    ///     stop.cancelled().await; // serve until told to stop
    ///     Ok(())
    /// };
    /// App::new().handle(stream::iter([1]), |n: u32| n, print).beside(server).run().await
    /// # }).unwrap();
    /// ```
    pub fn beside<F, Fut>(mut self, task: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.beside.push(Box::new(move |stop| Box::pin(task(stop))));
        self
    }

    /// Called at the very end, after the stores are closed. All hooks run, whatever fails.
    ///
    /// ```
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// let app = App::new().handle(stream::iter([1]), |n: u32| n, print);
    /// app.on_exit(async || Ok(println!("bye"))).run().await
    /// # }).unwrap();
    /// ```
    pub fn on_exit<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.exit_hooks.push(Box::new(move || Box::pin(hook())));
        self
    }

    /// How long a shutdown may drain what is in flight; what exceeds it is not committed. Default `drain.timeout`,
    /// 30 s.
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.drain_timeout = Some(limit);
        self
    }

    /// Which signals end the run. Default: SIGINT and SIGTERM drain, a second one ends at once.
    ///
    /// ```
    /// use slipstream::prelude::*;
    /// use slipstream::Signals;
    ///
    /// # slipstream::testing::block_on(async {
    /// // The program has its own idea of what a signal means, and ends the run with `RunHandle::trigger`.
    /// let run = App::new().handle(stream::pending::<u32>(), |n: u32| n, print).signals(Signals::Ignore).run();
    /// run.handle().trigger();
    /// run.await
    /// # }).unwrap();
    /// ```
    pub fn signals(mut self, signals: Signals) -> Self {
        self.signals = signals;
        self
    }

    /// The run, to be awaited.
    pub fn run(self) -> Run {
        Run::new(self)
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.bindings.iter().map(|(options, _)| &options.name).collect();
        f.debug_struct("App").field("handlers", &names).finish_non_exhaustive()
    }
}

/// What a handler is called that was given no name: a function's own, or where a closure is bound.
fn handler_name(type_name: &str, line: u32) -> String {
    const CLOSURE: &str = "::{{closure}}";
    let enclosing = type_name.trim_end_matches(CLOSURE);
    if enclosing.len() < type_name.len() {
        return format!("closure in {enclosing}, line {line}");
    }
    if type_name.contains('(') {
        return format!("{type_name}, line {line}");
    }
    let path = without_generics(type_name);
    path.rsplit("::").next().unwrap_or(&path).to_owned()
}

/// `m::f<a::B>` and `<a::B as m::T>::f` without what stands in angle brackets.
fn without_generics(path: &str) -> String {
    let mut depth = 0_usize;
    path.chars()
        .filter(|c| {
            depth += usize::from(*c == '<');
            let outside = depth == 0;
            depth -= usize::from(*c == '>').min(depth);
            outside
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{App, handler_name};

    fn echo(n: u32) -> u32 {
        n
    }

    #[test]
    fn closures_that_are_bound_in_different_lines_have_different_names() {
        let first = line!() + 2;
        let app = App::new()
            .handle(crate::every(std::time::Duration::from_secs(1)), echo_nothing, ())
            .handle(futures::stream::iter([1]), |n: u32| n, crate::print)
            .handle(futures::stream::iter([1]), |n: u32| n, crate::print)
            .handle(futures::stream::iter([1]), echo, crate::print);
        let names: Vec<_> = app.bindings.iter().map(|(options, _)| options.name.as_str()).collect();
        let closure = |line| {
            format!(
                "closure in {}::closures_that_are_bound_in_different_lines_have_different_names, line {line}",
                module_path!()
            )
        };
        assert_eq!(names, ["echo_nothing", &closure(first + 1), &closure(first + 2), "echo"]);
    }

    fn echo_nothing() {}

    #[test]
    fn a_handler_without_a_name_is_called_by_its_own_or_by_where_it_is_bound() {
        for (type_name, name) in [
            ("my_app::orders::parse", "parse"),
            ("my_app::orders::parse<alloc::string::String>", "parse"),
            ("<my_app::Order as my_app::Parse>::parse", "parse"),
            ("my_app::main::{{closure}}::{{closure}}", "closure in my_app::main, line 7"),
            ("my_app::Orders::bind::{{closure}}", "closure in my_app::Orders::bind, line 7"),
            ("<my_app::A as my_app::Bind>::bind::{{closure}}", "closure in <my_app::A as my_app::Bind>::bind, line 7"),
            ("fn(a::B) -> c::D", "fn(a::B) -> c::D, line 7"),
        ] {
            assert_eq!(handler_name(type_name, 7), name);
        }
    }
}
