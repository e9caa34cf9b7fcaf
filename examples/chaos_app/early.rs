//! A wrong app, kept as a test of the harness: it commits in the order of completion, so that a commit covers records
//! that are still being handled. A crash then loses them, and the harness must say so.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::Shared;
use crate::settings::echo;

/// As many records as the right app may have in flight.
const IN_FLIGHT_MAX: usize = 64;

/// A record that is being handled: when that ends, its partition, offset and id.
type Handled = Reverse<(Instant, i32, i64, u64)>;

pub fn run(shared: &Shared) -> Result<()> {
    let settings = &shared.settings;
    // It shall not outlive the harness.
    std::thread::spawn(|| {
        let _ended = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(70);
    });
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.servers).set("group.id", &settings.app);
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest").set("session.timeout.ms", "6000");
    let (consumer, producer): (BaseConsumer, BaseProducer) = (config.create()?, config.create()?);
    consumer.subscribe(&[&settings.input])?;
    let mut handled: BinaryHeap<Handled> = BinaryHeap::new();
    loop {
        if handled.len() < IN_FLIGHT_MAX
            && let Some(record) = consumer.poll(Duration::from_millis(1)).transpose()?
        {
            let id: u64 = std::str::from_utf8(record.payload().unwrap_or_default())?.parse()?;
            shared.begin();
            handled.push(Reverse((Instant::now() + settings.delay(id), record.partition(), record.offset(), id)));
        }
        let mut ended = Vec::new();
        while handled.peek().is_some_and(|next| next.0.0 <= Instant::now()) {
            let Reverse((_, partition, offset, id)) = handled.pop().context("peeked at")?;
            let (key, value) = (id.to_string(), echo(id, partition, offset, settings.life));
            let record = BaseRecord::to(&settings.output).key(&key).payload(&value);
            producer.send(record).map_err(|(error, _)| error)?;
            ended.push((partition, offset));
        }
        if ended.is_empty() {
            continue;
        }
        producer.flush(Duration::from_secs(10))?;
        for (partition, offset) in ended {
            // Here is the mistake: what came before this record may still be in hand.
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&settings.input, partition, Offset::Offset(offset + 1))?;
            consumer.commit(&list, CommitMode::Async)?;
        }
    }
}
