//! The task of a checkpoint: tells of transitions, calls the user's callbacks, rewinds, and looks at the clock.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::OptionFuture;
use tokio::time::{MissedTickBehavior, interval};

use super::core::Core;
use super::keeping::Keeping;
use super::machine::{Event, Machine, Mode};
use super::outage::Outage;
use super::plan::{AtLimit, Callback};
use crate::error::{Error, Kind, Result};
use crate::flow::Env;
use crate::util::{panic_message, step};

/// Between two looks at the clock, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At least.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// How often a rewind is tried that leaves partitions where they are; what is due then stays with their positions.
const REWINDS_MAX: u32 = 10;
/// How long what has happened is told when the run ends.
const TELL_MAX: Duration = Duration::from_secs(5);
const REWIND_AGAIN: Duration = Duration::from_millis(20);

pub(crate) struct Keeper {
    pub core: Arc<Core>,
    pub env: Env,
    pub on_downtime: Option<Callback>,
    pub on_recovery: Option<Callback>,
    pub at_limit: Option<AtLimit>,
    /// The shortest of the waits that were declared.
    pub shortest: Option<Duration>,
}

impl Keeper {
    /// Runs until the app stops. What is half done then is done by the next run: positions say what is to be corrected.
    /// Where there are none, what has happened is told to its end.
    pub(crate) async fn run(self) {
        let env = self.env.clone();
        let is_too_late = async {
            env.stop().cancelled().await;
            tokio::time::sleep(TELL_MAX).await;
        };
        let result = tokio::select! {
            biased;
            () = env.kill().cancelled() => Ok(()),
            () = is_too_late => Ok(()),
            result = self.keep() => result,
        };
        // A rewind that the end of the run cut short is none of its errors.
        let result =
            result.or_else(
                |error| if env.stop().is_cancelled() && error.kind() == Kind::Closed { Ok(()) } else { Err(error) },
            );
        if let Err(error) = result {
            env.fail(if error.place().is_some() { error } else { error.at(self.place()) });
        }
        env.set_notice(&self.place(), None);
    }

    fn place(&self) -> String {
        format!("checkpoint {}", self.core.name)
    }

    async fn keep(&self) -> Result<()> {
        let pause = self.shortest.map_or(LOOK_EVERY, |shortest| (shortest / 4).clamp(LOOK_MIN, LOOK_EVERY));
        let mut looks = interval(pause);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What an event asks for, one after the other. The clock goes on meanwhile.
        let mut acting = None;
        loop {
            while acting.is_none()
                && let Some(event) = self.core.next_event()
            {
                acting = Some(Box::pin(self.act(event)));
            }
            if let Some(error) = self.core.take_failure() {
                return Err(error);
            }
            let is_last = self.env.stop().is_cancelled();
            if is_last && (acting.is_none() || self.core.rewind().is_some()) {
                return Ok(());
            }
            tokio::select! {
                result = OptionFuture::from(acting.as_mut()), if acting.is_some() => {
                    acting = None;
                    result.unwrap_or(Ok(()))?;
                }
                () = self.core.news.notified() => {}
                () = self.env.stop().cancelled(), if !is_last => {}
                _ = looks.tick() => self.look_at_the_clock()?,
            }
        }
    }

    /// Says aloud when an outage lasts longer than anything should without progress.
    fn look_at_the_clock(&self) -> Result<()> {
        if self.core.look(Machine::needs_clock) && self.core.change(Machine::tick) {
            self.core.counters.limits.fetch_add(1, Ordering::Relaxed);
            tracing::error!(checkpoint = &*self.core.name, "the pause has lasted as long as it may");
            self.at_limit()?;
        }
        let far = self.core.look(Machine::far_future);
        if far > self.core.counters.told_far.swap(far, Ordering::Relaxed) {
            tracing::warn!(checkpoint = &*self.core.name, "{far} markers so far are too far ahead of all others");
        }
        let limit = self.env.parts().settings.watchdog_timeout();
        let status = super::status::of(&self.core);
        let since = |machine: &Machine| machine.waiting_since().into_iter().chain(machine.asked_since()).min();
        let calling = self.core.calling().map(|(_, since)| since);
        let waited =
            self.core.look(since).into_iter().chain(calling).min().map(|since| self.core.now().saturating_sub(since));
        let is_long = waited.is_some_and(|waited| waited >= limit);
        let notice = is_long.then(|| format!("for more than {limit:?} it {}", status.next));
        self.env.set_notice(&self.place(), notice);
        Ok(())
    }

