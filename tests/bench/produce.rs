//! Produces over TCP, against a server that only checks, sums and appends. The load comes from a process of its own: this
//! program, started again.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
use slipstream::booblik::wire::{Acks, crc32c, encode_produce};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled};

/// Says to this program what to send where, when it is to be the load.
const LOAD: &str = "BENCH_LOAD";
const TOPIC: &str = "bench";
const CONNECTIONS: u64 = 8;
/// Requests of a connection that are not answered.
const WINDOW: u64 = 64;
const RECORDS: u64 = 10;
const RECORD_BYTES: usize = 128;
/// An answer: its length, the id, no error, two offsets.
const ANSWER_BYTES: usize = 26;
const READ_BYTES: usize = 128 << 10;

pub fn produce() -> Row {
    let requests = scaled(50_000) * CONNECTIONS;
    compare("booblik-produce", 0.6, requests * RECORDS, || ours(requests), || floor(requests))
}

fn ours(requests: u64) -> Duration {
    let place = tempfile::tempdir().unwrap();
    two_workers().block_on(async {
        let broker = Broker::open(place.path(), BrokerOptions::default()).await.unwrap();
        broker.ensure_topic(TOPIC, 1).await.unwrap();
        let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
        let address = server.local_addr();
        let time = tokio::task::spawn_blocking(move || load(address, requests)).await.unwrap();
        let stored = broker.partition(TOPIC, 0).unwrap().high_watermark();
        assert_eq!(stored, i64::try_from(requests * RECORDS).unwrap());
        server.shutdown().await;
        broker.close().await.unwrap();
        time
    })
}

fn floor(requests: u64) -> Duration {
    let file = tempfile::tempfile().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let log = Arc::new(Mutex::new(Log { file, next: 0 }));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let (connection, log) = (listener.accept().unwrap().0, Arc::clone(&log));
                scope.spawn(move || serve(connection, &log));
            }
        });
        let time = load(address, requests);
        assert_eq!(log.lock().unwrap().next, requests * RECORDS);
        time
    })
}

/// One log for all connections.
struct Log {
    file: File,
    next: u64,
}

/// Answers until the client leaves. What one read brought is appended with one call and answered with one.
fn serve(mut connection: TcpStream, log: &Mutex<Log>) {
    connection.set_nodelay(true).unwrap();
    let (mut input, mut stored, mut answers) = (vec![0; READ_BYTES], Vec::new(), Vec::new());
    let mut filled = 0;
    loop {
        let read = connection.read(&mut input[filled..]).unwrap();
        if read == 0 {
            return;
        }
        filled += read;
        let mut taken = 0;
        let mut counts = Vec::new();
        while let Some((id, count, bytes)) = take(&input[taken..filled], &mut stored) {
            counts.push((id, count));
            taken += bytes;
        }
        input.copy_within(taken..filled, 0);
        filled -= taken;
        let mut log = log.lock().unwrap();
        log.file.write_all(&stored).unwrap();
        for (id, count) in counts.drain(..) {
            answers.extend_from_slice(&22_u32.to_be_bytes());
            answers.extend_from_slice(&id);
            answers.extend_from_slice(&[0, 0]);
            answers.extend_from_slice(&log.next.to_be_bytes());
            log.next += u64::from(count);
            answers.extend_from_slice(&log.next.to_be_bytes());
        }
        drop(log);
        connection.write_all(&answers).unwrap();
        stored.clear();
        answers.clear();
    }
}

/// Checks the request at the front and adds its records as they are stored. Its id, its records, its bytes.
fn take(input: &[u8], stored: &mut Vec<u8>) -> Option<([u8; 4], u32, usize)> {
    let length = number(input.get(..4)?) as usize;
    let frame = input.get(4..4 + length)?;
    let (head, mut rest) = frame.split_at_checked(8).unwrap();
    assert_eq!(head[..4], [0, 1, 0, 1], "a produce");
    let topic = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
    assert_eq!(&rest[2..2 + topic], TOPIC.as_bytes());
    rest = &rest[2 + topic..];
    assert_eq!(rest[..5], [0, 0, 0, 0, 1], "the partition, and when to answer");
    let count = number(&rest[5..9]);
    rest = &rest[9..];
    for _ in 0..count {
        let size = number(&rest[..4]) as usize;
        let payload = &rest[4..4 + size];
        stored.extend_from_slice(&rest[..4]);
        stored.extend_from_slice(&crc32c(payload).to_be_bytes());
        stored.extend_from_slice(payload);
        rest = &rest[4 + size..];
    }
    Some((head[4..].try_into().unwrap(), count, 4 + length))
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// Starts the load and returns how long all of it took to be answered.
fn load(address: SocketAddr, requests: u64) -> Duration {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).env(LOAD, format!("{address} {requests}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Duration::from_nanos(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
}

/// What to be the load for, if that is what this process is for.
pub fn load_wanted() -> Option<String> {
    std::env::var(LOAD).ok()
}

/// Sends, and prints the nanoseconds until everything was answered.
pub fn generate(load: &str) {
    let (address, requests) = load.split_once(' ').unwrap();
    let (address, requests): (SocketAddr, u64) = (address.parse().unwrap(), requests.parse().unwrap());
    let time = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(tokio::net::TcpStream::connect(address).await.unwrap());
        }
        let began = Instant::now();
        let sending: Vec<_> =
            connections.into_iter().map(|connection| tokio::spawn(send(connection, requests / CONNECTIONS))).collect();
        for sending in sending {
            sending.await.unwrap();
        }
        began.elapsed()
    });
    println!("{}", time.as_nanos());
}

async fn send(mut connection: tokio::net::TcpStream, requests: u64) {
    connection.set_nodelay(true).unwrap();
    let mut frames = BytesMut::new();
    let records = [[b'r'; RECORD_BYTES]; 10];
    assert_eq!(records.len() as u64, RECORDS);
    for id in 1..=WINDOW {
        encode_produce(&mut frames, i32::try_from(id).unwrap(), TOPIC, 0, Acks::Written, &records).unwrap();
    }
    let frame_bytes = frames.len() / usize::try_from(WINDOW).unwrap();
    let (mut sent, mut answered, mut part) = (0, 0, 0);
    let mut answers = vec![0; READ_BYTES];
    while answered < requests {
        let more = (WINDOW - (sent - answered)).min(requests - sent);
        connection.write_all(&frames[..usize::try_from(more).unwrap() * frame_bytes]).await.unwrap();
        sent += more;
        let read = connection.read(&mut answers).await.unwrap();
        assert!(read > 0, "the server has left");
        part += read;
        answered += (part / ANSWER_BYTES) as u64;
        part %= ANSWER_BYTES;
    }
}
