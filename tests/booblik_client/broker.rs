//! The client against the broker of this crate.

use std::time::Duration;

use futures::future::join_all;
use slipstream::booblik::broker::{Broker, BrokerOptions, Server, ServerOptions};
use slipstream::booblik::client::{Client, ClientError, Start};
use slipstream::booblik::wire::{Acks, ErrorCode, Fetch, Produced};
use tempfile::TempDir;

use super::fake::{client_of, soon};

struct Served {
    dir: TempDir,
    broker: Broker,
    server: Server,
}

impl Served {
    async fn new(topic: &str, partitions: usize) -> Self {
        Self::at("127.0.0.1:0", tempfile::tempdir().unwrap(), topic, partitions).await
    }

    async fn at(address: &str, dir: TempDir, topic: &str, partitions: usize) -> Self {
        let broker = Broker::open(dir.path(), BrokerOptions::default()).await.unwrap();
        broker.ensure_topic(topic, partitions).await.unwrap();
        let server = broker.listen(address, ServerOptions::default()).await.unwrap();
        Self { dir, broker, server }
    }

    fn client(&self) -> Client {
        client_of(self.server.local_addr()).build().unwrap()
    }

    fn high_watermark(&self, topic: &str, partition: i32) -> i64 {
        self.broker.partition(topic, partition).unwrap().high_watermark()
    }

    /// Stops it, and says where it was.
    async fn stop(self) -> (String, TempDir) {
        let address = self.server.local_addr().to_string();
        self.server.shutdown().await;
        self.broker.close().await.unwrap();
        (address, self.dir)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_of_many_pipelined_producers_is_where_its_answer_says() {
    let served = Served::new("words", 1).await;
    let callers = (0..8).map(|caller: usize| {
        let client = served.client();
        tokio::spawn(async move {
            let client = &client;
            let calls = (0..200).map(|number| async move {
                let record = format!("{caller}-{number}");
                let acks = if number % 50 == 0 { Acks::Forced } else { Acks::Written };
                let Produced { base_offset, .. } = client.produce("words", 0, acks, &[&record]).await.unwrap().unwrap();
                (base_offset, record)
            });
            join_all(calls).await
        })
    });
    let mut answers: Vec<_> = soon(join_all(callers)).await.into_iter().flat_map(Result::unwrap).collect();
    answers.sort();
    let mut consumer = served.client().consumer("words", 0).open().await.unwrap();
    for (offset, record) in answers {
        let read = soon(consumer.next()).await.unwrap();
        assert_eq!((read.offset, &read.value[..]), (offset, record.as_bytes()));
    }
    assert_eq!((consumer.position(), consumer.lag()), (1600, 0));
}

#[tokio::test]
async fn a_held_poll_is_woken_by_a_produce() {
    let served = Served::new("words", 1).await;
    let client = served.client();
    let builder = client.consumer("words", 0).start(Start::Latest).max_wait(Duration::from_secs(30));
    let mut consumer = builder.open().await.unwrap();
    let polling = tokio::spawn(async move { consumer.poll().await });
    tokio::time::sleep(Duration::from_millis(30)).await;
    client.produce("words", 0, Acks::Written, &["woken"]).await.unwrap();
    let records = tokio::time::timeout(Duration::from_secs(15), polling).await.unwrap().unwrap().unwrap();
    assert_eq!(records.values().collect::<Vec<_>>(), [b"woken"]);
}

#[tokio::test]
async fn refusals_are_told_and_the_connection_goes_on() {
    let served = Served::new("words", 3).await;
    let client = served.client();
    let refused = |error: ClientError| error.code().unwrap();
    let produce = async |partition, record: &str| client.produce("words", partition, Acks::Written, &[record]).await;
    assert_eq!(refused(produce(8, "x").await.unwrap_err()), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(refused(produce(0, "").await.unwrap_err()), ErrorCode::CorruptRequest);
    let fetch = Fetch { topic: "words", partition: 0, offset: 1000, max_bytes: 100, max_wait_millis: 0, min_bytes: 0 };
    assert_eq!(refused(client.fetch(fetch).await.unwrap_err()), ErrorCode::OffsetOutOfRange);
    assert_eq!(refused(client.topic("nowhere").await.unwrap_err()), ErrorCode::UnknownTopicOrPartition);
    for topic in ["words", "nowhere"] {
        client.produce(topic, 0, Acks::None, &["x"]).await.unwrap();
    }
    // Nobody says when it is appended.
    let is_appended = async || client.topics().await.unwrap()[0].partitions[0].high_watermark == 1;
    soon(async { while !is_appended().await {} }).await;
    assert_eq!((client.stats().connections, client.stats().refused_unacknowledged), (1, 0));
}

#[tokio::test]
async fn records_are_cut_where_the_bytes_end_and_go_on_there() {
    let served = Served::new("words", 1).await;
    let client = served.client();
    client.produce("words", 0, Acks::Written, &vec![[b'x'; 100]; 50]).await.unwrap();
    client.produce("words", 0, Acks::Written, &[[b'y'; 500]]).await.unwrap();
    let mut consumer = client.consumer("words", 0).max_bytes(250).open().await.unwrap();
    let mut polled = 0;
    while consumer.position() < 50 {
        polled += soon(consumer.poll()).await.unwrap().len();
    }
    assert_eq!(polled, 50);
    let error = consumer.poll().await.unwrap_err();
    assert!(matches!(error, ClientError::ExceedsMaxBytes { offset: 50, record_bytes: 500, max_bytes: 250, .. }));
}

#[tokio::test]
async fn a_restart_of_the_broker_is_survived_by_producer_and_consumer() {
    let served = Served::new("words", 1).await;
    let client = served.client();
    let producer = client.producer().build().unwrap();
    let mut consumer = client.consumer("words", 0).max_wait(Duration::from_secs(30)).open().await.unwrap();
    soon(producer.send_all("words", 0, ["before"])).await.into_result().unwrap();
    assert_eq!(soon(consumer.next()).await.unwrap().value, "before");

    let polling = tokio::spawn(async move { consumer.next().await });
    let (address, dir) = served.stop().await;
    let sending = tokio::spawn(async move { producer.send_all("words", 0, ["after"]).await.into_result() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let served = Served::at(&address, dir, "words", 1).await;
    let sent = soon(sending).await.unwrap().unwrap();
    assert_eq!(sent[0].offset, Some(1));
    let record = soon(polling).await.unwrap().unwrap();
    assert_eq!((record.offset, &record.value[..]), (1, &b"after"[..]));
    assert_eq!(served.high_watermark("words", 0), 2);
}

#[tokio::test]
async fn large_records_come_back_whole() {
    let served = Served::new("ab", 1).await;
    let client = served.client();
    let largest = vec![7; 8_388_582];
    client.produce("ab", 0, Acks::Written, &[&largest]).await.unwrap();
    let mut consumer = client.consumer("ab", 0).max_bytes(8_388_590).open().await.unwrap();
    assert_eq!(soon(consumer.next()).await.unwrap().value, largest);
    let outcome = soon(client.producer().build().unwrap().send_all("ab", 0, [vec![7; 8_388_583]])).await;
    assert!(matches!(outcome.results[0], Err(ClientError::RecordTooLarge { .. })));
}
