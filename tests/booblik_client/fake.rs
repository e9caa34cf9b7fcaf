//! A broker for tests, on real sockets: one that a test plays itself, request by request, and one that keeps records in
//! memory and can be made to misbehave.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use slipstream::booblik::client::{Client, ClientBuilder};
use slipstream::booblik::wire::{
    self, Acks, Call, ErrorCode, Fetch, Frames, MAX_FETCH_BYTES, PartitionInfo, Produced, Request, TopicInfo,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Fails a test that waits for what does not come.
pub(crate) async fn soon<F: Future>(waited_for: F) -> F::Output {
    tokio::time::timeout(PATIENCE, waited_for).await.expect("nothing came of it")
}

/// A client of `address` that gives up within a time in which a test may wait for it.
pub(crate) fn client_of(address: SocketAddr) -> ClientBuilder {
    let (first, cap) = (Duration::from_millis(5), Duration::from_millis(50));
    Client::builder(address.to_string()).request_timeout(PATIENCE).backoff(first, cap)
}

// ---- played by the test ----------------------------------------------------------------------------------------------

/// A broker whose part the test plays.
pub(crate) struct Stage {
    listener: TcpListener,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (socket, _) = soon(self.listener.accept()).await.unwrap();
        Peer { socket, frames: Frames::of_requests() }
    }

    /// Whether a connection comes within a moment: only for what must not happen.
    pub(crate) async fn is_called(&self, moment: Duration) -> bool {
        tokio::time::timeout(moment, self.listener.accept()).await.is_ok()
    }
}

/// The broker's end of a connection.
pub(crate) struct Peer {
    socket: TcpStream,
    frames: Frames,
}

impl Peer {
    /// The next request.
    pub(crate) async fn request(&mut self) -> Bytes {
        soon(self.next()).await.expect("the client closed the connection")
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                return Some(frame);
            }
            if self.socket.read_buf(self.frames.space()).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The id of the next request.
    pub(crate) async fn id(&mut self) -> i32 {
        id_of(&self.request().await)
    }

    /// Whether a request comes within a moment: only for what must not happen.
    pub(crate) async fn is_asked(&mut self, moment: Duration) -> bool {
        tokio::time::timeout(moment, self.next()).await.is_ok()
    }

    /// Returns when the client has closed the connection.
    pub(crate) async fn closed(&mut self) {
        assert_eq!(soon(self.next()).await, None);
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn refuse(&mut self, id: i32, code: ErrorCode) {
        self.send(&written(|out| wire::encode_refusal(out, id, code))).await;
    }

    pub(crate) async fn produced(&mut self, id: i32, base_offset: i64) {
        self.send(&produced(id, base_offset)).await;
    }
}

pub(crate) fn id_of(frame: &Bytes) -> i32 {
    wire::decode_request(frame).unwrap().correlation_id
}

pub(crate) fn written(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out);
    out
}

pub(crate) fn produced(id: i32, base_offset: i64) -> BytesMut {
    written(|out| wire::encode_produced(out, id, Produced { base_offset, log_end_offset: base_offset + 1 }))
}

/// The answer to a fetch with these bytes of a segment.
pub(crate) fn fetched(id: i32, high_watermark: i64, payload: &[u8]) -> Vec<u8> {
    let head = wire::fetched_head(id, high_watermark, u32::try_from(payload.len()).unwrap());
    [&head[..], payload].concat()
}

pub(crate) fn stored(values: &[&[u8]]) -> Vec<u8> {
    written(|out| values.iter().for_each(|value| wire::encode_stored(out, value))).to_vec()
}

// ---- with a memory ---------------------------------------------------------------------------------------------------

type Partition = (String, i32);

/// Logs in memory, served to any number of clients.
pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<State>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
pub(crate) struct State {
    logs: Mutex<BTreeMap<Partition, Log>>,
    changed: tokio::sync::Notify,
    /// Requests so far, by kind.
    pub(crate) produces: AtomicUsize,
    pub(crate) fetches: AtomicUsize,
}

