//! The log and its broker: fetching, opening, and waiting for records.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use slipstream::booblik::broker::{Acks, Broker, BrokerOptions, ServerOptions, TopicOptions};
use slipstream::booblik::client::{Client, Start};
use slipstream::booblik::wire::{FETCHED_HEAD_BYTES, Fetch, RECORD_HEADER_BYTES, crc32c, encode_fetch};

use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled, timed};

const TOPIC: &str = "bench";
const CHUNK_BYTES: u32 = 1 << 20;
/// So that a whole number of them fits a chunk.
const STORED_BYTES: usize = 1024;
/// Requests that are sent before the first of them is answered.
const AHEAD: usize = 2;
/// Records that are appended at once.
const BATCH: u64 = 1000;
const READ_BYTES: usize = 256 << 10;
/// What a segment holds.
pub const ONE: u64 = 1 << 30;
pub const SEVERAL: u64 = 64 << 20;

fn options(segment_bytes: u64) -> BrokerOptions {
    let default = TopicOptions { segment_bytes, ..TopicOptions::default() };
    BrokerOptions { default, ..BrokerOptions::default() }
}

/// A partition with `count` records on disk.
async fn filled(place: &Path, segment_bytes: u64, count: u64, record: &[u8]) -> Broker {
    let broker = Broker::open(place, options(segment_bytes)).await.unwrap();
    broker.ensure_topic(TOPIC, 1).await.unwrap();
    let partition = broker.partition(TOPIC, 0).unwrap();
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        partition.append((0..batch).map(|_| record), Acks::Written).await.unwrap();
        left -= batch;
    }
    broker.sync().await.unwrap();
    broker
}

/// The partition's files, in order.
fn files(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.join(format!("{TOPIC}-0"))).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    files.sort();
    files
}

pub fn fetch() -> Row {
    let chunks = scaled(512);
    let place = tempfile::tempdir().unwrap();
    let runtime = two_workers();
    let record = [b'r'; STORED_BYTES - RECORD_HEADER_BYTES];
    let records = u64::from(CHUNK_BYTES) / STORED_BYTES as u64 * chunks;
    let broker = runtime.block_on(filled(place.path(), ONE, records, &record));
    let server = runtime.block_on(broker.listen("127.0.0.1:0", ServerOptions::default())).unwrap();
    let address = server.local_addr();
    let file = files(place.path()).remove(0);
    let row = compare("booblik-fetch", 0.8, chunks, || fetch_all(address, chunks), || send_file(&file, chunks));
    runtime.block_on(async {
        server.shutdown().await;
        broker.close().await.unwrap();
    });
    Row { unit: "MiB/s".to_owned(), ..row }
}

fn fetch_all(address: SocketAddr, chunks: u64) -> Duration {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_nodelay(true).unwrap();
    let mut answer = vec![0; FETCHED_HEAD_BYTES + CHUNK_BYTES as usize];
    let ask = |connection: &mut TcpStream, chunk: u64| {
        let offset = i64::try_from(chunk * u64::from(CHUNK_BYTES) / STORED_BYTES as u64).unwrap();
        let max_bytes = CHUNK_BYTES;
        let fetch = Fetch { topic: TOPIC, partition: 0, offset, max_bytes, max_wait_millis: 0, min_bytes: 0 };
        let mut frame = BytesMut::new();
        encode_fetch(&mut frame, 1, &fetch).unwrap();
        connection.write_all(&frame).unwrap();
    };
    timed(|| {
        let mut asked = 0;
        for chunk in 0..chunks {
            while asked < chunks.min(chunk + AHEAD as u64) {
                ask(&mut connection, asked);
                asked += 1;
            }
            connection.read_exact(&mut answer).unwrap();
            assert_eq!(answer[18..FETCHED_HEAD_BYTES], CHUNK_BYTES.to_be_bytes());
        }
    })
}

fn send_file(file: &Path, chunks: u64) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut left = chunks * u64::from(CHUNK_BYTES);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (file, to) = (File::open(file).unwrap(), listener.accept().unwrap().0);
            while left > 0 {
                left -= rustix::fs::sendfile(&to, &file, None, usize::try_from(left).unwrap()).unwrap() as u64;
            }
        });
        let mut connection = TcpStream::connect(address).unwrap();
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        timed(|| (0..chunks).for_each(|_| connection.read_exact(&mut chunk).unwrap()))
    })
}

pub fn recovery(name: &str, segment_bytes: u64) -> Row {
    let count = scaled(2_400_000);
    let place = tempfile::tempdir().unwrap();
    let runtime = two_workers();
    let broker = runtime.block_on(filled(place.path(), segment_bytes, count, &[b'r'; 128]));
    runtime.block_on(broker.close()).unwrap();
    let files = files(place.path());
    let ours = || {
        runtime.block_on(async {
            let began = Instant::now();
            let broker = Broker::open(place.path(), options(segment_bytes)).await.unwrap();
            let time = began.elapsed();
            assert_eq!(broker.partition(TOPIC, 0).unwrap().high_watermark(), i64::try_from(count).unwrap());
            broker.close().await.unwrap();
            time
        })
    };
    compare(name, 0.8, count, ours, || timed(|| files.iter().for_each(|file| read_once(file))))
}

fn read_once(file: &Path) {
    let mut file = File::open(file).unwrap();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = file.read(&mut buffer).unwrap();
        if read == 0 {
            return;
        }
        std::hint::black_box(crc32c(&buffer[..read]));
    }
}

/// Requests of an idle consumer, and waits that have passed.
pub fn idle() -> Row {
    const WAIT: Duration = Duration::from_millis(250);
    let polls = scaled(20);
    let place = tempfile::tempdir().unwrap();
    let (requests, waits) = two_workers().block_on(async {
        let broker = filled(place.path(), ONE, 1, b"before").await;
        let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
        let client = Client::connect(&server.local_addr().to_string()).await.unwrap();
        let consumer = client.consumer(TOPIC, 0).start(Start::At(1)).max_wait(WAIT);
        let mut consumer = consumer.open().await.unwrap();
        let (before, began) = (server.metrics().fetches, Instant::now());
        for _ in 0..polls {
            assert!(consumer.poll().await.unwrap().is_empty());
        }
        let waits = began.elapsed().as_secs_f64() / WAIT.as_secs_f64();
        (server.metrics().fetches - before, waits)
    });
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let ours = requests as f64 / waits;
    let unit = "requests per wait".to_owned();
    Row { name: "booblik-idle".to_owned(), ours, floor: 1.0, ratio: 1.0 / ours, goal: 1.0, unit }
}
