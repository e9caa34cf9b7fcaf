//! What the broker has given to this app: each partition begins where it has to, and once more when the broker was away.

use std::sync::Arc;

use tokio::time::Instant;

use super::back::AGAIN;
use super::driver::{Assignment, is_not_ours};
use super::hub::{Key, Session};
use crate::error::{Error, Kind, Result};

/// Partitions that could not begin yet.
pub(super) struct Late {
    waiting: Vec<Assignment>,
    tried: Instant,
}

impl Late {
    pub(super) fn new() -> Self {
        Self { waiting: Vec::new(), tried: Instant::now() }
    }

    pub(super) fn has(&self, topic: &Arc<str>) -> bool {
        self.waiting.iter().any(|own| own.feed.topic == *topic)
    }

    /// These are others' now.
    pub(super) fn leave(&mut self, partitions: &[Key]) {
        let is_left = |own: &Assignment| {
            partitions.iter().any(|(topic, partition)| own.feed.topic == *topic && own.feed.partition == *partition)
        };
        self.waiting.retain(|own| !is_left(own));
    }
}

impl Session {
    pub(super) async fn on_assigned(&mut self, assignments: Vec<Assignment>) -> Result<()> {
        self.tell_watches(&assignments).await?;
        let topics: Vec<_> = assignments.iter().map(|own| Arc::clone(&own.feed.topic)).collect();
        for assignment in assignments {
            self.assign_or_wait(assignment).await?;
        }
        self.tell_current()?;
        self.forget_seeks(&topics);
        // A start that was just resolved is committed at once.
        self.commit().await;
        self.tell_stored();
        Ok(())
    }

    /// Tries once more what could not begin, from time to time.
    pub(super) async fn assign_late(&mut self) -> Result<()> {
        if self.late.waiting.is_empty() || self.late.tried.elapsed() < AGAIN {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.late.waiting);
        let topics: Vec<_> = waiting.iter().map(|own| Arc::clone(&own.feed.topic)).collect();
        for assignment in waiting {
            self.assign_or_wait(assignment).await?;
        }
        self.tell_current()?;
        self.forget_seeks(&topics);
        Ok(())
    }

    /// A seek moves what was assigned next, once: a partition that comes back later goes on where it was.
    fn forget_seeks(&mut self, topics: &[Arc<str>]) {
        let late = &self.late;
        let is_open = |topic: &Arc<str>| !topics.contains(topic) || late.has(topic);
        self.pending_seeks.retain(|topic, _| is_open(topic));
    }

    /// Begins a partition, or keeps it for later while the broker is away.
    async fn assign_or_wait(&mut self, assignment: Assignment) -> Result<()> {
        let (topic, partition) = (Arc::clone(&assignment.feed.topic), assignment.feed.partition);
        match self.assign(&assignment).await {
            // The event that says so is on its way.
            Err(error) if is_not_ours(&error) => {
                tracing::info!(%topic, partition, "taken away before it was read: {error}");
                Ok(())
            }
            Err(error) if error.is_retryable() => {
                tracing::warn!(%topic, partition, "cannot begin yet, which is tried again: {}", error.report());
                self.late.waiting.push(assignment);
                self.late.tried = Instant::now();
                Ok(())
            }
            other => other,
        }
    }

    async fn assign(&mut self, assignment: &Assignment) -> Result<()> {
        let (topic, partition) = (Arc::clone(&assignment.feed.topic), assignment.feed.partition);
        let elsewhere = match self.pending_seeks.get(&topic).copied() {
            Some(to) => self.assign_sought(assignment, to).await.map(Some)?,
            None => self.assign_earlier(assignment).await?,
        };
        let assignment = elsewhere.as_ref().unwrap_or(assignment);
        let strict = self.makers.get(&topic).is_some_and(|maker| maker.needs_position());
        if strict && assignment.committed.is_none() {
            let message = "the group has no position, and `auto.offset.reset` is `error`";
            return Err(Error::new(Kind::OutOfRange, message).at(format!("{topic}[{partition}]")));
        }
        if self.begin_if_ours(assignment).await? {
            let committed = assignment.committed;
            tracing::info!(%topic, partition, from = assignment.from, ?committed, "assigned");
        }
        Ok(())
    }
}
