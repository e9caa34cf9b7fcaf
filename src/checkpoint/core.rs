//! A checkpoint in one run: the machine behind its lock, who waits for it, and what it is asked to do.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::keeping::Keeping;
use super::machine::{Event, Machine};
use super::mark::Mark;
use super::outage::StateCodec;
use super::record::Record;
use crate::error::{Error, Result};
use crate::flow::durable::Durable;
use crate::flow::tap::Rewind;
use crate::flow::{Env, Gate, WakerSet};

/// Transitions that are not told of yet, as while a callback is waited for: with so many no message of the dependent
/// passes until half of them have been.
const UNTOLD_MAX: usize = 1024;

pub(crate) struct Core {
    pub name: Arc<str>,
    /// The tasks of the run, and its end. Not the run itself, which keeps this.
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
    machine: Mutex<Machine>,
    began: Instant,
    /// Counts changes; a lane that has seen the last one need not look.
    version: AtomicU64,
    /// Counts those of them that are transitions.
    turns: AtomicU64,
    /// Lanes with a message at the gate.
    pub waiting: WakerSet,
    /// Of the dependent: shows who holds it.
    held: OnceLock<Gate>,
    /// What it shows.
    shown: AtomicBool,
    rewind: OnceLock<Arc<dyn Rewind>>,
    /// What callbacks and the user's state need to be written down, where they are declared.
    wanted: Option<WantedKeeping>,
    keeping: OnceLock<Keeping>,
    events: Mutex<VecDeque<Event>>,
    /// Of a function of the user's, for the keeper to end the run with.
    failure: Mutex<Option<Error>>,
    pub news: Notify,
    pub counters: Counters,
    /// How far messages went that did not need the machine, by lane.
    lanes: Mutex<Vec<Weak<Passed>>>,
    /// Held while the user's state is made of a message, which the machine's lock is not.
    turn: Mutex<()>,
    /// The run has let go of it.
    over: AtomicBool,
    /// The callback that is being waited for.
    calling: Mutex<Option<(&'static str, Duration)>>,
}

/// The highest marker of the messages that passed a lane without a look at the machine, since the last look.
#[derive(Default)]
pub(crate) struct Passed(Mutex<Option<Mark>>);

impl Passed {
    #[inline]
    pub(crate) fn saw(&self, mark: Mark) {
        let mut highest = lock(&self.0);
        *highest = (*highest).max(Some(mark));
    }
}

/// Where a record is kept, and how the user's state is written in it.
pub(crate) struct WantedKeeping {
    pub folder: PathBuf,
    pub codec: Option<StateCodec>,
}

/// How often what happened, since the run began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub downs: AtomicU64,
    pub ups: AtomicU64,
    pub recoveries: AtomicU64,
    pub rewinds: AtomicU64,
    pub resumes: AtomicU64,
    pub overrides: AtomicU64,
    pub limits: AtomicU64,
    /// How many markers too far ahead the log knows of.
    pub told_far: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Durable for Core {
    /// The user's state, which no position may be ahead of.
    fn sync(&self) -> Result<()> {
        match self.keeping().zip(self.look(|machine| machine.state().cloned())) {
            Some((keeping, state)) => keeping.follow(&state),
            None => Ok(()),
        }
    }
}

impl Core {
    pub(crate) fn new(name: Arc<str>, machine: Machine, wanted: Option<WantedKeeping>, env: &Env) -> Arc<Self> {
        Arc::new(Self {
            name,
            tasks: env.tasks().clone(),
            stop: env.stop().clone(),
            failure: Mutex::default(),
            machine: Mutex::new(machine),
            began: Instant::now(),
            version: AtomicU64::new(1),
            turns: AtomicU64::new(1),
            waiting: WakerSet::default(),
            held: OnceLock::new(),
            shown: AtomicBool::new(false),
            rewind: OnceLock::new(),
            wanted,
            keeping: OnceLock::new(),
            events: Mutex::default(),
            news: Notify::new(),
            counters: Counters::default(),
            lanes: Mutex::default(),
            turn: Mutex::default(),
            over: AtomicBool::new(false),
            calling: Mutex::default(),
        })
    }

    /// Since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// An answer of the user's functions counts until there is a transition.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// Changes the machine and tells everyone whom that concerns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Machine, Duration) -> T) -> T {
        let now = self.now();
        let mut machine = self.machine();
        let result = change(&mut machine, now);
        self.tell(machine);
        result
    }

