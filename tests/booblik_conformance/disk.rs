//! `slipstream broker serve` on a disk that is full.

use slipstream::booblik::client::{Client, Start};
use slipstream::booblik::wire::{Acks, ErrorCode};

use super::process::{Broker, finished, slipstream};
use super::small::Small;

const FLAGS: [&str; 4] = ["--set", "booblik.resume.every.millis=20", "--set", "booblik.metrics.interval.millis=50"];

fn record(number: u8) -> Vec<u8> {
    vec![number; 10_000]
}

/// What the topic holds: the first byte of each record.
async fn contents(client: &Client, count: usize) -> Vec<u8> {
    let mut consumer = client.consumer("t", 0).start(Start::Earliest).open().await.unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        found.extend(consumer.poll().await.unwrap().values().map(|value| value[0]));
    }
    found
}

fn health(address: &str, flags: &[&str]) -> (Option<i32>, String) {
    let output = finished(slipstream().args(["health", "--broker", address]).args(flags));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_seen_by_producers_and_by_those_who_look_after_it_and_is_over_when_there_is_room() {
    let Some(small) = Small::mount(2) else { return };
    let flags = [&FLAGS[..], &["--topic", "t:1", "--topic", "health:1"]].concat();
    let mut broker = Broker::start(small.path(), &flags);
    let address = broker.address().to_string();
    let client = Client::connect(&address).await.unwrap();
    assert_eq!(health(&address, &["--write", "health"]).0, Some(0));
    small.fill();

    let mut acknowledged = Vec::new();
    let refused = loop {
        let number = u8::try_from(acknowledged.len()).unwrap();
        match client.produce("t", 0, Acks::Written, &[record(number)]).await {
            Ok(_) => acknowledged.push(number),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Some(ErrorCode::PartitionUnavailable));
    broker.until_it_says("unavailable 1/2");
    // Other records than the one that was refused may still fit. So all of the room is taken.
    let rest = std::fs::OpenOptions::new().create(true).append(true).open(small.path().join("rest"));
    let _it_is_full = std::io::Write::write_all(&mut rest.unwrap(), &vec![1; 1 << 20]);
    assert_eq!(health(&address, &[]).0, Some(0), "it answers");
    let (code, said) = health(&address, &["--write", "health"]);
    assert_eq!(code, Some(1), "but cannot write: {said}");
    assert!(said.contains("PARTITION_UNAVAILABLE") || said.contains("cannot be written"), "{said}");
    assert_eq!(contents(&client, acknowledged.len()).await, acknowledged, "consumers go on");

    std::fs::remove_file(small.path().join("rest")).unwrap();
    small.make_room();
    broker.until_it_says("unavailable 0/2");
    let produced = client.produce("t", 0, Acks::Forced, &[record(200)]).await.unwrap().unwrap();
    assert_eq!(produced.base_offset, i64::try_from(acknowledged.len()).unwrap());
    acknowledged.push(200);
    assert_eq!(health(&address, &["--write", "health"]).0, Some(0));
    assert_eq!(broker.signal("TERM").code(), Some(0));

    let broker = Broker::start(small.path(), &FLAGS);
    let client = Client::connect(&broker.address().to_string()).await.unwrap();
    assert_eq!(contents(&client, acknowledged.len()).await, acknowledged, "nothing acknowledged is lost");
}
