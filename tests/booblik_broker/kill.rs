//! A broker that is killed while it writes. `BOOBLIK_KILLS` says how often, 3 by default.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use slipstream::booblik::broker::{Broker, BrokerOptions, Partition};
use slipstream::booblik::wire::{self, Acks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The example `booblik_broker` with a topic `t` of two partitions.
pub struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    pub fn start(directory: &Path) -> Self {
        let mut command = Command::new(example());
        command.arg(directory).args(["127.0.0.1:0", "t:2"]).env("RUST_LOG", "warn").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("booblik listening on ").expect("the line that says it is ready");
        Self { address: address.parse().unwrap(), child }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Resident memory.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where cargo puts it: beside the folder of this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/booblik_broker");
    assert!(path.exists(), "{} is not built", path.display());
    path
}

/// What was acknowledged, by partition and offset.
type Acknowledged = Arc<Mutex<BTreeMap<(i32, i64), Vec<u8>>>>;

/// Requests that a writer has under way.
const WINDOW: usize = 32;

/// Produces to a partition, batches of three, until the broker is gone.
async fn write(address: SocketAddr, writer: u32, round: u32, acknowledged: Acknowledged) {
    let partition = i32::try_from(writer % 2).unwrap();
    let acks = if writer < 2 { Acks::Written } else { Acks::Forced };
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let payload =
        |request: u32, record: u32| format!("{round} {writer} {request} {record} {}", "x".repeat(writer as usize * 50));
    let (mut sent, mut answered) = (0, 0);
    loop {
        let mut out = BytesMut::new();
        while sent - answered < WINDOW as u32 {
            let records: Vec<String> = (0..3).map(|record| payload(sent, record)).collect();
            wire::encode_produce(&mut out, sent as i32, "t", partition, acks, &records).unwrap();
            sent += 1;
        }
        if stream.write_all(&out).await.is_err() {
            return;
        }
        let mut answer = [0; 26];
        if stream.read_exact(&mut answer).await.is_err() {
            return;
        }
        assert_eq!(answer[8..10], [0, 0], "not refused");
        let base = i64::from_be_bytes(answer[10..18].try_into().unwrap());
        let mut acknowledged = acknowledged.lock().unwrap();
        for record in 0..3 {
            acknowledged.insert((partition, base + i64::from(record)), payload(answered, record).into_bytes());
        }
        answered += 1;
    }
}

/// All records, whose offsets have no gaps and whose checksums are right.
fn read(partition: &Partition) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    while (found.len() as i64) < partition.high_watermark() {
        for record in partition.read(found.len() as i64, 1 << 20).unwrap().records() {
            record.check().unwrap();
            assert_eq!(record.offset, found.len() as i64);
            found.push(record.payload.to_vec());
        }
    }
    found
}

/// Records of one writer in one round come in the order in which it sent them.
fn check_order(found: &[Vec<u8>]) {
    let mut last: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
    for record in found {
        let text = std::str::from_utf8(record).unwrap();
        let numbers: Vec<u32> = text.split(' ').take(4).map(|number| number.parse().unwrap()).collect();
        let [round, writer, request, record] = numbers[..] else { panic!("{text}") };
        let before = last.insert((round, writer), (request, record));
        let expected = before
            .map_or((0, 0), |(request, record)| if record == 2 { (request + 1, 0) } else { (request, record + 1) });
        assert_eq!((request, record), expected, "writer {writer} of round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_kill_is_there_after_it_in_order_without_gaps() {
    let kills: u32 = std::env::var("BOOBLIK_KILLS").map_or(3, |count| count.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let acknowledged = Acknowledged::default();
    for round in 0..kills {
        let process = Process::start(directory.path());
        let writers: Vec<_> = (0..4)
            .map(|writer| tokio::spawn(write(process.address(), writer, round, Arc::clone(&acknowledged))))
            .collect();
        tokio::time::sleep(Duration::from_millis(u64::from(50 + round * 37 % 200))).await;
        process.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        let broker = Broker::open(directory.path(), BrokerOptions::default()).await.unwrap();
        let logs: Vec<Vec<Vec<u8>>> = (0..2).map(|number| read(&broker.partition("t", number).unwrap())).collect();
        broker.close().await.unwrap();
        let acknowledged = acknowledged.lock().unwrap();
        for ((partition, offset), payload) in acknowledged.iter() {
            let found = logs[*partition as usize].get(*offset as usize);
            assert_eq!(found, Some(payload), "round {round}: record {offset} of partition {partition}");
        }
        logs.iter().for_each(|log| check_order(log));
        println!("round {round}: {} acknowledged, {} and {} stored", acknowledged.len(), logs[0].len(), logs[1].len());
        assert!(round + 1 < kills || !acknowledged.is_empty());
    }
}
