//! How a checkpoint is declared: what it guards, what that depends on, and what happens when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::check::{DowntimeAnswer, DowntimeCheck, Gap, RecoveryAnswer, RecoveryCheck};
use super::core::Core;
use super::machine::Mode;
use super::mark::{Mark, Marker, Measure, Span};
use super::outage::{Outage, State, StateCodec};
use super::watched::{DependencyTap, Nothing};
use crate::codec::DefaultCodec;
use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::tap::Tap;
use crate::flow::{NodeId, StageFactory};
use crate::sink::{Settled, SinkReturn};
use crate::source::{Attach, IntoSource, SourceOptions};

pub(crate) type MarkOf<T> = Arc<dyn Fn(&T) -> Mark + Send + Sync>;
pub(crate) type StateOf<T> = Arc<dyn Fn(&T, Option<&State>) -> State + Send + Sync>;
pub(crate) type Callback = Arc<dyn Fn(Arc<Outage>) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;
pub(crate) type AttachDependent<T> =
    Arc<dyn Fn(&mut Attach<'_>, &str, SourceOptions<T>, StageFactory<T>) -> Result<()> + Send + Sync>;
type AttachDependency = Box<dyn FnOnce(&mut Attach<'_>, Arc<Core>, usize, &Dependency) -> Result<()> + Send>;

/// What to do when a pause has lasted as long as it may; see [`Guard::max_pause`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtLimit {
    /// The dependent goes on; what it handles before the recovery is corrected then, in detect mode.
    Resume,
    /// The run ends with an error.
    Stop,
}

/// Where the declaration of a checkpoint begins: [`Checkpoint::new`](super::Checkpoint::new) hands it out.
#[derive(Debug)]
pub struct Begin(pub(super) ());

impl Begin {
    /// The source to guard, and how its messages say how far they are.
    pub fn dependent<S, M, K>(self, source: S, marker: impl Fn(&S::Item) -> K + Send + Sync + 'static) -> Guard<S::Item>
    where
        S: IntoSource<M> + Send + 'static,
        K: Marker,
    {
        let source = Mutex::new(Some(source));
        let attach =
            move |to: &mut Attach<'_>, label: &str, options: SourceOptions<S::Item>, make: StageFactory<S::Item>| {
                let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
                let again = source.as_ref().and_then(IntoSource::again).or_else(|| source.take());
                again.ok_or_else(read_twice)?.attach(to, label, options, move || make())
            };
        Guard {
            attach: Arc::new(attach),
            marker: Arc::new(move |item| marker(item).mark()),
            unit: K::MEASURE,
            state: None,
            dependencies: Vec::new(),
            mode: Mode::Detect,
            threshold: None,
            inclusive: false,
            seeds: false,
            pauses: true,
            rewinds: true,
            single_member: false,
            far_future: None,
            grace: Duration::ZERO,
            max_pause: None,
            on_downtime: None,
            on_recovery: None,
        }
    }
}

fn read_twice() -> Error {
    let message = "its dependent is a stream, which one handler can read: declare it as a `SharedStream` for several";
    Error::new(Kind::Build, message)
}

/// What a checkpoint guards, and how. `T` is what the dependent gives.
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the declaration")]
pub struct Guard<T> {
    pub(super) attach: AttachDependent<T>,
    pub(super) marker: MarkOf<T>,
    pub(super) unit: Measure,
    pub(super) state: Option<(StateOf<T>, StateCodec)>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) mode: Mode,
    pub(super) threshold: Option<Span>,
    pub(super) inclusive: bool,
    pub(super) seeds: bool,
    pub(super) pauses: bool,
    pub(super) rewinds: bool,
    pub(super) single_member: bool,
    pub(super) far_future: Option<Span>,
    pub(super) grace: Duration,
    pub(super) max_pause: Option<(Duration, AtLimit)>,
    pub(super) on_downtime: Option<Callback>,
    pub(super) on_recovery: Option<Callback>,
}

impl<T> Guard<T> {
    /// Something that the dependent depends on.
    #[must_use]
    pub fn dependency(mut self, dependency: Dependency) -> Self {
        self.dependencies.push(dependency);
        self
    }

