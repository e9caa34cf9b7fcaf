//! Watches what a group commits: it never falls, whoever commits it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{ASK_TIMEOUT, client};
use crate::schedule::pass;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Seen {
    committed: Vec<Option<i64>>,
    falls: Vec<String>,
    looks: u64,
}

pub struct Commits {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Commits {
    pub fn of(servers: &str, group: &str, topic: &str, partitions: i32) -> Self {
        let mut config = client(servers);
        config.set("group.id", group).set("enable.auto.commit", "false");
        // It only asks, and never joins.
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let (seen, stop) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        seen.lock().expect("new").committed = (0..partitions).map(|_| None).collect();
        let (into, told, topic) = (Arc::clone(&seen), Arc::clone(&stop), topic.to_owned());
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                if let Some(now) = look(&consumer, &topic, partitions) {
                    into.lock().unwrap_or_else(PoisonError::into_inner).add(&now);
                }
                pass(LOOK_EVERY);
            }
        });
        Self { seen, stop, thread: Some(thread) }
    }

    pub fn of_partition(&self, partition: usize) -> Option<i64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).committed.get(partition).copied().flatten()
    }

    /// The sum over all partitions: how many records are committed.
    pub fn total(&self) -> i64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).committed.iter().flatten().sum()
    }

    /// Each time it fell.
    pub fn falls(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).falls.clone()
    }

    /// How often it was looked at.
    pub fn looks(&self) -> u64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).looks
    }
}

impl Seen {
    fn add(&mut self, now: &[Option<i64>]) {
        self.looks += 1;
        for (partition, (before, now)) in self.committed.iter_mut().zip(now).enumerate() {
            if *now < *before {
                self.falls.push(format!("partition {partition}: {before:?} to {now:?}"));
            }
            *before = *now;
        }
    }
}

/// What is committed now; `None` while the broker does not say.
fn look(consumer: &BaseConsumer, topic: &str, partitions: i32) -> Option<Vec<Option<i64>>> {
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, partitions - 1);
    let list = consumer.committed_offsets(list, ASK_TIMEOUT).ok()?;
    let offset = |partition| {
        let element = list.find_partition(topic, partition)?;
        element.error().ok()?;
        Some(match element.offset() {
            Offset::Offset(next) => Some(next),
            _ => None,
        })
    };
    (0..partitions).map(offset).collect()
}

impl Drop for Commits {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_fall_is_noticed_also_to_nothing() {
    let mut seen = Seen { committed: vec![None, None], ..Seen::default() };
    seen.add(&[Some(5), None]);
    seen.add(&[Some(6), Some(1)]);
    assert!(seen.falls.is_empty());
    seen.add(&[Some(4), None]);
    assert_eq!(seen.falls, ["partition 0: Some(6) to Some(4)", "partition 1: Some(1) to None"]);
}
