//! All keys of the configuration: those of booblik 0.3 under their names, and those that only this broker has.

use std::time::Duration;

use super::settings::Settings;
use crate::booblik::broker::TopicOptions;
use crate::booblik::log::OnDamage;
use crate::booblik::wire::is_topic_name;

/// A key.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// What its value has to be, as a noun.
    pub(super) takes: &'static str,
    set: Set,
}

/// Sets what a value says; `None` when it says nothing that can be.
enum Set {
    Broker(fn(&mut Settings, &str) -> Option<()>),
    /// Of the default of all topics, or of one topic under `booblik.topic.<name>.`.
    Topic(fn(&mut TopicOptions, &str) -> Option<()>),
    /// Understood, and without effect.
    Nothing(&'static [&'static str]),
}

impl Key {
    const fn broker(name: &'static str, takes: &'static str, set: fn(&mut Settings, &str) -> Option<()>) -> Self {
        Self { name, takes, set: Set::Broker(set) }
    }

    const fn topic(name: &'static str, takes: &'static str, set: fn(&mut TopicOptions, &str) -> Option<()>) -> Self {
        Self { name, takes, set: Set::Topic(set) }
    }

    /// For the broker, or as the default of all topics.
    pub(super) fn set(&self, settings: &mut Settings, value: &str) -> Option<()> {
        match self.set {
            Set::Broker(set) => set(settings, value),
            Set::Topic(set) => set(&mut settings.broker.default, value),
            Set::Nothing(words) => {
                settings.without_effect.push(self.name);
                words.iter().any(|word| word.eq_ignore_ascii_case(value)).then_some(())
            }
        }
    }

    /// For one topic.
    pub(super) fn set_for(&self, topic: &mut TopicOptions, value: &str) -> Option<()> {
        let Set::Topic(set) = self.set else { return None };
        set(topic, value)
    }

    /// Whether single topics can have it.
    pub(super) fn is_of_topics(&self) -> bool {
        matches!(self.set, Set::Topic(_))
    }
}

pub(super) const PREFIX: &str = "booblik.";
/// In front of the name of a topic and one of its keys.
pub(super) const TOPIC: &str = "booblik.topic.";
/// Stands for host and port.
pub(super) const LISTEN: &str = "booblik.listen";
pub(super) const HOST: &str = "booblik.bind.address";
pub(super) const PORT: &str = "booblik.port";
pub(super) const DIRECTORY: &str = "booblik.data.dir";
pub(super) const TOPICS: &str = "booblik.topics";

const POSITIVE: &str = "a whole number above 0";
const NUMBER: &str = "a whole number";

