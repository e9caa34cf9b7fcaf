//! A checkpoint in one run: the machine behind its lock, who waits for it, and what it is asked to do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::machine::{Event, Machine, Phase};
use crate::error::Error;
use crate::flow::tap::Rewind;
use crate::flow::{Env, Gate, WakerSet};

pub(crate) struct Core {
    pub name: Arc<str>,
    /// The tasks of the run, and its end. Not the run itself, which keeps this.
    pub tasks: TaskTracker,
    pub kill: CancellationToken,
    machine: Mutex<Machine>,
    began: Instant,
    /// Counts changes; a lane that has seen the last one need not look.
    version: AtomicU64,
    /// Lanes with a message at the gate.
    pub waiting: WakerSet,
    /// Of the dependent: shows who holds it.
    held: OnceLock<Gate>,
    rewind: OnceLock<Arc<dyn Rewind>>,
    events: Mutex<VecDeque<Event>>,
    /// Of a function of the user's, for the keeper to end the run with.
    failure: Mutex<Option<Error>>,
    pub news: Notify,
    pub counters: Counters,
}

/// How often what happened, since the run began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub downs: AtomicU64,
    pub recoveries: AtomicU64,
    pub rewinds: AtomicU64,
    pub overrides: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub(crate) fn new(name: Arc<str>, machine: Machine, env: &Env) -> Arc<Self> {
        Arc::new(Self {
            name,
            tasks: env.tasks().clone(),
            kill: env.kill().clone(),
            failure: Mutex::default(),
            machine: Mutex::new(machine),
            began: Instant::now(),
            version: AtomicU64::new(1),
            waiting: WakerSet::default(),
            held: OnceLock::new(),
            rewind: OnceLock::new(),
            events: Mutex::default(),
            news: Notify::new(),
            counters: Counters::default(),
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

    /// Changes the machine and tells everyone whom that concerns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Machine, Duration) -> T) -> T {
        let now = self.now();
        let mut machine = lock(&self.machine);
        let result = change(&mut machine, now);
        let events = machine.take_events();
        let holds = machine.is_closed() || machine.held() > 0;
        // Under the lock, so that the queue has the order of the transitions and the gate the last word.
        self.show(holds);
        if !events.is_empty() {
            lock(&self.events).extend(events);
            self.news.notify_one();
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        drop(machine);
        self.waiting.wake_all();
        result
    }

    /// Looks at a message of the dependent; wakes nobody unless something happened.
    pub(crate) fn judge<T>(&self, judge: impl FnOnce(&mut Machine, Duration) -> T) -> T {
        let now = self.now();
        let mut machine = lock(&self.machine);
        let (phase, was_held) = (machine.phase(), machine.held());
        let result = judge(&mut machine, now);
        let events = machine.take_events();
        let has_changed = phase != machine.phase() || !events.is_empty();
        if has_changed || was_held != machine.held() {
            self.show(machine.is_closed() || machine.held() > 0);
        }
        if !has_changed {
            return result;
        }
        lock(&self.events).extend(events);
        self.news.notify_one();
        self.version.fetch_add(1, Ordering::AcqRel);
        drop(machine);
        self.waiting.wake_all();
        result
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&lock(&self.machine))
    }

    pub(crate) fn next_event(&self) -> Option<Event> {
        lock(&self.events).pop_front()
    }

    /// A function of the user's failed where nobody waits for it.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.news.notify_one();
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    fn show(&self, holds: bool) {
        let Some(gate) = self.held.get() else { return };
        let reason = format!("checkpoint:{}", self.name);
        if holds {
            gate.pause(&reason);
        } else {
            gate.resume(&reason);
        }
    }

    /// The dependent is opened.
    pub(crate) fn opened(&self, held: &Gate, rewind: Option<Arc<dyn Rewind>>) {
        self.held.get_or_init(|| held.clone());
        match rewind {
            Some(rewind) => {
                self.rewind.get_or_init(|| rewind);
            }
            None => self.change(|machine, _| machine.never_rewinds()),
        }
    }

    pub(crate) fn rewind(&self) -> Option<&Arc<dyn Rewind>> {
        self.rewind.get()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.look(Machine::phase)
    }
}