    /// Looks at a message of the dependent; wakes nobody unless something happened.
    pub(crate) fn judge<T>(&self, judge: impl FnOnce(&mut Machine, Duration) -> T) -> T {
        let now = self.now();
        let mut machine = self.machine();
        let (phase, was_held) = (machine.phase(), machine.held());
        let result = judge(&mut machine, now);
        if phase != machine.phase() || machine.has_events() {
            self.tell(machine);
        } else if was_held != machine.held() {
            self.show(&machine);
        }
        result
    }

    /// Whom it concerns that the machine has changed.
    fn tell(&self, mut machine: MutexGuard<'_, Machine>) {
        // Under the lock, so that the queue has the order of the transitions and the gate the last word.
        let events = machine.take_events();
        if !events.is_empty() {
            self.turns.fetch_add(1, Ordering::AcqRel);
            let mut untold = lock(&self.events);
            untold.extend(events);
            if untold.len() >= UNTOLD_MAX {
                machine.crowd(true);
            }
            drop(untold);
            self.news.notify_one();
        }
        self.show(&machine);
        self.version.fetch_add(1, Ordering::AcqRel);
        drop(machine);
        self.waiting.wake_all();
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.machine())
    }

    /// The machine, which knows what passed it.
    fn machine(&self) -> MutexGuard<'_, Machine> {
        let mut machine = lock(&self.machine);
        for passed in lock(&self.lanes).iter().filter_map(Weak::upgrade) {
            if let Some(mark) = lock(&passed.0).take() {
                machine.saw(mark);
            }
        }
        machine
    }

    /// A lane of the dependent begins.
    pub(crate) fn add_lane(&self) -> Arc<Passed> {
        let passed = Arc::default();
        let mut lanes = lock(&self.lanes);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Arc::downgrade(&passed));
        passed
    }

    /// One lane at a time makes the user's state of a message.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The callback that is being waited for, and since when.
    pub(crate) fn calling(&self) -> Option<(&'static str, Duration)> {
        *lock(&self.calling)
    }

    pub(crate) fn set_calling(&self, callback: Option<&'static str>) {
        *lock(&self.calling) = callback.map(|callback| (callback, self.now()));
    }

    /// The oldest transition that is not told of yet.
    pub(crate) fn next_event(&self) -> Option<Event> {
        let mut untold = lock(&self.events);
        let event = untold.pop_front()?;
        let has_room = untold.len() < UNTOLD_MAX / 2;
        drop(untold);
        if has_room && self.look(Machine::is_crowded) {
            self.change(|machine, _| machine.crowd(false));
        }
        Some(event)
    }

    /// A function of the user's failed where nobody waits for it.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.news.notify_one();
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    fn show(&self, machine: &Machine) {
        let Some(gate) = self.held.get() else { return };
        let holds = machine.is_closed() || machine.held() > 0;
        if self.shown.swap(holds, Ordering::AcqRel) == holds {
            return;
        }
        let reason = format!("checkpoint:{}", self.name);
        if holds {
            gate.pause(&reason);
        } else {
            gate.resume(&reason);
        }
    }

    /// The dependent is opened; `lasts`: what is kept with its positions outlives the process.
    ///
    /// Errors: as [`Keeping::open`].
    pub(crate) fn opened(&self, held: &Gate, rewind: Option<Arc<dyn Rewind>>, lasts: bool) -> Result<()> {
        if let Some(WantedKeeping { folder, codec }) = self.wanted.as_ref().filter(|_| lasts) {
            let keeping = Keeping::open(folder, &self.name, *codec)?;
            let Record { number, unfinished, state } = keeping.record();
            self.change(|machine, _| machine.restore(number, unfinished, state));
            self.keeping.get_or_init(|| keeping);
        }
        self.held.get_or_init(|| held.clone());
        match rewind {
            Some(rewind) => {
                self.rewind.get_or_init(|| rewind);
            }
            None => self.change(|machine, _| machine.never_rewinds()),
        }
        Ok(())
    }

    /// What has to be durable before positions are stored, where something is written down.
    pub(crate) fn durable(self: &Arc<Self>) -> Option<Arc<dyn Durable>> {
        self.wanted.is_some().then(|| Arc::clone(self) as _)
    }

    /// What is written down, if anything is.
    pub(crate) fn keeping(&self) -> Option<&Keeping> {
        self.keeping.get()
    }

    pub(crate) fn rewind(&self) -> Option<&Arc<dyn Rewind>> {
        self.rewind.get()
    }

    /// Ends the present pause; true when there was one.
    pub(crate) fn override_pause(&self) -> bool {
        let was_paused = self.change(|machine, _| machine.override_pause());
        self.counters.overrides.fetch_add(u64::from(was_paused), Ordering::Relaxed);
        was_paused
    }
}