pub(super) const KEYS: &[Key] = &[
    Key::broker(DIRECTORY, "a directory", |to, value| {
        to.directory = value.into();
        Some(())
    }),
    Key::broker(HOST, "a host name or an address", |to, value| {
        value.trim_matches(['[', ']']).clone_into(&mut to.host);
        Some(())
    }),
    Key::broker(PORT, "a port, 0 to 65535", |to, value| store(&mut to.port, value.parse().ok())),
    Key::broker(TOPICS, "a list `name:partitions,name:partitions`", |to, value| store(&mut to.topics, topics(value))),
    Key::broker("booblik.retention.check.millis", POSITIVE, |to, value| {
        store(&mut to.broker.retention_check, millis(value))
    }),
    Key::broker("booblik.metrics.interval.millis", NUMBER, |to, value| {
        let interval: i64 = value.parse().ok()?;
        to.metrics_interval = u64::try_from(interval).ok().filter(|millis| *millis > 0).map(Duration::from_millis);
        Some(())
    }),
    Key::topic("booblik.segment.capacity.bytes", "a number of bytes above 8 and below 2³¹", |to, value| {
        store(&mut to.segment_bytes, positive(value).filter(|bytes| (9..1 << 31).contains(bytes)))
    }),
    Key::topic("booblik.index.interval.bytes", POSITIVE, |to, value| {
        store(&mut to.index_interval_bytes, positive(value))
    }),
    Key::topic("booblik.flush.every.records", POSITIVE, |to, value| some(&mut to.flush_every_records, positive(value))),
    Key::topic("booblik.flush.every.millis", POSITIVE, |to, value| some(&mut to.flush_every, millis(value))),
    Key::topic("booblik.retention.bytes", POSITIVE, |to, value| some(&mut to.retention_bytes, positive(value))),
    Key::topic("booblik.retention.millis", POSITIVE, |to, value| some(&mut to.retention_age, millis(value))),
    Key {
        name: "booblik.segment.mode",
        takes: "MAPPED or FILE_CHANNEL",
        set: Set::Nothing(&["MAPPED", "FILE_CHANNEL"]),
    },
    Key {
        name: "booblik.transport",
        takes: "SELECTOR or VIRTUAL_THREADS",
        set: Set::Nothing(&["SELECTOR", "VIRTUAL_THREADS"]),
    },
    Key { name: "booblik.fetch.mode", takes: "ZERO_COPY or HEAP", set: Set::Nothing(&["ZERO_COPY", "HEAP"]) },
    Key::topic("booblik.on.damage", "refuse or serve", |to, value| {
        let found = match value {
            "refuse" => Some(OnDamage::Refuse),
            "serve" => Some(OnDamage::Serve),
            _ => None,
        };
        store(&mut to.on_damage, found)
    }),
    Key::broker("booblik.queue.bytes", POSITIVE, |to, value| store(&mut to.broker.queue_bytes, size(value))),
    Key::broker("booblik.queue.records", POSITIVE, |to, value| store(&mut to.broker.queue_records, size(value))),
    Key::broker("booblik.gather.micros", NUMBER, |to, value| {
        store(&mut to.broker.gather, value.parse().ok().map(Duration::from_micros))
    }),
    Key::broker("booblik.writer.threads", POSITIVE, |to, value| store(&mut to.broker.writer_threads, size(value))),
    Key::broker("booblik.resume.every.millis", POSITIVE, |to, value| store(&mut to.broker.resume_every, millis(value))),
    Key::broker("booblik.max.connections", POSITIVE, |to, value| store(&mut to.server.max_connections, size(value))),
    Key::broker("booblik.max.pipelined", POSITIVE, |to, value| store(&mut to.server.max_pipelined, size(value))),
    Key::broker("booblik.max.frame.bytes", "a number of bytes, 8 to 8388608", |to, value| {
        let fits = |bytes: &usize| (8..=crate::booblik::wire::MAX_FRAME_BYTES).contains(bytes);
        store(&mut to.server.max_frame_bytes, size(value).filter(fits))
    }),
    Key::broker("booblik.max.partial.bytes", POSITIVE, |to, value| {
        store(&mut to.server.max_partial_bytes, size(value))
    }),
    Key::broker("booblik.idle.millis", POSITIVE, |to, value| store(&mut to.server.idle, millis(value))),
    Key::broker("booblik.read.stall.millis", POSITIVE, |to, value| store(&mut to.server.read_stall, millis(value))),
    Key::broker("booblik.request.millis", POSITIVE, |to, value| store(&mut to.server.request, millis(value))),
    Key::broker("booblik.write.stall.millis", POSITIVE, |to, value| store(&mut to.server.write_stall, millis(value))),
    Key::broker("booblik.drain.millis", NUMBER, |to, value| {
        store(&mut to.server.drain, value.parse().ok().map(Duration::from_millis))
    }),
];

fn store<T>(to: &mut T, value: Option<T>) -> Option<()> {
    *to = value?;
    Some(())
}

fn some<T>(to: &mut Option<T>, value: Option<T>) -> Option<()> {
    *to = Some(value?);
    Some(())
}

fn positive(value: &str) -> Option<u64> {
    value.parse().ok().filter(|number| *number > 0)
}

fn size(value: &str) -> Option<usize> {
    positive(value).and_then(|number| number.try_into().ok())
}

fn millis(value: &str) -> Option<Duration> {
    positive(value).map(Duration::from_millis)
}

/// Entries are trimmed, empty ones passed over; of two for the same name the last one counts.
fn topics(list: &str) -> Option<Vec<(String, usize)>> {
    let mut topics: Vec<(String, usize)> = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, count) = entry.split_once(':')?;
        let count = size(count)?;
        if !is_topic_name(name) {
            return None;
        }
        topics.retain(|(other, _)| other != name);
        topics.push((name.to_owned(), count));
    }
    Some(topics)
}
