//! The declaration of a checkpoint, and what an app makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::args::CheckpointHandle;
use super::bound::Bound;
use super::check_plan;
use super::core::{Core, WantedKeeping};
use super::keeper::Keeper;
use super::machine::{DependencyRules, Machine, Mode, Rules};
use super::mark::{Measure, Span};
use super::plan::{AtLimit, AttachDependent, Begin, Guard, node_of};
use super::tap::{Checks, DependentTap, has_checks};
use crate::error::{Error, Kind, Result};
use crate::flow::tap::Tap;
use crate::flow::{Env, Stage};
use crate::message::Message;
use crate::source::{Attach, Guarded, IntoSource, LogSource, SourceOptions};
use crate::util::{Name, panic_message};

/// Guards one source, its dependent, against others that it depends on: it compares how far they are, and a message that
/// is ahead of what it depends on either waits ([`hold`](Guard::hold)), or is handled, pauses the dependent, and is
/// handled again when its dependencies are back.
///
/// As a source it gives the messages of its dependent. It gates that source: all handlers of it wait, pause and go back
/// together, also those that are bound to it directly.
///
/// ```standalone_crate
/// use slipstream::prelude::*;
/// use slipstream::{Checkpoint, Dependency, Downtime, SharedStream};
///
/// #[derive(Clone)]
/// struct Event { hour: u32, what: &'static str }
///
/// static WEATHER: SharedStream<Event> = SharedStream::new("weather", || {
///     stream::iter([Event { hour: 10, what: "sun" }, Event { hour: 12, what: "rain" }]).boxed()
/// });
/// static ACTIVITY: SharedStream<Event> = SharedStream::new("activity", || {
///     stream::iter([Event { hour: 10, what: "swimming" }, Event { hour: 11, what: "walking" }]).boxed()
/// });
/// static CHECKPOINT: Checkpoint<Event> = Checkpoint::new("activity", |it| {
///     it.dependent(&ACTIVITY, |event| event.hour)
///         .dependency(Dependency::new("weather", &WEATHER, |event| event.hour))
///         .hold()
/// });
///
/// #[handle(CHECKPOINT, sink = [print])]
/// fn join(activity: Event, downtime: Option<Downtime>) -> String {
///     assert!(downtime.is_none()); // in hold mode everything is there
///     format!("{} at {}", activity.what, activity.hour)
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     stream().await
/// }
/// ```
pub struct Checkpoint<T: 'static> {
    name: Name,
    plan: Plan<T>,
    slot: OnceLock<Arc<Slot>>,
}

enum Plan<T> {
    Fixed(fn(Begin) -> Guard<T>),
    Own(Arc<dyn Fn(Begin) -> Guard<T> + Send + Sync>),
}

impl<T> Plan<T> {
    fn call(&self) -> Result<Guard<T>> {
        let call = || match self {
            Self::Fixed(plan) => plan(Begin(())),
            Self::Own(plan) => plan(Begin(())),
        };
        catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
            let message = format!("its plan panicked: {}", panic_message(&*panic));
            Error::new(Kind::Panic, message)
        })
    }
}

impl<T> Clone for Plan<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Fixed(plan) => Self::Fixed(*plan),
            Self::Own(plan) => Self::Own(Arc::clone(plan)),
        }
    }
}

/// What all clones of a declaration share.
#[derive(Default)]
struct Slot(Mutex<Vec<Weak<Core>>>);

impl<T> Checkpoint<T> {
    /// A checkpoint: its name, which is part of what is kept with positions, and what it guards, against what. The plan
    /// is made when an app that uses the checkpoint is built.
    pub const fn new(name: &'static str, plan: fn(Begin) -> Guard<T>) -> Self {
        Self { name: Name::Fixed(name), plan: Plan::Fixed(plan), slot: OnceLock::new() }
    }