    /// A message that is ahead of a dependency waits until it is there: nothing wrong ever leaves, nothing is rewound.
    /// Without it a message that is ahead is handled, the dependent pauses, and what was handled too early is handled
    /// again after the recovery.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.mode = Mode::Hold;
        self
    }

    /// How far a message may be ahead of dependencies that have no threshold of their own. Default: 10 minutes for
    /// markers that are times, in hold mode nothing. Results are exact only with nothing.
    #[must_use]
    pub fn threshold(mut self, threshold: impl Into<Span>) -> Self {
        self.threshold = Some(threshold.into());
        self
    }

    /// A message is covered by an equal marker too. Default: only by a higher one, since messages with an equal marker
    /// may still be on their way.
    #[must_use]
    pub fn inclusive(mut self) -> Self {
        self.inclusive = true;
        self
    }

    /// The first message of the dependent counts as a heartbeat of dependencies that have none. Default: a dependency
    /// without a marker covers nothing.
    #[must_use]
    pub fn seed_from_first_pulse(mut self) -> Self {
        self.seeds = true;
        self
    }

    /// Whether the dependent pauses while a dependency is down. Default: true. In hold mode it has no meaning and is
    /// refused.
    #[must_use]
    pub fn pause_dependent(mut self, pauses: bool) -> Self {
        self.pauses = pauses;
        self
    }

    /// After an outage nothing is handled again by itself: that is left to [`on_recovery`](Self::on_recovery).
    #[must_use]
    pub fn no_rewind(mut self) -> Self {
        self.rewinds = false;
        self
    }

    /// A promise: this app has one member, so that a dependency which is shared by a group is read whole.
    #[must_use]
    pub fn single_member(mut self) -> Self {
        self.single_member = true;
        self
    }

    /// A marker that is ahead of all others by more than this is not believed: it is counted and not compared.
    #[must_use]
    pub fn far_future(mut self, bound: impl Into<Span>) -> Self {
        self.far_future = Some(bound.into());
        self
    }

    /// How long after the start messages wait for dependencies that have no marker yet, before that is an outage.
    /// Default: none.
    #[must_use]
    pub fn grace_on_start(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long an outage may hold the dependent. Default: until it is over.
    #[must_use]
    pub fn max_pause(mut self, limit: Duration, then: AtLimit) -> Self {
        self.max_pause = Some((limit, then));
        self
    }

    /// Called when a dependency goes down. A function or closure, also asynchronous; an error ends the run.
    #[must_use]
    pub fn on_downtime<R, M>(mut self, callback: impl Fn(Arc<Outage>) -> R + Send + Sync + 'static) -> Self
    where
        R: CallbackReturn<M>,
    {
        self.on_downtime = Some(boxed(callback));
        self
    }

    /// Called when all dependencies have recovered, before anything is rewound and before the dependent goes on. A seek
    /// in it wins over the rewind. It may be called again for the same outage after a crash.
    #[must_use]
    pub fn on_recovery<R, M>(mut self, callback: impl Fn(Arc<Outage>) -> R + Send + Sync + 'static) -> Self
    where
        R: CallbackReturn<M>,
    {
        self.on_recovery = Some(boxed(callback));
        self
    }

    /// State that follows the dependent, for callbacks: the next one from a message and the one before. On topics that
    /// outlive the process it is written below `state.dir` before each position that it belongs to: after a restart it is
    /// there, at that position or ahead of it.
    #[must_use]
    pub fn state<St>(mut self, state: impl Fn(&T, Option<&St>) -> St + Send + Sync + 'static) -> Self
    where
        St: DefaultCodec + Send + Sync,
    {
        let next: StateOf<T> = Arc::new(move |item, before| {
            let before = before.and_then(|state| state.downcast_ref::<St>());
            Arc::new(state(item, before))
        });
        self.state = Some((next, StateCodec::of::<St>()));
        self
    }
}

impl<T> std::fmt::Debug for Guard<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("mode", &self.mode)
            .field("dependencies", &self.dependencies)
            .finish_non_exhaustive()
    }
}

fn boxed<R: CallbackReturn<M>, M>(callback: impl Fn(Arc<Outage>) -> R + Send + Sync + 'static) -> Callback {
    Arc::new(move |outage| callback(outage).end())
}

/// What a callback returns: nothing, a `Result<(), _>`, or a future of either, as a sink does.
#[diagnostic::on_unimplemented(
    message = "a callback cannot return `{Self}`: its result would be lost",
    label = "its callback must return `()`, `Result<(), E>`, or a future of either"
)]
pub trait CallbackReturn<M>: 'static {
    #[doc(hidden)]
    fn end(self) -> BoxFuture<'static, Result<(), BoxError>>;
}

