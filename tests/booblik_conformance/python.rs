//! The published Python client of the protocol, blocking and asyncio, against this broker and beside this client.

use std::path::{Path, PathBuf};
use std::process::Command;

use slipstream::booblik::client::{Client, Start};
use slipstream::booblik::wire::Acks;

use super::checks::{self, keys_of_three};
use super::process::{Broker, finished};
use super::subject::{Subject, from_hex, to_hex};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Python that has the client.
fn python() -> PathBuf {
    let output = finished(&mut Command::new(root().join("scripts/python.sh")));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "Python with the package booblik is missing, and without it nobody knows whether its users can use this \
         broker.\n`scripts/setup.sh test` installs Python; scripts/python.sh then said:\n{told}"
    );
    String::from_utf8(output.stdout).unwrap().trim().into()
}

fn script(name: &str) -> String {
    root().join("tests/python").join(name).to_str().unwrap().to_owned()
}

/// Runs one part of `interop.py` and returns what it printed.
fn interop(flavour: &str, part: &str, broker: &Broker) -> Vec<String> {
    let mut command = Command::new(python());
    let output = finished(command.args([&script("interop.py"), flavour, part, &broker.address().to_string()]));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flavour} {part}: {}\n{told}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

const FLAVOURS: [&str; 2] = ["blocking", "asyncio"];

/// A broker with a topic `t` of three partitions.
fn broker(directory: &tempfile::TempDir) -> Broker {
    Broker::start(directory.path(), &["--topic", "t:3"])
}

async fn client(broker: &Broker) -> Client {
    Client::connect(&broker.address().to_string()).await.unwrap()
}

/// Payloads that a text or a sign would spoil.
fn payloads() -> Vec<Vec<u8>> {
    vec![(0..=255).collect(), vec![0], "grüße".into(), vec![0xff; 5000], b"last".to_vec()]
}

#[test]
fn the_python_client_passes_all_checks_of_the_kit() {
    for flavour in FLAVOURS {
        let directory = tempfile::tempdir().unwrap();
        let broker = Broker::of_the_kit(&directory);
        let python = python();
        let command = [python.to_str().unwrap(), &script("adapter.py"), flavour];
        assert_eq!(checks::all(Subject::program(&command, &broker.address().to_string()), &broker), 14, "{flavour}");
    }
}

#[tokio::test]
async fn what_python_writes_rust_reads() {
    for flavour in FLAVOURS {
        let directory = tempfile::tempdir().unwrap();
        let broker = broker(&directory);
        let written = interop(flavour, "write", &broker);
        let mut expected = payloads();
        expected.extend((0..500).map(|number| format!("batched {number}").into_bytes()));
        assert_eq!(written, [format!("wrote {}", expected.len())]);
        let client = client(&broker).await;
        let mut consumer = client.consumer("t", 0).start(Start::Earliest).open().await.unwrap();
        for (offset, payload) in (0..).zip(&expected) {
            let record = consumer.next().await.unwrap();
            assert_eq!((record.offset, &record.value[..]), (offset, &payload[..]), "{flavour}");
        }
        assert_eq!(consumer.lag(), 0);
    }
}

#[tokio::test]
async fn what_rust_writes_python_reads() {
    for flavour in FLAVOURS {
        let directory = tempfile::tempdir().unwrap();
        let broker = broker(&directory);
        let client = client(&broker).await;
        client.produce("t", 0, Acks::Written, &payloads()).await.unwrap();
        let producer = client.producer().acks(Acks::Forced).build().unwrap();
        let more: Vec<Vec<u8>> = (0..500).map(|number| format!("batched {number}").into_bytes()).collect();
        producer.send_all("t", 0, more.clone()).await.into_result().unwrap();
        let expected: Vec<String> = payloads().iter().chain(&more).map(|payload| to_hex(payload)).collect();
        assert_eq!(interop(flavour, "read", &broker), expected, "{flavour}");
    }
}

#[tokio::test]
async fn both_choose_the_same_partition_for_a_key() {
    for flavour in FLAVOURS {
        let directory = tempfile::tempdir().unwrap();
        let broker = broker(&directory);
        let topic = client(&broker).await.topic("t").await.unwrap();
        let mut ours = Vec::new();
        for (key, expected) in keys_of_three() {
            let partition = topic.partition_for(Some(&from_hex(&key)));
            assert_eq!(partition, expected);
            ours.push(format!("{key} {partition}"));
        }
        assert_eq!(interop(flavour, "keys", &broker), ours, "{flavour}");
    }
}

/// The fetch is held before the record is there, and answered long before its wait is over.
#[tokio::test]
async fn a_long_fetch_of_python_is_woken_by_a_record_of_rust() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    for flavour in FLAVOURS {
        let directory = tempfile::tempdir().unwrap();
        let broker = broker(&directory);
        let mut command = tokio::process::Command::new(python());
        command.args([&script("interop.py"), flavour, "wait", &broker.address().to_string()]);
        let mut child = command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next =
            async || tokio::time::timeout(super::process::PATIENCE, lines.next_line()).await.unwrap().unwrap();
        assert_eq!(next().await.as_deref(), Some("waiting"));
        client(&broker).await.produce("t", 2, Acks::Written, &["woken"]).await.unwrap();
        assert_eq!(next().await.as_deref(), Some("woken"), "{flavour}");
        assert_eq!(next().await.as_deref(), Some("in time"), "{flavour}");
        assert!(child.wait().await.unwrap().success());
    }
}

#[test]
fn policies_offsets_and_refusals_are_what_python_expects() {
    for flavour in FLAVOURS {
        let directory = tempfile::tempdir().unwrap();
        let broker = broker(&directory);
        let told = interop(flavour, "policies", &broker);
        let expected = [
            "written 0 1",
            "forced 1 2",
            "none None",
            "arrived 3",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "OFFSET_OUT_OF_RANGE",
            "CORRUPT_REQUEST",
            "still usable 3",
        ];
        assert_eq!(told, expected, "{flavour}");
    }
}
