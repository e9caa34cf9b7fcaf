//! A client as the kit sees it: verbs with arguments, answers as keys and values.

use std::fmt::Display;
use std::process::Command;
use std::time::{Duration, Instant};

use slipstream::booblik::client::{Client, ClientError};
use slipstream::booblik::wire::{Acks, Ending, Fetch, Produced};
use tokio::runtime::Runtime;

use super::process::finished;

/// How long a verb may take, and one that waits for no acknowledgement.
const LIMIT: Duration = Duration::from_secs(20);
const LIMIT_OF_NONE: Duration = Duration::from_secs(5);

/// `key=value`, in the order in which it was said.
#[derive(Debug, Default)]
pub struct Answer(Vec<(String, String)>);

impl Answer {
    pub fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect()
    }

    pub fn one(&self, key: &str) -> Option<&str> {
        self.all(key).first().copied()
    }

    pub fn offset(&self, key: &str) -> Option<i64> {
        self.one(key)?.parse().ok()
    }

    fn say(&mut self, key: &str, value: impl Display) {
        self.0.push((key.to_owned(), format!("{value}")));
    }
}

pub enum Subject {
    /// The crate's client in this process.
    Client(Box<Client>, Runtime),
    /// Any client as a program, by the contract of the kit.
    Program(Vec<String>, String),
}

impl Subject {
    pub fn client(address: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(Client::connect(address)).unwrap();
        Self::Client(Box::new(client), runtime)
    }

    pub fn program(command: &[&str], address: &str) -> Self {
        Self::Program(command.iter().map(|&word| word.to_owned()).collect(), address.to_owned())
    }

    /// What it is able to do.
    pub fn roles(&self) -> Vec<String> {
        let Self::Program(..) = self else { return vec!["producer".to_owned(), "consumer".to_owned()] };
        self.call(&["capabilities"]).one("roles").unwrap().split(',').map(str::to_owned).collect()
    }

    /// Has it carry out a verb, in the time for it.
    pub fn call(&self, arguments: &[&str]) -> Answer {
        let since = Instant::now();
        let answer = match self {
            Self::Client(client, runtime) => runtime.block_on(ask(client, arguments)),
            Self::Program(command, broker) => run(command, broker, arguments),
        };
        let limit = if arguments.contains(&"none") { LIMIT_OF_NONE } else { LIMIT };
        assert!(since.elapsed() < limit, "{arguments:?} took {:?}", since.elapsed());
        answer
    }
}

fn run(command: &[String], broker: &str, arguments: &[&str]) -> Answer {
    let mut process = Command::new(&command[0]);
    let output = finished(process.args(&command[1..]).args(arguments).env("BOOBLIK_BROKER", broker));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} {arguments:?}: {}\n{errors}", output.status);
    let lines = String::from_utf8(output.stdout).unwrap();
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    Answer(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

async fn ask(client: &Client, arguments: &[&str]) -> Answer {
    let mut answer = Answer::default();
    if let Err(error) = carry_out(client, arguments, &mut answer).await {
        answer.say("error", error.code().unwrap_or_else(|| panic!("{arguments:?}: {error}")));
    }
    answer
}

async fn carry_out(client: &Client, arguments: &[&str], answer: &mut Answer) -> Result<(), ClientError> {
    match *arguments {
        ["metadata", topic] => {
            for info in client.metadata(&[topic]).await?.iter().flat_map(|topic| &topic.partitions) {
                answer
                    .say("partition", format!("{} {} {}", info.partition, info.log_start_offset, info.high_watermark));
            }
        }
        ["produce", topic, partition, acks, records] => {
            let acks = [("none", Acks::None), ("written", Acks::Written), ("forced", Acks::Forced)]
                .into_iter()
                .find(|(name, _)| *name == acks);
            let records: Vec<_> = records.split(',').map(from_hex).collect();
            let produced = client.produce(topic, partition.parse().unwrap(), acks.unwrap().1, &records).await?;
            say_produced(answer, produced);
        }
        ["produce-keyed", topic, key, record] => {
            let (topic, key) = (client.topic(topic).await?, from_hex(key));
            answer.say("partition", topic.partition_for(Some(&key)));
            say_produced(answer, topic.send(Some(&key), from_hex(record), Acks::Written).await?);
        }
        ["fetch", topic, partition, offset, max_bytes] => {
            let (partition, offset) = (partition.parse().unwrap(), offset.parse().unwrap());
            let max_bytes = max_bytes.parse().unwrap();
            let fetch = Fetch { topic, partition, offset, max_bytes, max_wait_millis: 0, min_bytes: 0 };
            let fetched = client.fetch(fetch).await?;
            answer.say("highWatermark", fetched.high_watermark);
            if let (Ending::Cut { record_bytes }, true) = (fetched.ending, fetched.records.is_empty()) {
                answer.say("recordExceedsMaxBytes", record_bytes);
            }
            fetched.records.values().for_each(|record| answer.say("record", to_hex(record)));
        }
        _ => panic!("there is no verb {arguments:?}"),
    }
    Ok(())
}

fn say_produced(answer: &mut Answer, produced: Option<Produced>) {
    let Some(Produced { base_offset, log_end_offset }) = produced else { return };
    answer.say("baseOffset", base_offset);
    answer.say("logEndOffset", log_end_offset);
}

pub fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

pub fn from_hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