#[derive(Default)]
struct Log {
    start: i64,
    records: Vec<Bytes>,
    /// What a produce to it is refused with.
    refusal: Option<ErrorCode>,
    /// The record whose checksum is wrong.
    damaged: Option<i64>,
    /// Offsets that are lost, and whether a fetch there is told where they end.
    lost: Option<(std::ops::Range<i64>, bool)>,
}

impl Log {
    fn end(&self) -> i64 {
        self.start + i64::try_from(self.records.len()).unwrap()
    }

    /// Stored bytes from `offset` on, cut at `max_bytes`; nothing when it is outside.
    fn read(&self, offset: i64, max_bytes: u32) -> Option<Vec<u8>> {
        if !(self.start..=self.end()).contains(&offset) {
            return None;
        }
        let lost = self.lost.clone().unwrap_or_default();
        if lost.0.contains(&offset) {
            return lost.1.then(|| wire::gap_record(lost.0.end).to_vec());
        }
        let mut out = BytesMut::new();
        let until =
            usize::try_from(if offset < lost.0.start { lost.0.start } else { self.end() } - self.start).unwrap();
        let from = usize::try_from(offset - self.start).unwrap();
        for (index, record) in self.records.iter().enumerate().take(until).skip(from) {
            let crc_at = out.len() + 4;
            wire::encode_stored(&mut out, record);
            if self.damaged == Some(self.start + i64::try_from(index).unwrap()) {
                out[crc_at] ^= 1;
            }
        }
        out.truncate(usize::try_from(max_bytes.min(MAX_FETCH_BYTES)).unwrap());
        Some(out.to_vec())
    }
}

impl Broker {
    /// Serves topics with these numbers of partitions.
    pub(crate) async fn serve(topics: &[(&str, i32)]) -> Self {
        let partitions = |(topic, count): &(&str, i32)| {
            let topic = (*topic).to_owned();
            (0..*count).map(move |partition| ((topic.clone(), partition), Log::default()))
        };
        let logs = Mutex::new(topics.iter().flat_map(partitions).collect());
        let state = Arc::new(State { logs, ..State::default() });
        Self::serve_at(state, "127.0.0.1:0").await
    }

    /// Serves what another one has had, on its port too where that is given.
    pub(crate) async fn serve_at(state: Arc<State>, address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let (address, own) = (listener.local_addr().unwrap(), Arc::clone(&state));
        let accepting = tokio::spawn(async move {
            let mut sessions = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                sessions.spawn(session(Arc::clone(&own), socket));
            }
        });
        Self { address, state, accepting }
    }

    /// Ends it with all its connections, and keeps what it had.
    pub(crate) async fn stop(self) -> (Arc<State>, SocketAddr) {
        self.accepting.abort();
        self.accepting.await.ok();
        (self.state, self.address)
    }

    pub(crate) fn client(&self) -> Client {
        client_of(self.address).build().unwrap()
    }
}

impl State {
    fn change<T>(&self, topic: &str, partition: i32, change: impl FnOnce(&mut Log) -> T) -> T {
        let changed = change(self.logs.lock().unwrap().get_mut(&(topic.to_owned(), partition)).unwrap());
        self.changed.notify_waiters();
        changed
    }

    pub(crate) fn records(&self, topic: &str, partition: i32) -> Vec<Bytes> {
        self.change(topic, partition, |log| log.records.clone())
    }

    pub(crate) fn append(&self, topic: &str, partition: i32, records: &[&str]) {
        let records = records.iter().map(|record| Bytes::copy_from_slice(record.as_bytes()));
        self.change(topic, partition, |log| log.records.extend(records));
    }

    /// Retention: the oldest records are gone.
    pub(crate) fn expire(&self, topic: &str, partition: i32, count: usize) {
        self.change(topic, partition, |log| {
            log.records.drain(..count);
            log.start += i64::try_from(count).unwrap();
        });
    }

    pub(crate) fn refuse(&self, topic: &str, partition: i32, code: Option<ErrorCode>) {
        self.change(topic, partition, |log| log.refusal = code);
    }

    pub(crate) fn damage(&self, topic: &str, partition: i32, offset: i64) {
        self.change(topic, partition, |log| log.damaged = Some(offset));
    }

