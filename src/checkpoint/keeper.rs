//! The task of a checkpoint: tells of transitions, calls the user's callbacks, rewinds, and looks at the clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::core::Core;
use super::machine::{Event, Machine, Phase};
use super::outage::Outage;
use super::plan::{AtLimit, Callback};
use crate::error::{Error, Kind, Result};
use crate::flow::Env;
use crate::util::step;

/// Between two looks at the clock, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At least.
const LOOK_MIN: Duration = Duration::from_millis(5);

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
    pub(crate) async fn run(self) {
        let env = self.env.clone();
        let result = tokio::select! {
            biased;
            () = env.stop().cancelled() => Ok(()),
            result = self.keep() => result,
        };
        // A rewind that the end of the run cut short is none of its errors.
        let result =
            result.or_else(
                |error| if env.stop().is_cancelled() && error.kind() == Kind::Closed { Ok(()) } else { Err(error) },
            );
        if let Err(error) = result {
            env.fail(error.at(self.place()));
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
        loop {
            while let Some(event) = self.core.next_event() {
                self.tell(&event);
                self.act(event).await?;
            }
            if let Some(error) = self.core.take_failure() {
                return Err(error);
            }
            tokio::select! {
                () = self.core.news.notified() => {}
                _ = looks.tick() => self.look_at_the_clock(),
            }
        }
    }

    /// Says aloud when an outage lasts longer than anything should without progress.
    fn look_at_the_clock(&self) {
        if self.shortest.is_some() {
            self.core.change(Machine::tick);
        }
        let limit = self.env.parts().settings.watchdog_timeout();
        let status = super::status::of(&self.core);
        let is_long = status.outage_for.is_some_and(|lasted| lasted >= limit);
        let notice = is_long.then(|| format!("for more than {limit:?} it {}", status.next));
        self.env.set_notice(&self.place(), notice);
    }

    /// One log event for each transition, and one counter.
    fn tell(&self, event: &Event) {
        let (name, counters) = (&*self.core.name, &self.core.counters);
        match event {
            Event::Down(outage) => {
                counters.downs.fetch_add(1, Ordering::Relaxed);
                let downtime = outage.downtime.as_ref().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(checkpoint = name, dependency = &*outage.dependency, outage = outage.number, %downtime, "a dependency is down");
                step("down");
            }
            Event::Up(dependency) => {
                tracing::info!(checkpoint = name, dependency = &**dependency, "a dependency is back");
            }
            Event::Recovered(outage) => {
                counters.recoveries.fetch_add(1, Ordering::Relaxed);
                tracing::info!(checkpoint = name, outage = outage.number, "all dependencies are back");
                step("recovered");
            }
            Event::Resumed => tracing::info!(checkpoint = name, "goes on"),
            Event::TooLong => tracing::error!(checkpoint = name, "the pause has lasted as long as it may"),
            Event::Overridden => tracing::warn!(checkpoint = name, "goes on although a dependency is down"),
        }
    }

    async fn act(&self, event: Event) -> Result<()> {
        match event {
            Event::Down(outage) => call(self.on_downtime.as_ref(), "on_downtime", outage).await,
            Event::Recovered(outage) => self.recover(outage).await,
            Event::TooLong => self.at_limit(),
            Event::Up(_) | Event::Resumed | Event::Overridden => Ok(()),
        }
    }

    fn at_limit(&self) -> Result<()> {
        match self.at_limit {
            Some(AtLimit::Resume) => {
                let was_paused = self.core.change(|machine, _| machine.override_pause());
                self.core.counters.overrides.fetch_add(u64::from(was_paused), Ordering::Relaxed);
                Ok(())
            }
            Some(AtLimit::Stop) | None if self.core.phase() == Phase::Down => {
                let status = super::status::of(&self.core);
                Err(Error::new(Kind::Timeout, format!("the pause has lasted as long as it may: it {}", status.next)))
            }
            _ => Ok(()),
        }
    }

    /// The user's callback first, then the rewind of what nobody has moved meanwhile, then on.
    async fn recover(&self, outage: Arc<Outage>) -> Result<()> {
        let number = outage.number;
        call(self.on_recovery.as_ref(), "on_recovery", outage).await?;
        let targets = self.core.look(|machine| if machine.rules().rewinds { machine.targets() } else { Vec::new() });
        if let Some(rewind) = self.core.rewind().filter(|_| !targets.is_empty()) {
            let partitions = targets.len() as u64;
            tracing::info!(checkpoint = &*self.core.name, outage = number, ?targets, "goes back");
            step("goes back");
            rewind.rewind(targets, number).await?;
            self.core.counters.rewinds.fetch_add(partitions, Ordering::Relaxed);
        }
        step("resumes");
        self.core.change(|machine, _| machine.resume());
        step("resumed");
        Ok(())
    }
}

async fn call(callback: Option<&Callback>, name: &str, outage: Arc<Outage>) -> Result<()> {
    let Some(callback) = callback else { return Ok(()) };
    callback(outage).await.map_err(|error| Error::new(Kind::Handler, format!("`{name}` failed")).because(error))
}
