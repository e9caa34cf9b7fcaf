//! A client that says exactly what it is told to, byte for byte.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use slipstream::booblik::wire::{self, Acks, ErrorCode, Fetched, Produced, TopicInfo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Peer {
    pub stream: TcpStream,
    id: i32,
}

/// What a fetch asks for.
#[derive(Clone, Copy)]
pub struct Ask {
    pub offset: i64,
    pub max_bytes: i32,
    pub wait_millis: i32,
    pub min_bytes: i32,
}

impl Ask {
    pub fn at(offset: i64) -> Self {
        Self { offset, max_bytes: 1 << 20, wait_millis: 0, min_bytes: 0 }
    }

    pub fn wait(self, wait_millis: i32) -> Self {
        Self { wait_millis, ..self }
    }
}

impl Peer {
    pub async fn connect(address: impl tokio::net::ToSocketAddrs) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), id: 100 }
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a body with its length in front.
    pub async fn send_frame(&mut self, body: &[u8]) {
        let mut frame = i32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(body);
        self.send(&frame).await;
    }

    /// The next answer, whatever its id.
    pub async fn answer(&mut self) -> (i32, Result<Bytes, ErrorCode>) {
        let length = timeout(PATIENCE, self.stream.read_i32()).await.expect("an answer in time").unwrap();
        let mut body = vec![0; usize::try_from(length).unwrap()];
        timeout(PATIENCE, self.stream.read_exact(&mut body)).await.expect("all of the answer").unwrap();
        let response = wire::decode_response(body.into()).unwrap();
        (response.correlation_id, response.result)
    }

    /// The next answer, which is to the last request.
    async fn own_answer(&mut self) -> Result<Bytes, ErrorCode> {
        let (id, answer) = self.answer().await;
        assert_eq!(id, self.id, "answers come in the order of requests");
        answer
    }

    /// Whether the broker has closed the connection without another byte.
    pub async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(timeout(PATIENCE, self.stream.read(&mut byte)).await.expect("an end in time"), Ok(0) | Err(_))
    }

    /// Nothing is sent by the broker up to the answer of a request that it must answer.
    pub async fn fence(&mut self) {
        self.metadata(&[]).await.unwrap();
    }

    pub async fn produce(
        &mut self,
        topic: &str,
        number: i32,
        acks: Acks,
        records: &[&[u8]],
    ) -> Result<Produced, ErrorCode> {
        let frame = self.produce_frame(topic, number, acks, records);
        self.send(&frame).await;
        self.own_answer().await.map(|body| wire::decode_produced(&body).unwrap())
    }

    pub fn produce_frame(&mut self, topic: &str, number: i32, acks: Acks, records: &[&[u8]]) -> Bytes {
        self.id += 1;
        let mut out = BytesMut::new();
        wire::encode_produce(&mut out, self.id, topic, number, acks, records).unwrap();
        out.freeze()
    }

    pub async fn fetch(&mut self, topic: &str, number: i32, ask: Ask) -> Result<Fetched, ErrorCode> {
        self.ask(topic, number, ask).await;
        self.fetched(ask.offset).await
    }

    /// Sends a fetch and does not wait for its answer.
    pub async fn ask(&mut self, topic: &str, number: i32, ask: Ask) {
        self.id += 1;
        let mut body = BytesMut::new();
        body.put_slice(&[0, 2, 0, 2]);
        body.put_i32(self.id);
        put_place(&mut body, topic, number);
        body.put_i64(ask.offset);
        body.put_i32(ask.max_bytes);
        body.put_i32(ask.wait_millis);
        body.put_i32(ask.min_bytes);
        self.send_frame(&body).await;
    }

    /// The answer to the last fetch.
    pub async fn fetched(&mut self, offset: i64) -> Result<Fetched, ErrorCode> {
        let body = self.own_answer().await?;
        Ok(wire::decode_fetched(&body, offset).unwrap())
    }

    /// The records at and after `offset` that one fetch gives.
    pub async fn values(&mut self, topic: &str, number: i32, offset: i64) -> Vec<Vec<u8>> {
        let fetched = self.fetch(topic, number, Ask::at(offset)).await.unwrap();
        fetched.records.values().map(<[u8]>::to_vec).collect()
    }

    pub async fn metadata(&mut self, topics: &[&str]) -> Result<Vec<TopicInfo>, ErrorCode> {
        self.id += 1;
        let mut out = BytesMut::new();
        wire::encode_metadata(&mut out, self.id, topics).unwrap();
        self.send(&out).await;
        self.own_answer().await.map(|body| wire::decode_described(&body).unwrap())
    }
}

pub fn put_place(out: &mut BytesMut, topic: &str, number: i32) {
    out.put_u16(u16::try_from(topic.len()).unwrap());
    out.put_slice(topic.as_bytes());
    out.put_i32(number);
}