    /// The same with a name made at run time and a plan that may capture.
    ///
    /// ```
    /// use slipstream::prelude::*;
    /// use slipstream::{Checkpoint, Dependency};
    ///
    /// let (fast, slow) = (Proxy::<u32>::named("fast"), Proxy::<u32>::named("slow"));
    /// let (dependent, dependency) = (fast.clone(), slow.clone());
    /// let checkpoint = Checkpoint::named("in-step", move |it| {
    ///     it.dependent(dependent.clone(), |n| *n).dependency(Dependency::new("slow", dependency.clone(), |n| *n)).hold()
    /// });
    /// # slipstream::testing::block_on(async {
    /// App::new()
    ///     .handle(stream::iter(0..5_u32), |n: u32| n, fast)
    ///     .handle(stream::iter(0..6_u32), |n: u32| n, slow)
    ///     .handle(checkpoint, |n: u32| n, print)
    ///     .run()
    ///     .await
    /// # }).unwrap();
    /// ```
    pub fn named(name: impl Into<Arc<str>>, plan: impl Fn(Begin) -> Guard<T> + Send + Sync + 'static) -> Self {
        Self { name: Name::Made(name.into()), plan: Plan::Own(Arc::new(plan)), slot: OnceLock::new() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    fn slot(&self) -> &Arc<Slot> {
        self.slot.get_or_init(Arc::default)
    }

    /// A handle on it in the app that runs it.
    ///
    /// # Errors
    /// [`Kind::Closed`] when none does.
    pub fn handle(&self) -> Result<CheckpointHandle> {
        let mut all = self.slot().0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|core| core.upgrade().is_some_and(|core| !core.is_over()));
        let open = all.last().and_then(Weak::upgrade);
        let closed = || Error::new(Kind::Closed, "no running app uses it").at(format!("checkpoint {}", self.name()));
        open.map(|core| CheckpointHandle::new(&core)).ok_or_else(closed)
    }

    /// How it stands in the app that runs it.
    ///
    /// # Errors
    /// [`Kind::Closed`] when none does.
    pub fn status(&self) -> Result<super::Status> {
        Ok(self.handle()?.status())
    }
}

impl<T> Clone for Checkpoint<T> {
    /// The same checkpoint: clones share what is open of it.
    fn clone(&self) -> Self {
        let slot = OnceLock::from(Arc::clone(self.slot()));
        Self { name: self.name.clone(), plan: self.plan.clone(), slot }
    }
}

impl<T> std::fmt::Debug for Checkpoint<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A checkpoint in one run.
struct Opened<T> {
    attach: AttachDependent<T>,
    tap: Arc<dyn Tap<T>>,
    core: Arc<Core>,
}

impl<T> Drop for Opened<T> {
    /// The run lets go of it.
    fn drop(&mut self) {
        self.core.end();
    }
}

impl<T: Send + 'static> Checkpoint<T> {
    /// Opens it, attaches its dependencies, and starts its task: at the first handler.
    fn open(&self, to: &mut Attach<'_>) -> Result<Arc<Opened<T>>> {
        let env = to.env;
        let place = format!("checkpoint {}", self.name());
        self.check_name(env).map_err(|error| error.at(place.clone()))?;
        env.single(&place, || {
            self.make(to).map_err(|error| if error.place().is_some() { error } else { error.at(place.clone()) })
        })
    }

    /// Two checkpoints of one name would share what is kept.
    fn check_name(&self, env: &Env) -> Result<()> {
        let names = env.single("names of checkpoints", || Ok(Arc::new(Mutex::new(BTreeMap::new()))))?;
        let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
        // Held, so that no other declaration comes to lie in its place.
        let first: &mut Arc<Slot> = names.entry(self.name().to_owned()).or_insert_with(|| Arc::clone(self.slot()));
        if Arc::ptr_eq(first, self.slot()) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Build,
            "two checkpoints have this name, which is what their positions are kept under: give one another",
        ))
    }

    fn make(&self, to: &mut Attach<'_>) -> Result<Arc<Opened<T>>> {
        let mut guard = self.plan.call()?;
        check_plan::check(self.name(), &guard)?;
        let name: Arc<str> = Arc::from(self.name());
        let (state, codec) = guard.state.take().unzip();
        let is_told = state.is_some() || guard.on_downtime.is_some() || guard.on_recovery.is_some();
        let folder = to.env.parts().state_dir.join("checkpoints");
        let wanted = is_told.then_some(WantedKeeping { folder, codec });
        let core = Core::new(Arc::clone(&name), Machine::new(rules(&name, &guard)), wanted, to.env);
        core.durable().into_iter().for_each(|durable| to.env.add_durable(durable));
        self.slot().0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&core));
        let goes_on = !guard.pauses || guard.max_pause.is_some_and(|(_, then)| then == AtLimit::Resume);
        let goes_on_early = guard.mode == Mode::Detect && goes_on;
        let (checkpoint, dependencies) = (Arc::clone(&name), Vec::new());
        let mut guarded =
            Guarded { checkpoint, dependent: None, dependencies, goes_on_early, single_member: guard.single_member };
        for (index, dependency) in guard.dependencies.iter_mut().enumerate() {
            let Some(attach) = dependency.attach.take() else { continue };
            let (core, own) = (Arc::clone(&core), &*dependency);
            let node = node_of(to, |to| attach(to, core, index, own))?;
            guarded.dependencies.push((Arc::clone(&dependency.name), node));
        }
        to.guarded.push(guarded);
        let checks: Vec<_> = guard
            .dependencies
            .iter()
            .map(|own| Checks { down: own.downtime_check.clone(), recovered: own.recovery_check.clone() })
            .collect();
        let checks = if has_checks(&checks) { checks } else { Vec::new() };
        let shortest = shortest(&guard);
        let keeper = Keeper {
            core: Arc::clone(&core),
            env: to.env.clone(),
            on_downtime: guard.on_downtime,
            on_recovery: guard.on_recovery,
            at_limit: guard.max_pause.map(|(_, then)| then),
            shortest,
        };
        to.env.tasks().spawn(keeper.run());
        let open = Arc::clone(&core);
        let tap = DependentTap { core, marker: guard.marker, state, checks: checks.into() };
        Ok(Arc::new(Opened { attach: guard.attach, tap: Arc::new(tap), core: open }))
    }
}