#[diagnostic::do_not_recommend]
impl<R: SinkReturn<M, Wait: 'static> + 'static, M> CallbackReturn<M> for R {
    fn end(self) -> BoxFuture<'static, Result<(), BoxError>> {
        match self.settle() {
            Settled::Now(result) => Box::pin(std::future::ready(result)),
            Settled::Later(wait) => Box::pin(wait),
        }
    }
}

/// Something that a dependent depends on: a source, and how its messages say how far they are.
///
/// ```
/// use std::time::Duration;
/// use slipstream::Dependency;
/// use slipstream::prelude::*;
///
/// static WEATHER: Topic<(DateTime<Utc>, String)> = Topic::new("weather");
///
/// let weather = Dependency::new("weather", &WEATHER, |m| m.value.0).threshold(Duration::from_secs(3600));
/// assert_eq!(weather.name(), "weather");
/// ```
pub struct Dependency {
    pub(super) name: Arc<str>,
    pub(super) attach: Option<AttachDependency>,
    pub(super) unit: Measure,
    pub(super) threshold: Option<Span>,
    pub(super) idle_after: Option<Duration>,
    pub(super) downtime_check: Option<DowntimeCheck>,
    pub(super) recovery_check: Option<RecoveryCheck>,
}

impl Dependency {
    /// A dependency called `name`: it is part of what is kept with positions, so keep it.
    pub fn new<S, M, K>(
        name: impl Into<Arc<str>>,
        source: S,
        marker: impl Fn(&S::Item) -> K + Send + Sync + 'static,
    ) -> Self
    where
        S: IntoSource<M> + Send + 'static,
        K: Marker,
    {
        let attach = move |to: &mut Attach<'_>, core: Arc<Core>, index: usize, own: &Self| {
            let marker: MarkOf<S::Item> = Arc::new(move |item| marker(item).mark());
            let tap: Arc<dyn Tap<S::Item>> = Arc::new(DependencyTap::new(core, index, own, marker));
            let label = format!("dependency {}", own.name);
            let options = SourceOptions { taps: vec![tap], only_taps: true, ..SourceOptions::default() };
            source.attach(to, &label, options, || Nothing)
        };
        Self {
            name: name.into(),
            attach: Some(Box::new(attach)),
            unit: K::MEASURE,
            threshold: None,
            idle_after: None,
            downtime_check: None,
            recovery_check: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How far a message may be ahead of it. Default: the checkpoint's.
    #[must_use]
    pub fn threshold(mut self, threshold: impl Into<Span>) -> Self {
        self.threshold = Some(threshold.into());
        self
    }

    /// A partition that has brought nothing for so long no longer holds the others back. Default: never, because what
    /// comes late there is then missed.
    #[must_use]
    pub fn idle_after(mut self, silence: Duration) -> Self {
        self.idle_after = Some(silence);
        self
    }

    /// Decides whether it is down, instead of the comparison with the threshold: asked with each message of the
    /// dependent. Returns how far it is behind or whether it is, now or in a future. Refused in hold mode.
    #[must_use]
    pub fn downtime_check<R, M>(mut self, check: impl Fn(Gap) -> R + Send + Sync + 'static) -> Self
    where
        R: DowntimeAnswer<M>,
    {
        self.downtime_check = Some(Arc::new(move |gap| check(gap).answer().0));
        self
    }

    /// Decides whether it has recovered, instead of the comparison: asked with each heartbeat of it, and with each
    /// message of a dependent that is not paused. Refused in hold mode.
    #[must_use]
    pub fn recovery_check<R, M>(mut self, check: impl Fn(Gap) -> R + Send + Sync + 'static) -> Self
    where
        R: RecoveryAnswer<M>,
    {
        self.recovery_check = Some(Arc::new(move |gap| check(gap).answer().0));
        self
    }
}

impl std::fmt::Debug for Dependency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dependency").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The node that was read by what was attached, if it is one that others can read too.
pub(super) fn node_of(
    to: &mut Attach<'_>,
    attach: impl FnOnce(&mut Attach<'_>) -> Result<()>,
) -> Result<Option<NodeId>> {
    let before = to.reads.len();
    attach(to)?;
    // The handler being bound does not read it: the checkpoint does.
    let nodes = to.reads.split_off(before);
    Ok(nodes.into_iter().next())
}
