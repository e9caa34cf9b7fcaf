//! The broker and what the harness itself does with it: topics, records, and a Kafka that may be stopped.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};

use crate::child::send_signal;
use crate::schedule::{PATIENCE, until};

/// The servers to test with; says so when there are none.
pub fn servers() -> Option<String> {
    let servers = std::env::var("KAFKA_BOOTSTRAP").ok().filter(|servers| !servers.is_empty());
    if servers.is_none() {
        eprintln!("not run: KAFKA_BOOTSTRAP names no broker");
    }
    servers
}

/// A name that no other test and no earlier run uses.
pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("chaos-{what}-{}-{}-{}", now.as_millis(), std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub fn client(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config
}

pub fn create_topic(servers: &str, name: &str, partitions: i32) {
    let admin: AdminClient<DefaultClientContext> = client(servers).create().expect("an admin client");
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let created = slipstream::testing::block_on(admin.create_topics([&topic], &AdminOptions::new()));
    let created = created.expect("the topic can be created");
    assert!(created.iter().all(Result::is_ok), "{created:?}");
}

/// Writes ids: each to the partition that it gives by division, so that every schedule has the same records.
pub struct Feeder {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
    partitions: u64,
}

impl Feeder {
    pub fn new(servers: &str, topic: &str, partitions: u64) -> Self {
        let mut config = client(servers);
        config.set("enable.idempotence", "true").set("message.timeout.ms", "0").set("linger.ms", "5");
        let producer = config.create().expect("a producer");
        Self { producer, topic: topic.to_owned(), partitions }
    }

    /// Hands ids over; they are on their way.
    pub fn send(&self, ids: std::ops::Range<u64>) {
        for id in ids {
            let text = id.to_string();
            let partition = i32::try_from(id % self.partitions).expect("few partitions");
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            until(PATIENCE, "room for a record", || {
                let record = BaseRecord::to(&self.topic).partition(partition).key(&text).payload(&text);
                match self.producer.send(record) {
                    Ok(()) => true,
                    Err((error, _)) if error == full => false,
                    Err((error, _)) => panic!("{error}"),
                }
            });
        }
    }

    /// Writes ids and waits until the broker has them.
    pub fn feed(&self, ids: std::ops::Range<u64>) {
        self.send(ids);
        self.producer.flush(PATIENCE).expect("the broker takes the records");
    }
}

/// A Kafka that only one test uses, so that it may be stopped.
pub struct OwnKafka {
    name: String,
    pub servers: String,
}

impl OwnKafka {
    pub fn start() -> Self {
        let name = unique("kafka");
        let servers = script(&["start", "--own", "--name", &name]);
        let servers = servers.trim().trim_start_matches("KAFKA_BOOTSTRAP=").to_owned();
        Self { name, servers }
    }

    /// Stops it like a crash would; its data stay.
    pub fn kill(&self) {
        script(&["stop", "--own", "--name", &self.name, "--keep-data", "--kill"]);
    }

    /// Stops it as an administrator would; its data stay.
    pub fn stop(&self) {
        script(&["stop", "--own", "--name", &self.name, "--keep-data"]);
    }

    /// It runs, and answers nobody.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        let id = script(&["pid", "--name", &self.name]);
        send_signal(id.trim().parse().expect("a process id"), signal);
    }

    pub fn start_again(&self) {
        let servers = script(&["start", "--own", "--name", &self.name]);
        assert!(servers.contains(&self.servers), "it came back elsewhere: {servers}");
    }
}

impl Drop for OwnKafka {
    fn drop(&mut self) {
        script(&["stop", "--own", "--name", &self.name, "--kill"]);
    }
}

fn script(arguments: &[&str]) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka.sh");
    // A small heap: this is a second broker on the machine.
    let output = Command::new(path).args(arguments).env("KAFKA_HEAP", "512m").output().expect("the script runs");
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() || std::thread::panicking(), "kafka.sh {arguments:?}: {said}");
    out.into_owned()
}

/// How long one question to the broker may take.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(5);