fn rules<T>(name: &Arc<str>, guard: &Guard<T>) -> Rules {
    let zero = Span::zero(guard.unit);
    let default = match (guard.mode, guard.unit.of_spans()) {
        (Mode::Detect, Measure::Time) => Span::from(Duration::from_mins(10)),
        _ => zero,
    };
    let dependency = |own: &super::Dependency| DependencyRules {
        name: Arc::clone(&own.name),
        threshold: own.threshold.or(guard.threshold).unwrap_or(default),
        zero,
        idle_after: own.idle_after,
        is_custom: own.downtime_check.is_some(),
        asks_recovery: own.recovery_check.is_some(),
    };
    Rules {
        name: Arc::clone(name),
        mode: guard.mode,
        measure: guard.unit,
        pauses: guard.pauses,
        inclusive: guard.inclusive,
        seeds: guard.seeds,
        rewinds: guard.rewinds && guard.mode == Mode::Detect,
        single_member: guard.single_member,
        far_future: guard.far_future,
        grace: guard.grace,
        max_pause: guard.max_pause.map(|(limit, _)| limit),
        dependencies: guard.dependencies.iter().map(dependency).collect(),
    }
}

fn shortest<T>(guard: &Guard<T>) -> Option<Duration> {
    let idle = guard.dependencies.iter().filter_map(|own| own.idle_after);
    let max_pause = guard.max_pause.map(|(limit, _)| limit);
    idle.chain(max_pause).chain((!guard.grace.is_zero()).then_some(guard.grace)).min()
}

/// A checkpoint whose sources are being attached: none of them may be this one.
struct Opening {
    all: Arc<Mutex<BTreeSet<Arc<str>>>>,
    name: Arc<str>,
}

impl Opening {
    fn begin(env: &Env, name: &Arc<str>) -> Result<Self> {
        let all: Arc<Mutex<BTreeSet<Arc<str>>>> = env.single("checkpoints being attached", || Ok(Arc::default()))?;
        if !all.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name)) {
            let message = "it is among its own dependents or dependencies: name the source that it is compared with";
            return Err(Error::new(Kind::Build, message).at(format!("checkpoint {name}")));
        }
        Ok(Self { all, name: Arc::clone(name) })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// Marker: a checkpoint.
#[derive(Debug)]
pub enum FromCheckpoint {}

impl<T: Send + 'static> IntoSource<FromCheckpoint> for Checkpoint<T> {
    type Item = T;

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        let name: Arc<str> = Arc::from(self.name());
        let _opening = Opening::begin(to.env, &name)?;
        let opened = self.open(to)?;
        let mut options = options;
        options.taps.push(Arc::clone(&opened.tap));
        let before = to.reads.len();
        let attached = (opened.attach)(to, label, options, Arc::new(move || Box::pin(Bound::new(make(), &name))));
        attached.map_err(|error| {
            if error.place().is_some() { error } else { error.at(format!("checkpoint {}", self.name())) }
        })?;
        let node = to.reads.get(before).cloned();
        if let Some(own) = to.guarded.iter_mut().find(|own| *own.checkpoint == *self.name()) {
            own.dependent = own.dependent.take().or(node);
        }
        Ok(())
    }
}

impl<T: Send + 'static> IntoSource<FromCheckpoint> for &Checkpoint<T> {
    type Item = T;

    fn again(&self) -> Option<Self> {
        Some(*self)
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<T>, make: F) -> Result<()>
    where
        St: Stage<T> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        self.clone().attach(to, label, options, make)
    }
}

/// Of messages with a place in a log. Whether it guards their topic, or something that gives away what it got of one, is
/// seen when the app is built.
impl<V, K> LogSource for Checkpoint<Message<V, K>> {}
