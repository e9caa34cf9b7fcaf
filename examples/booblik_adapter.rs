//! This crate's client for the conformance kit of the booblik protocol: `booblik_adapter VERB ARGUMENT…`
//!
//! The broker is the one that `BOOBLIK_BROKER` names. What was found is printed as `key=value`; a refusal of the broker
//! is `error=CODE` and no failure of this program.
//!
//! | verb | arguments |
//! |---|---|
//! | `capabilities` | |
//! | `metadata` | topic |
//! | `produce` | topic, partition, `none`, `written` or `forced`, records as hexadecimal digits with commas between them |
//! | `produce-keyed` | topic, key and record as hexadecimal digits |
//! | `fetch` | topic, partition, offset, the most bytes |

#![expect(clippy::print_stdout, reason = "the kit reads standard output")]

use std::fmt::Display;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use slipstream::booblik::client::{Client, ClientError};
use slipstream::booblik::wire::{Acks, Ending, Fetch, Produced};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refused = match run(&arguments).await {
        Ok(()) => return Ok(ExitCode::SUCCESS),
        Err(error) => error,
    };
    let code = refused.downcast_ref::<ClientError>().and_then(ClientError::code).map(|code| code.to_string());
    let Some(code) = code else { return Err(refused) };
    say("error", code);
    Ok(ExitCode::SUCCESS)
}

fn say(key: &str, value: impl Display) {
    println!("{key}={value}");
}

async fn run(arguments: &[&str]) -> Result<()> {
    if arguments == ["capabilities"] {
        say("roles", "producer,consumer");
        say("name", "slipstream");
        return Ok(());
    }
    let client = Client::connect(&std::env::var("BOOBLIK_BROKER").context("BOOBLIK_BROKER names no broker")?).await?;
    match *arguments {
        ["metadata", topic] => metadata(&client, topic).await,
        ["produce", topic, partition, acks, records] => {
            let records = records.split(',').map(from_hex).collect::<Result<Vec<_>>>()?;
            let produced = client.produce(topic, partition.parse()?, policy(acks)?, &records).await?;
            say_produced(produced);
            Ok(())
        }
        ["produce-keyed", topic, key, record] => {
            let (topic, key) = (client.topic(topic).await?, from_hex(key)?);
            say("partition", topic.partition_for(Some(&key)));
            say_produced(topic.send(Some(&key), from_hex(record)?, Acks::Written).await?);
            Ok(())
        }
        ["fetch", topic, partition, offset, max_bytes] => {
            let (partition, offset, max_bytes) = (partition.parse()?, offset.parse()?, max_bytes.parse()?);
            fetch(&client, Fetch { topic, partition, offset, max_bytes, max_wait_millis: 0, min_bytes: 0 }).await
        }
        _ => bail!("there is no such verb, or not with as many arguments: {}", arguments.join(" ")),
    }
}

async fn metadata(client: &Client, topic: &str) -> Result<()> {
    for info in client.metadata(&[topic]).await?.iter().flat_map(|topic| &topic.partitions) {
        say("partition", format!("{} {} {}", info.partition, info.log_start_offset, info.high_watermark));
    }
    Ok(())
}

fn say_produced(produced: Option<Produced>) {
    let Some(Produced { base_offset, log_end_offset }) = produced else { return };
    say("baseOffset", base_offset);
    say("logEndOffset", log_end_offset);
}

async fn fetch(client: &Client, fetch: Fetch<'_>) -> Result<()> {
    let fetched = client.fetch(fetch).await?;
    if let Ending::Damaged(damage) = fetched.ending {
        bail!("the record at offset {}: {damage}", fetched.records.next_offset());
    }
    say("highWatermark", fetched.high_watermark);
    if let (Ending::Cut { record_bytes }, true) = (fetched.ending, fetched.records.is_empty()) {
        say("recordExceedsMaxBytes", record_bytes);
    }
    fetched.records.values().for_each(|record| say("record", to_hex(record)));
    Ok(())
}

fn policy(name: &str) -> Result<Acks> {
    match name {
        "none" => Ok(Acks::None),
        "written" => Ok(Acks::Written),
        "forced" => Ok(Acks::Forced),
        other => bail!("`{other}` is no policy: none, written, forced"),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    anyhow::ensure!(text.len().is_multiple_of(2), "`{text}` has half a byte");
    let pairs = text.as_bytes().chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    pairs.collect::<Result<_>>().with_context(|| format!("`{text}` is not hexadecimal"))
}
