//! `slipstream broker tail`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};

use super::client::{self, Broker};
use crate::booblik::client::{Client, Start};
use crate::booblik::wire::{MAX_FETCH_BYTES, PartitionInfo, Record};
use crate::error::{Error, Kind, Result};

/// A line per record: partition, offset and value, with a tab between them. The order is that of each partition.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    broker: Broker,
    /// The topic.
    topic: String,
    /// This partition only, and others for which the flag is repeated.
    #[arg(long, short, value_name = "NUMBER")]
    partition: Vec<i32>,
    /// Where to begin: earliest, latest or an offset.
    #[arg(long, default_value = "latest", value_parser = start)]
    from: From,
    /// Stop after so many records.
    #[arg(long, value_name = "RECORDS")]
    max: Option<usize>,
    /// Stop at the offset that is the end now, instead of waiting for more.
    #[arg(long)]
    until_end: bool,
    /// How to print values: as text, with control characters escaped, or as hexadecimal digits.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print values only.
    #[arg(long)]
    values: bool,
    /// The most bytes of one answer; by default any record fits.
    #[arg(long, value_name = "BYTES", default_value_t = MAX_FETCH_BYTES)]
    max_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Earliest,
    Latest,
    Offset(i64),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Hex,
}

fn start(text: &str) -> Result<From, String> {
    match text {
        "earliest" => Ok(From::Earliest),
        "latest" => Ok(From::Latest),
        _ => text
            .parse()
            .ok()
            .filter(|offset| *offset >= 0)
            .map(From::Offset)
            .ok_or_else(|| "it is `earliest`, `latest` or an offset".to_owned()),
    }
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let client = arguments.broker.connect().await?;
    let partitions = client::partitions(&client, &arguments.topic, &arguments.partition).await?;
    let mut all = SelectAll::new();
    for info in partitions {
        all.push(records(&client, &arguments, info).await?);
    }
    let mut left = arguments.max.unwrap_or(usize::MAX);
    while left > 0 {
        let Some(next) = all.next().await else { break };
        let (partition, record) = next?;
        match super::say(&line(&arguments, partition, &record)) {
            Err(error) if error.kind() == Kind::Closed => break,
            other => other?,
        }
        left -= 1;
    }
    Ok(ExitCode::SUCCESS)
}

/// The records of one partition, without end unless there is to be one.
async fn records(
    client: &Client,
    arguments: &Arguments,
    info: PartitionInfo,
) -> Result<BoxStream<'static, Result<(i32, Record)>>> {
    let from = match arguments.from {
        From::Earliest => info.log_start_offset,
        From::Latest => info.high_watermark,
        From::Offset(offset) => offset,
    };
    let PartitionInfo { log_start_offset: start, high_watermark: end, .. } = info;
    if !(start..=end).contains(&from) {
        let text = format!("offset {from} is outside of the log, which has {start} to {end}");
        return Err(Error::new(Kind::OutOfRange, text).at(format!("{}-{}", arguments.topic, info.partition)));
    }
    let consumer = client.consumer(&*arguments.topic, info.partition).start(Start::At(from));
    let consumer = consumer.max_bytes(arguments.max_bytes).open().await?;
    let partition = info.partition;
    let records = consumer.into_records().map(move |record| Ok((partition, record.map_err(Error::from)?)));
    let until = usize::try_from(info.high_watermark.saturating_sub(from)).unwrap_or_default();
    Ok(if arguments.until_end { records.take(until).boxed() } else { records.boxed() })
}

fn line(arguments: &Arguments, partition: i32, record: &Record) -> String {
    let value = match arguments.format {
        Format::Text => text(&record.value),
        Format::Hex => hex(&record.value),
    };
    if arguments.values { value } else { format!("{partition}\t{}\t{value}", record.offset) }
}

/// As text on one line, whatever it is.
fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_whatever_its_bytes_are() {
        assert_eq!(text("grüße\n\x1b[31m".as_bytes()), "grüße\\n\\u{1b}[31m");
        assert_eq!(text(&[b'a', 0xff]), "a\u{fffd}");
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
    }

    #[test]
    fn a_start_is_a_word_or_an_offset() {
        assert_eq!(start("earliest"), Ok(From::Earliest));
        assert_eq!(start("12"), Ok(From::Offset(12)));
        assert!(start("-1").is_err() && start("newest").is_err());
    }
}