    /// The broker has lost these, and says so or refuses.
    pub(crate) fn lose(&self, topic: &str, partition: i32, lost: std::ops::Range<i64>, says_so: bool) {
        self.change(topic, partition, |log| log.lost = Some((lost, says_so)));
    }

    fn describe(&self, names: &[&str]) -> Option<Vec<TopicInfo>> {
        let mut topics: BTreeMap<String, Vec<PartitionInfo>> = BTreeMap::new();
        for ((topic, partition), log) in &*self.logs.lock().unwrap() {
            let info = PartitionInfo { partition: *partition, log_start_offset: log.start, high_watermark: log.end() };
            topics.entry(topic.clone()).or_default().push(info);
        }
        if names.iter().any(|name| !topics.contains_key(*name)) {
            return None;
        }
        topics.retain(|topic, _| names.is_empty() || names.contains(&topic.as_str()));
        Some(topics.into_iter().map(|(name, partitions)| TopicInfo { name, partitions }).collect())
    }

    fn produce(&self, id: i32, produce: &wire::Produce<'_>) -> BytesMut {
        self.produces.fetch_add(1, SeqCst);
        let mut logs = self.logs.lock().unwrap();
        let log = logs.get_mut(&(produce.topic.to_owned(), produce.partition));
        let refusal = log.as_ref().map_or(Some(ErrorCode::UnknownTopicOrPartition), |log| log.refusal);
        if let Some(code) = refusal {
            // As the reference does, whatever was asked for.
            return written(|out| wire::encode_refusal(out, id, code));
        }
        let log = log.unwrap();
        let base_offset = log.end();
        log.records.extend(produce.records.iter().map(Bytes::copy_from_slice));
        let answer = Produced { base_offset, log_end_offset: log.end() };
        drop(logs);
        self.changed.notify_waiters();
        if produce.acks == Acks::None { BytesMut::new() } else { written(|out| wire::encode_produced(out, id, answer)) }
    }

    async fn fetch(&self, id: i32, fetch: &Fetch<'_>) -> Vec<u8> {
        self.fetches.fetch_add(1, SeqCst);
        let until = tokio::time::Instant::now() + fetch.wait();
        loop {
            let changed = self.changed.notified();
            let read = self
                .logs
                .lock()
                .unwrap()
                .get(&(fetch.topic.to_owned(), fetch.partition))
                .map(|log| (log.end(), log.read(fetch.offset, fetch.max_bytes)));
            let refuse = |code| written(|out| wire::encode_refusal(out, id, code)).to_vec();
            match read {
                None => return refuse(ErrorCode::UnknownTopicOrPartition),
                Some((_, None)) => return refuse(ErrorCode::OffsetOutOfRange),
                Some((_, Some(payload))) if payload.is_empty() && tokio::time::Instant::now() < until => {
                    tokio::time::timeout_at(until, changed).await.ok();
                }
                Some((end, Some(payload))) => return fetched(id, end, &payload),
            }
        }
    }

    async fn answer(&self, frame: &Bytes) -> Vec<u8> {
        let Request { correlation_id: id, call } = match wire::decode_request(frame) {
            Ok(request) => request,
            Err(refusal) => {
                return written(|out| wire::encode_refusal(out, refusal.correlation_id, refusal.code)).to_vec();
            }
        };
        match call {
            Call::Produce(produce) => self.produce(id, &produce).to_vec(),
            Call::Fetch(fetch) => self.fetch(id, &fetch).await,
            Call::Metadata(names) => match self.describe(&names.iter().collect::<Vec<_>>()) {
                Some(topics) => written(|out| wire::encode_described(out, id, &topics).unwrap()).to_vec(),
                None => written(|out| wire::encode_refusal(out, id, ErrorCode::UnknownTopicOrPartition)).to_vec(),
            },
        }
    }
}

async fn session(state: Arc<State>, socket: TcpStream) {
    let mut peer = Peer { socket, frames: Frames::of_requests() };
    while let Some(frame) = peer.next().await {
        let answer = state.answer(&frame).await;
        if peer.socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}
