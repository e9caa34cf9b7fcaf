//! `slipstream broker produce`.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, Read as _};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tokio::sync::mpsc;

use super::client::{self, Broker};
use crate::booblik::client::{Delivery, Producer, Topic};
use crate::booblik::wire::{Acks, MAX_RECORD_BYTES};
use crate::error::{Error, Kind, Result};

/// Lines that were read and not sent yet.
const LINES_AHEAD: usize = 256;
/// Records that were sent and not answered yet; the producer bounds their bytes.
const UNANSWERED: usize = 10_000;

/// Says at the end what was written where, a line per partition.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    broker: Broker,
    /// The topic.
    topic: String,
    /// The records; without any, each line of standard input is one.
    #[arg(value_name = "RECORD")]
    records: Vec<String>,
    /// The partition. Without it and without a key, records go to all of them in turn.
    #[arg(long, short, value_name = "NUMBER", conflicts_with = "key")]
    partition: Option<i32>,
    /// Write to the partition that this key names. The key is not stored.
    #[arg(long, short)]
    key: Option<String>,
    /// When a record counts as written: never, in the log, on the disk.
    #[arg(long, value_enum, default_value = "written")]
    acks: When,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum When {
    None,
    Written,
    Forced,
}

impl When {
    fn acks(self) -> Acks {
        match self {
            Self::None => Acks::None,
            Self::Written => Acks::Written,
            Self::Forced => Acks::Forced,
        }
    }
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let client = arguments.broker.connect().await?;
    client::check_name(&arguments.topic)?;
    let topic = match client.topic(&arguments.topic).await {
        Err(error) => return Err(client::explained(&client, &arguments.topic, error).await),
        topic => topic?,
    };
    let producer = client.producer().acks(arguments.acks.acks()).build()?;
    let mut writing = Writing { arguments: &arguments, producer, topic, open: VecDeque::new(), sums: BTreeMap::new() };
    let written = writing.all().await;
    writing.producer.close().await;
    let reported = writing.report();
    written.and(reported).map(|()| ExitCode::SUCCESS)
}

/// Records under way.
struct Writing<'a> {
    arguments: &'a Arguments,
    producer: Producer,
    topic: Topic,
    open: VecDeque<Delivery>,
    sums: BTreeMap<i32, Sum>,
}

/// What was written to a partition.
#[derive(Debug, Default)]
struct Sum {
    records: u64,
    offsets: Option<(i64, i64)>,
}

impl Writing<'_> {
    async fn all(&mut self) -> Result<()> {
        let mut result = self.send_all().await;
        // What was sent before an error counts, and is answered, and so is what was sent after a refused record.
        while !self.open.is_empty() {
            result = result.and(self.settle().await);
        }
        result
    }

    async fn send_all(&mut self) -> Result<()> {
        let arguments = self.arguments;
        for record in &arguments.records {
            self.send(record.clone().into_bytes()).await?;
        }
        if arguments.records.is_empty() {
            let mut lines = lines();
            while let Some(line) = lines.recv().await {
                self.send(line?).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, record: Vec<u8>) -> Result<()> {
        if self.open.len() >= UNANSWERED {
            self.settle().await?;
        }
        let delivery = match self.arguments.partition {
            Some(partition) => self.producer.send(self.topic.name(), partition, record).await?,
            None => {
                self.producer.send_keyed(&self.topic, self.arguments.key.as_deref().map(str::as_bytes), record).await?
            }
        };
        self.open.push_back(delivery);
        Ok(())
    }

    /// Waits for the oldest answer.
    async fn settle(&mut self) -> Result<()> {
        let Some(delivery) = self.open.pop_front() else { return Ok(()) };
        let sent = delivery.await?;
        let sum = self.sums.entry(sent.partition).or_default();
        sum.records += 1;
        if let Some(offset) = sent.offset {
            sum.offsets = Some((sum.offsets.map_or(offset, |(first, _)| first), offset));
        }
        Ok(())
    }

    fn report(&self) -> Result<()> {
        for (partition, Sum { records, offsets }) in &self.sums {
            let offsets = offsets.map_or_else(String::new, |(first, last)| format!(", offsets {first} to {last}"));
            let s = if *records == 1 { "" } else { "s" };
            super::say(&format!("{}-{partition}: {records} record{s}{offsets}", self.topic.name()))?;
        }
        Ok(())
    }
}

/// The lines of standard input, without what ends them.
fn lines() -> mpsc::Receiver<Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut input = std::io::stdin().lock();
        for number in 1.. {
            let Some(line) = line(&mut input, number).transpose() else { return };
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// The next line; none at the end.
fn line(input: &mut impl std::io::BufRead, number: u64) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = MAX_RECORD_BYTES as u64 + 2;
    if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    let at = || format!("line {number}");
    if line.is_empty() {
        return Err(Error::new(Kind::Encode, "it is empty, and a record has at least one byte").at(at()));
    }
    if line.len() > MAX_RECORD_BYTES {
        return Err(Error::new(Kind::TooLarge, format!("it has more than {MAX_RECORD_BYTES} bytes")).at(at()));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_without_what_ends_it() {
        let mut input: &[u8] = b"one\r\ntwo\n\nthree";
        assert_eq!(line(&mut input, 1).ok().flatten().as_deref(), Some(&b"one"[..]));
        assert_eq!(line(&mut input, 2).ok().flatten().as_deref(), Some(&b"two"[..]));
        let empty = line(&mut input, 3).map_err(|error| error.to_string());
        assert_eq!(empty, Err("line 3: it is empty, and a record has at least one byte".to_owned()));
        assert_eq!(line(&mut input, 4).ok().flatten().as_deref(), Some(&b"three"[..]));
        assert_eq!(line(&mut input, 5).ok(), Some(None));
    }

    #[test]
    fn a_line_that_no_record_can_hold_is_not_read_to_its_end() {
        let mut input = std::io::BufReader::new(std::io::repeat(b'x'));
        assert_eq!(line(&mut input, 1).map_err(|error| error.kind()), Err(Kind::TooLarge));
    }
}
