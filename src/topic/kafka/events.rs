//! The way of events from the reading thread to the app, which never makes the thread wait.

use std::collections::VecDeque;

use tokio::sync::mpsc::error::TrySendError;

use crate::error::Error;
use crate::topic::driver::{EVENTS_MAX, Event, EventSender};

pub(super) struct Outbox {
    sender: EventSender,
    waiting: VecDeque<Event>,
    gone: bool,
}

impl Outbox {
    pub(super) fn new(sender: EventSender) -> Self {
        Self { sender, waiting: VecDeque::new(), gone: false }
    }

    /// Sends an event behind those that wait. Rebalances come one at a time, so only an app that takes no events at all
    /// lets many wait; it is given up then.
    pub(super) fn send(&mut self, event: Event) {
        self.waiting.push_back(event);
        self.flush();
        if self.waiting.len() > EVENTS_MAX {
            tracing::error!("the app takes no events: its Kafka consumer ends");
            self.gone = true;
        }
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.send(Event::Failed(error));
    }

    /// Sends what the app now has room for.
    pub(super) fn flush(&mut self) {
        while let Some(event) = self.waiting.pop_front() {
            match self.sender.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    self.waiting.push_front(event);
                    return;
                }
                Err(TrySendError::Closed(_)) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    /// Nobody listens any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone || self.sender.is_closed()
    }
}
