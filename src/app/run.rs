//! A run: built, started, watched, and ended in order.

use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bind::Builder;
use super::report::{self, Health, Stats};
use super::shutdown::{self, SignalWatch};
use super::{App, Beside};
use crate::conf::{Conf, Settings};
use crate::error::{Error, Kind, Result};
use crate::flow::{Env, EnvParts, Phase, watchdog};
use crate::source::{Root, RootKind};

/// Which signals end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signals {
    /// SIGINT and SIGTERM drain; a second one ends at once. What comes within 500 ms of the first is the same signal: some
    /// tools signal a process and then its group.
    #[default]
    Drain,
    /// None: the program handles them, with [`RunHandle::trigger`] say.
    Ignore,
}

/// An app about to run: awaited, it runs until all sources have ended, something fails, or it is told to stop.
///
/// # Cancel safety
/// Dropping the future gives up what is in flight: nothing of it is committed, as after a crash.
///
/// ```
/// use slipstream::prelude::*;
/// use slipstream::Signals;
///
/// # slipstream::testing::block_on(async {
/// let run = App::new().handle(every(std::time::Duration::from_secs(60)), || "tick", print).run();
/// let handle = run.handle();
/// let stop = async move |_stop| Ok(handle.trigger()); // without it, it would tick until Ctrl-C
/// run.beside(stop).signals(Signals::Ignore).await
/// # }).unwrap();
/// ```
#[must_use = "a run does nothing until it is awaited"]
pub struct Run {
    app: App,
    handle: RunHandle,
}

/// A handle on a run, for whoever watches it or ends it.
///
/// ```
/// use slipstream::app::State;
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// let run = App::new().handle(stream::iter(0..3), |n: u32| n, print).name("count").run();
/// let handle = run.handle();
/// assert_eq!(handle.health().state, State::Starting);
/// run.await?;
/// assert_eq!(handle.health().state, State::Stopped);
/// assert_eq!(handle.stats().sources.iter().map(|source| source.handled).sum::<u64>(), 3);
/// # Ok::<(), slipstream::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct RunHandle(Arc<HandleInner>);

#[derive(Default)]
struct HandleInner {
    trigger: CancellationToken,
    env: Mutex<Option<Env>>,
}

impl RunHandle {
    /// Ends the run as a first signal does: drain, commit, close. Before the run has started: it ends right away.
    pub fn trigger(&self) {
        self.0.trigger.cancel();
    }

    /// Waits until someone called [`trigger`](Self::trigger).
    pub async fn triggered(&self) {
        self.0.trigger.cancelled().await;
    }

    /// How the run is doing.
    pub fn health(&self) -> Health {
        report::health(self.env().as_ref())
    }

    /// Its counters.
    pub fn stats(&self) -> Stats {
        report::stats(self.env().as_ref())
    }

    fn env(&self) -> Option<Env> {
        self.0.env.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_env(&self, env: &Env) {
        *self.0.env.lock().unwrap_or_else(PoisonError::into_inner) = Some(env.clone());
    }

    pub(super) fn trigger_token(&self) -> &CancellationToken {
        &self.0.trigger
    }
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunHandle").field("health", &self.health()).finish()
    }
}

impl Run {
    pub(super) fn new(app: App) -> Self {
        Self { app, handle: RunHandle::default() }
    }

    /// A handle on it; cloneable, usable from anywhere.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// See [`App::with`].
    pub fn with<T: std::any::Any + Send + Sync>(mut self, value: T) -> Self {
        self.app = self.app.with(value);
        self
    }

    /// See [`App::beside`].
    pub fn beside<F, Fut>(mut self, task: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.app = self.app.beside(task);
        self
    }

    /// See [`App::on_exit`].
    pub fn on_exit<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.app = self.app.on_exit(hook);
        self
    }

    /// See [`App::drain_timeout`].
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.app = self.app.drain_timeout(limit);
        self
    }

    /// See [`App::signals`].
    pub fn signals(mut self, signals: Signals) -> Self {
        self.app = self.app.signals(signals);
        self
    }

    /// See [`App::conf`].
    pub fn conf(mut self, conf: Conf) -> Self {
        self.app = self.app.conf(conf);
        self
    }
}

