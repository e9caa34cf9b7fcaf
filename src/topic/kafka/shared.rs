//! What the reading thread, the driver and the watcher of one subscription know together.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::client::Place;

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Told when the watcher should look now.
    pub trouble: Notify,
}

#[derive(Default)]
struct State {
    owned: HashSet<Place>,
    /// Partitions that each topic had when reading began.
    first: HashMap<Arc<str>, i32>,
    trouble: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, places: &[Place]) {
        self.lock().owned.extend(places.iter().cloned());
    }

    pub(super) fn remove(&self, places: &[Place]) {
        let mut state = self.lock();
        for place in places {
            state.owned.remove(place);
        }
    }

    pub(super) fn owns(&self, place: &Place) -> bool {
        self.lock().owned.contains(place)
    }

    /// The first look at a topic; later ones change nothing.
    pub(super) fn seen(&self, topic: &Arc<str>, partitions: i32) {
        self.lock().first.entry(Arc::clone(topic)).or_insert(partitions);
    }

    /// Whether a partition was created after reading of its topic began.
    pub(super) fn is_new(&self, place: &Place) -> bool {
        self.lock().first.get(&place.0).is_some_and(|first| place.1 >= *first)
    }

    pub(super) fn set_trouble(&self, text: String) {
        self.lock().trouble = Some(text);
        self.trouble.notify_one();
    }

    pub(super) fn take_trouble(&self) -> Option<String> {
        self.lock().trouble.take()
    }
}
