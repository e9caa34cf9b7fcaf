//! What came out, held against what went in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{client, unique};

/// One record of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    pub id: u64,
    pub partition: i32,
    pub offset: i64,
    /// Which life of an app wrote it.
    pub life: u32,
}

impl Echo {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let id = parts.next()?.parse().ok()?;
        let partition = parts.next()?.parse().ok()?;
        let offset = parts.next()?.parse().ok()?;
        Some(Self { id, partition, offset, life: parts.next()?.parse().ok()? })
    }
}

/// Which ids came out, and how often too many.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub missing: Vec<u64>,
    /// Echoes of an id that had come out before, by the life that wrote them.
    pub repeats: BTreeMap<u32, u64>,
}

impl Verdict {
    pub fn of(echoes: &[Echo], ids: std::ops::Range<u64>) -> Self {
        // Lives run one after the other, but their echoes lie in several partitions.
        let mut sorted = echoes.to_vec();
        sorted.sort_by_key(|echo| echo.life);
        let mut seen = HashSet::new();
        let mut repeats = BTreeMap::new();
        for echo in sorted {
            if !seen.insert(echo.id) {
                *repeats.entry(echo.life).or_default() += 1;
            }
        }
        Self { missing: ids.filter(|id| !seen.contains(id)).collect(), repeats }
    }

    pub fn repeated(&self) -> u64 {
        self.repeats.values().sum()
    }
}

/// Reads the output in the background.
pub struct Echoes {
    read: Arc<Mutex<Read>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Read {
    all: Vec<Echo>,
    times: HashMap<u64, u32>,
}

impl Echoes {
    pub fn of(servers: &str, topic: &str, partitions: i32) -> Self {
        let mut config = client(servers);
        config.set("group.id", unique("reader")).set("enable.auto.commit", "false");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
        }
        consumer.assign(&list).expect("an assignment");
        let (read, stop) = (Arc::new(Mutex::new(Read::default())), Arc::new(AtomicBool::new(false)));
        let (into, told) = (Arc::clone(&read), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let Some(Ok(record)) = consumer.poll(Duration::from_millis(50)) else { continue };
                let text = String::from_utf8_lossy(record.payload().unwrap_or_default());
                let echo = Echo::parse(&text).expect("an echo");
                let mut read = into.lock().unwrap_or_else(PoisonError::into_inner);
                read.all.push(echo);
                *read.times.entry(echo.id).or_default() += 1;
            }
        });
        Self { read, stop, thread: Some(thread) }
    }

    pub fn all(&self) -> Vec<Echo> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// How many different ids came out.
    pub fn ids(&self) -> usize {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).times.len()
    }

    pub fn has(&self, id: u64) -> bool {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).times.contains_key(&id)
    }
}

impl Drop for Echoes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn the_verdict_names_missing_ids_and_counts_repeats_by_life() {
    let echo = |id, life| Echo { id, partition: 0, offset: 0, life };
    let verdict = Verdict::of(&[echo(0, 2), echo(0, 1), echo(3, 2), echo(3, 2), echo(1, 1)], 0..5);
    assert_eq!(verdict, Verdict { missing: vec![2, 4], repeats: BTreeMap::from([(2, 2)]) });
}