impl IntoFuture for Run {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<'static, Result<()>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(run(self.app, self.handle))
    }
}

async fn run(mut app: App, handle: RunHandle) -> Result<()> {
    let signals = SignalWatch::new(app.signals)?;
    let settings = match app.conf.take() {
        Some(conf) => conf.settings()?,
        None => Conf::open("the running app")?,
    };
    let env = Env::new(parts(&settings, &mut app));
    // Whatever happens to this future, the tasks of the run do not outlive it.
    let _guard = KillOnDrop(env.clone());
    handle.set_env(&env);
    let (beside, exit_hooks) = (std::mem::take(&mut app.beside), std::mem::take(&mut app.exit_hooks));
    let mut failures = Vec::new();
    match build(app, &env, !beside.is_empty()) {
        Ok(roots) => {
            let running = Running::start(roots, beside, &env);
            failures.extend(running.watch(&env, &handle, signals).await);
        }
        Err(error) => failures.push(error),
    }
    failures.extend(env.close(u8::MAX).await);
    for hook in exit_hooks {
        failures.extend(hook().await.err());
    }
    env.set_phase(Phase::Stopped);
    shutdown::first_of(failures)
}

struct KillOnDrop(Env);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.stop().cancel();
        self.0.kill().cancel();
        self.0.forget();
    }
}

fn parts(settings: &Settings, app: &mut App) -> EnvParts {
    let app_id: Arc<str> = Arc::from(settings.app_id());
    let state_dir: PathBuf = settings.state_dir().join(&*app_id);
    EnvParts {
        app_id,
        state_dir,
        max_in_flight: u32::try_from(settings.max_in_flight()).unwrap_or(u32::MAX),
        max_in_flight_bytes: usize::try_from(settings.max_in_flight_bytes()).unwrap_or(usize::MAX),
        commit_interval: settings.commit_interval(),
        drain_timeout: app.drain_timeout.unwrap_or_else(|| settings.drain_timeout()),
        revoke_timeout: settings.revoke_timeout(),
        settings: settings.clone(),
        exts: std::mem::take(&mut app.exts),
    }
}

/// Binds all handlers, checks the graph and opens the sources.
fn build(app: App, env: &Env, has_tasks: bool) -> Result<Vec<Root>> {
    let mut builder = Builder::new(env);
    if app.bindings.is_empty() && !has_tasks {
        let message = "there is nothing to run: no `#[handle]` was linked into this program (a crate that nobody \
                       names is not linked: `use the_crate as _;`)";
        return Err(Error::new(Kind::Build, message));
    }
    for (options, bind) in app.bindings {
        bind(&mut builder, options)?;
    }
    builder.graph.check()?;
    builder.graph.tell_topics(env)?;
    builder.graph.warn(env);
    let names: Vec<_> = builder.graph.handlers().collect();
    tracing::info!(app = %env.parts().app_id, handlers = names.len(), "handlers: {}", names.join(", "));
    let mut roots = builder.roots;
    for shared in builder.shared.into_values() {
        roots.push(shared.start(env)?);
    }
    Ok(roots)
}

/// The tasks of a run.
struct Running {
    roots: JoinSet<(Arc<str>, RootKind, Result<()>)>,
    sources_left: usize,
    has_sources: bool,
    beside: JoinSet<Result<()>>,
    stop_beside: CancellationToken,
    only_tasks: bool,
}

impl Running {
    fn start(roots: Vec<Root>, beside: Vec<Beside>, env: &Env) -> Self {
        env.set_phase(Phase::Running);
        let sources_left = roots.iter().filter(|root| root.kind == RootKind::Source).count();
        let only_tasks = roots.is_empty();
        let mut set = JoinSet::new();
        for Root { name, kind, run } in roots {
            set.spawn(async move { (name, kind, run.await) });
        }
        let stop_beside = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for task in beside {
            tasks.spawn(task(stop_beside.clone()));
        }
        let has_sources = sources_left > 0;
        Self { roots: set, sources_left, has_sources, beside: tasks, stop_beside, only_tasks }
    }

