//! Seeks: partitions of a topic are read from another place, by someone's wish or after an outage.

use std::sync::Arc;

use super::back::Why;
use super::driver::{Assignment, SeekTo, is_not_ours};
use super::hub::{Key, Move, SeekRequest, Session, drain};
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::flow::tap::{needed, note_of};
use crate::util::step;

impl Session {
    /// Does what was asked for.
    pub(super) async fn on_seek(&mut self, request: SeekRequest) {
        let SeekRequest { topic, to, answer } = request;
        match to {
            Move::All(to) => {
                let result = self.seek(topic, to).await;
                let _ = answer.send(result);
            }
            Move::Back(back) => self.stop_for_rewind(topic, back, answer),
        }
    }

    /// Checks all targets before anything moves.
    async fn seek(&mut self, topic: Arc<str>, to: SeekTo) -> Result<()> {
        if self.makers.get(&topic).is_some_and(|maker| maker.fold().is_some()) {
            let message =
                "tables are a fold over all of the topic: its position is where their rows are, and cannot be moved";
            return Err(Error::new(Kind::Seek, message).at(format!("topic {topic}")));
        }
        let keys: Vec<Key> = self.lanes.keys().filter(|(name, _)| *name == topic).cloned().collect();
        if keys.is_empty() {
            self.pending_seeks.insert(topic, to);
            return Ok(());
        }
        let mut targets = Vec::new();
        for (_, partition) in keys {
            match self.driver.resolve(Arc::clone(&topic), partition, to).await {
                Ok(offset) => targets.push((Arc::clone(&topic), partition, offset)),
                Err(error) if is_not_ours(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if self.late.has(&topic) {
            // Those begin there.
            self.pending_seeks.insert(Arc::clone(&topic), to);
        }
        for (topic, partition, offset) in targets {
            let Some(lane) = self.lanes.remove(&(Arc::clone(&topic), partition)) else { continue };
            let key = (Arc::clone(&topic), partition);
            drain(vec![(key, lane)], self.revoke_timeout).await;
            match self.begin_at(Arc::clone(&topic), partition, offset, Why::Seek).await {
                Ok(assignment) => self.start_lane(&assignment, None),
                // Whoever has it next goes on where it was.
                Err(error) if is_not_ours(&error) => {
                    tracing::info!(%topic, partition, "taken away before it was sought");
                }
                Err(error) => {
                    // Its lane has ended and nothing would read it: better no run than one that sits idle.
                    let place = format!("{topic}[{partition}]");
                    self.env.fail(Error::new(Kind::Seek, format!("the seek failed half-way: {error}")).at(place));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The assignment from where a seek wants it that came before.
    pub(super) async fn assign_sought(&mut self, assignment: &Assignment, to: SeekTo) -> Result<Assignment> {
        let feed = &assignment.feed;
        let offset = self.driver.resolve(Arc::clone(&feed.topic), feed.partition, to).await?;
        self.begin_at(Arc::clone(&feed.topic), feed.partition, offset, Why::Seek).await
    }

    /// Has a partition read from `offset` on, and commits that. What was committed before no longer counts: a replay
    /// that ends where the group once was is to be committed again.
    pub(super) async fn begin_at(
        &mut self,
        topic: Arc<str>,
        partition: i32,
        offset: i64,
        why: Why,
    ) -> Result<Assignment> {
        let mut assignment = self.driver.seek(Arc::clone(&topic), partition, offset).await?;
        step("sought");
        let watches = self.watches(&topic);
        watches.iter().for_each(|watch| watch.moved(partition, why.back_to(offset), why.outage()));
        let note = note_of(watches, partition, offset);
        let needed = needed(watches, partition, offset);
        let position = Position { topic, partition, next: offset, needed, note: note.clone() };
        let stored = self.store(vec![position]).await;
        match stored {
            // The place it came from is still committed with the offset to go back to: nothing is lost meanwhile.
            Err(error) if why != Why::Seek => {
                tracing::warn!(
                    "the place of a rewind could not be committed, the next commit tries: {}",
                    error.report()
                );
            }
            stored => {
                stored?;
                step("moved");
                assignment.committed = Some(offset);
                assignment.note = note;
            }
        }
        Ok(assignment)
    }
}