    /// One log event for each transition, and one counter.
    fn tell(&self, event: &Event) {
        let (name, counters) = (&*self.core.name, &self.core.counters);
        match event {
            Event::Down(outage) => {
                counters.downs.fetch_add(1, Ordering::Relaxed);
                let downtime = outage.downtime.as_ref().map(ToString::to_string).unwrap_or_default();
                let (dependency, outage) = (&*outage.dependency, outage.number);
                if self.core.look(|machine| machine.rules().mode == Mode::Hold) {
                    // Nothing is wrong, and short waits are the rule; long ones are in health.
                    tracing::info!(checkpoint = name, dependency, outage, %downtime, "a dependency is waited for");
                } else {
                    tracing::warn!(checkpoint = name, dependency, outage, %downtime, "a dependency is down");
                }
                step("down");
            }
            Event::Up(dependency) => {
                counters.ups.fetch_add(1, Ordering::Relaxed);
                tracing::info!(checkpoint = name, dependency = &**dependency, "a dependency is back");
            }
            Event::Recovered(outage) => {
                counters.recoveries.fetch_add(1, Ordering::Relaxed);
                tracing::info!(checkpoint = name, outage = outage.number, "all dependencies are back");
                step("recovered");
            }
            Event::Resumed => {
                counters.resumes.fetch_add(1, Ordering::Relaxed);
                tracing::info!(checkpoint = name, "goes on");
            }
            Event::Overridden => tracing::warn!(checkpoint = name, "goes on although a dependency is down"),
        }
    }

    async fn act(&self, event: Event) -> Result<()> {
        if let Event::Down(outage) = &event {
            self.write(Arc::clone(outage), Keeping::begins).await?;
        }
        self.tell(&event);
        match event {
            Event::Down(outage) => self.call(self.on_downtime.as_ref(), "on_downtime", outage).await,
            Event::Recovered(outage) => self.recover(outage).await,
            Event::Up(_) | Event::Resumed | Event::Overridden => Ok(()),
        }
    }

    fn at_limit(&self) -> Result<()> {
        match self.at_limit {
            Some(AtLimit::Resume) => {
                self.core.override_pause();
                Ok(())
            }
            Some(AtLimit::Stop) | None => {
                let status = super::status::of(&self.core);
                Err(Error::new(Kind::Timeout, format!("the pause has lasted as long as it may: it {}", status.next)))
            }
        }
    }

    /// The user's callback first, then the rewind of what nobody has moved meanwhile, then on.
    async fn recover(&self, outage: Arc<Outage>) -> Result<()> {
        let number = outage.number;
        self.call(self.on_recovery.as_ref(), "on_recovery", outage).await?;
        let is_overtaken = || self.core.look(|machine| machine.has_begun_another(number));
        for again in 0..REWINDS_MAX {
            if is_overtaken() {
                break;
            }
            let due = self.core.look(Machine::due);
            let Some(rewind) = self.core.rewind().filter(|_| !due.is_empty()) else { break };
            if again > 0 {
                // Another checkpoint was sending it back just then, and not as far; or it is about to be taken away.
                tokio::time::sleep(REWIND_AGAIN).await;
            }
            tracing::info!(checkpoint = &*self.core.name, outage = number, targets = ?due, "goes back");
            step("goes back");
            let before = due.len();
            rewind.rewind(due, number).await?;
            let moved = before.saturating_sub(self.core.look(Machine::due).len()) as u64;
            self.core.counters.rewinds.fetch_add(moved, Ordering::Relaxed);
        }
        // Also of one that was overtaken by the next, which goes back for both.
        self.write(number, Keeping::is_over).await?;
        step("resumes");
        self.core.change(|machine, now| {
            if !machine.has_begun_another(number) {
                machine.resume(now);
            }
        });
        step("resumed");
        Ok(())
    }
}

impl Keeper {
    /// Writes the record, where there is one, and waits until that is durable.
    async fn write<T: Send + 'static>(&self, what: T, write: fn(&Keeping, T) -> Result<()>) -> Result<()> {
        if self.core.keeping().is_none() {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        let written =
            tokio::task::spawn_blocking(move || core.keeping().map_or(Ok(()), |keeping| write(keeping, what)));
        written.await.unwrap_or_else(|error| Err(Error::new(Kind::Io, "interrupted").because(error)))
    }

    /// A callback of the user's; a panic in it is an error.
    async fn call(&self, callback: Option<&Callback>, name: &'static str, outage: Arc<Outage>) -> Result<()> {
        let Some(callback) = callback else { return Ok(()) };
        self.core.set_calling(Some(name));
        let called = AssertUnwindSafe(async { callback(outage).await }).catch_unwind().await;
        self.core.set_calling(None);
        let failed = |error| Err(Error::new(Kind::Handler, format!("`{name}` failed")).because(error));
        match called {
            Ok(result) => result.or_else(failed),
            Err(panic) => Err(Error::new(Kind::Panic, format!("`{name}` panicked: {}", panic_message(&*panic)))),
        }
    }
}