    /// Waits for the end, then shuts down; returns what failed, the cause first.
    async fn watch(mut self, env: &Env, handle: &RunHandle, mut signals: SignalWatch) -> Vec<Error> {
        let stop = env.stop().clone();
        let watchdog = tokio::spawn(watchdog::watch(env.clone()));
        loop {
            if (self.has_sources && self.sources_left == 0) || (self.only_tasks && self.beside.is_empty()) {
                break;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = handle.trigger_token().cancelled() => break,
                () = signals.next() => {
                    tracing::info!("signal received: draining, a second one ends at once");
                    break;
                }
                Some(ended) = self.roots.join_next() => self.root_ended(ended, env),
                Some(ended) = self.beside.join_next() => beside_ended(ended, env),
                else => break,
            }
        }
        env.set_phase(Phase::Draining);
        self.shut_down(env, signals).await;
        watchdog.abort();
        // It holds what the run has open until it is gone.
        let _gone = watchdog.await;
        env.sources().iter().for_each(|source| source.set_stalled(None));
        env.take_failure().into_iter().collect()
    }

    fn root_ended(
        &mut self,
        ended: std::result::Result<(Arc<str>, RootKind, Result<()>), tokio::task::JoinError>,
        env: &Env,
    ) {
        match ended {
            Ok((_, kind, result)) => {
                self.sources_left -= usize::from(kind == RootKind::Source && self.sources_left > 0);
                if let Err(error) = result {
                    env.fail(error);
                }
            }
            Err(error) if error.is_panic() => env.fail(Error::new(Kind::Panic, "a source panicked").because(error)),
            Err(_) => {}
        }
    }

    /// Tasks beside first, then the sources, then what is in flight, all within the drain timeout.
    async fn shut_down(&mut self, env: &Env, mut signals: SignalWatch) {
        self.stop_beside.cancel();
        let drain = async {
            while let Some(ended) = self.beside.join_next().await {
                beside_ended(ended, env);
            }
            env.stop().cancel();
            while let Some(ended) = self.roots.join_next().await {
                if let Ok((_, _, Err(error))) = ended {
                    env.fail(error);
                }
            }
            env.tasks().close();
            env.tasks().wait().await;
        };
        let timeout = env.parts().drain_timeout;
        let drained = tokio::select! {
            biased;
            () = drain => true,
            () = tokio::time::sleep(timeout) => {
                tracing::warn!(?timeout, "the drain timeout is over: what is in flight is given up, not committed");
                false
            }
            () = signals.next() => {
                tracing::warn!("second signal: ending at once, what is in flight is given up");
                false
            }
        };
        if !drained {
            self.give_up(env).await;
        }
    }

    /// Lanes see the kill token and return; whoever does not is aborted.
    async fn give_up(&mut self, env: &Env) {
        const GRACE: Duration = Duration::from_secs(5);
        env.stop().cancel();
        env.kill().cancel();
        self.beside.abort_all();
        let ended = async {
            while self.roots.join_next().await.is_some() {}
            env.tasks().close();
            env.tasks().wait().await;
        };
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            tracing::error!("some tasks did not end and are aborted");
            self.roots.abort_all();
        }
    }
}

fn beside_ended(ended: std::result::Result<Result<()>, tokio::task::JoinError>, env: &Env) {
    match ended {
        Ok(Err(error)) => env.fail(Error::new(Kind::Source, "a task beside the sources failed").because(error)),
        Err(error) if error.is_panic() => {
            env.fail(Error::new(Kind::Panic, "a task beside the sources panicked").because(error));
        }
        Ok(Ok(())) | Err(_) => {}
    }
}
