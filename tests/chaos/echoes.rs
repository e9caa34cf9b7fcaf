//! Reads the output on Kafka while the app runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{client, unique};
use crate::ledger::Echo;

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

/// All values of a topic, by partition.
#[cfg(feature = "rocksdb")]
pub fn values(servers: &str, topic: &str, partitions: i32) -> Vec<Vec<String>> {
    use crate::broker::ASK_TIMEOUT;
    use crate::schedule::{PATIENCE, until};

    let mut config = client(servers);
    config.set("group.id", unique("reader")).set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let end_of = |partition| consumer.fetch_watermarks(topic, partition, ASK_TIMEOUT).expect("its ends").1;
    let left: i64 = (0..partitions).map(end_of).sum();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
    }
    consumer.assign(&list).expect("an assignment");
    let mut values: Vec<Vec<String>> = (0..partitions).map(|_| Vec::new()).collect();
    let mut read = 0;
    until(PATIENCE, "all is read", || {
        while let Some(Ok(record)) = consumer.poll(Duration::from_millis(50)) {
            let own = usize::try_from(record.partition()).ok().and_then(|partition| values.get_mut(partition));
            own.expect("asked for").push(String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned());
            read += 1;
        }
        read == left
    });
    values
}
