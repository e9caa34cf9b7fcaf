//! Lanes that end by themselves: their handlers take no more, or their log is another one than their tables know.

use std::sync::Arc;

use super::back::AGAIN;
use super::driver::{SeekTo, is_not_ours};
use super::hub::{Key, Session};
use crate::error::Result;

impl Session {
    /// Begins partitions anew whose log is another one than the one that their tables know: nothing of what the group has
    /// committed is about this one.
    pub(super) async fn start_over(&mut self) -> Result<()> {
        let lanes = self.lanes.iter().filter(|(_, lane)| lane.control.starts_over());
        for key in lanes.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            match self.begin_anew(&key).await {
                // The event that says so is on its way.
                Err(error) if is_not_ours(&error) => {
                    tracing::info!(topic = %key.0, partition = key.1, "taken away: {error}");
                }
                Err(error) if error.is_retryable() => {
                    let why = error.report();
                    tracing::warn!(topic = %key.0, partition = key.1, "cannot begin anew yet, which is tried again: {why}");
                    let over = Arc::clone(&self.lane_over);
                    tokio::spawn(async move {
                        tokio::time::sleep(AGAIN).await;
                        over.notify_one();
                    });
                }
                begun => begun?,
            }
        }
        Ok(())
    }

    /// From the log's start on. How far a dependency had come in the other log says nothing of this one.
    async fn begin_anew(&mut self, key: &Key) -> Result<()> {
        let (topic, partition) = key;
        let low = self.driver.resolve(Arc::clone(topic), *partition, SeekTo::Beginning).await?;
        let mut assignment = self.driver.seek(Arc::clone(topic), *partition, low).await?;
        self.watches(topic).iter().for_each(|watch| watch.moved(*partition, None, None));
        self.unready.retain(|own| !own.is(key));
        (assignment.committed, assignment.note) = (None, None);
        self.begin_if_ours(&assignment).await.map(drop)
    }

    /// Ends the lanes of topics whose handlers take no more messages. True when there are no other topics: then the
    /// connection ends. Otherwise the partitions stay with it, unread, which is said.
    pub(super) fn end_topics(&mut self) -> bool {
        let over =
            self.lanes.iter().filter(|(_, lane)| lane.control.is_over()).map(|((topic, _), _)| Arc::clone(topic));
        self.over.extend(over);
        let ended = self.lanes.iter().filter(|((topic, _), _)| self.over.contains(topic));
        ended.for_each(|(_, lane)| lane.control.stop.cancel());
        if self.makers.keys().all(|topic| self.over.contains(topic)) {
            return true;
        }
        for (topic, maker) in self.makers.iter().filter(|(topic, _)| self.over.contains(*topic)) {
            let text = "its handlers have ended: its partitions stay here unread until the topics read with it end too";
            tracing::warn!(%topic, "{text}");
            maker.stats().set_notice(Some(text.to_owned()));
        }
        false
    }
}
