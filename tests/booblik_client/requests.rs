//! One request, one answer.

use slipstream::Kind;
use slipstream::booblik::client::{Client, ClientError, Ended};
use slipstream::booblik::wire::{self, Acks, Call, Ending, ErrorCode, Fetch, Produced, WireError};
use tokio::net::TcpListener;

use super::fake::{Broker, Stage, client_of, fetched, id_of, soon, stored};

fn fetch(topic: &str, offset: i64) -> Fetch<'_> {
    Fetch { topic, partition: 0, offset, max_bytes: 1 << 20, max_wait_millis: 0, min_bytes: 0 }
}

#[tokio::test]
async fn what_was_produced_is_described_and_fetched() {
    let broker = Broker::serve(&[("words", 2), ("other", 1)]).await;
    let client = Client::connect(&broker.address.to_string()).await.unwrap();
    let all_bytes: Vec<u8> = (0..=255).collect();
    let produced = client.produce("words", 0, Acks::Written, &[&all_bytes[..], b"second"]).await.unwrap();
    assert_eq!(produced, Some(Produced { base_offset: 0, log_end_offset: 2 }));

    let described = client.metadata(&["words"]).await.unwrap();
    assert_eq!(described[0].partitions.iter().map(|info| info.high_watermark).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(client.topics().await.unwrap().len(), 2);

    let got = client.fetch(fetch("words", 0)).await.unwrap();
    assert_eq!((got.high_watermark, got.ending), (2, Ending::Whole));
    assert_eq!(got.records.values().collect::<Vec<_>>(), [&all_bytes[..], b"second"]);
    assert!(client.fetch(fetch("words", 2)).await.unwrap().records.is_empty());
}

#[tokio::test]
async fn every_policy_reaches_the_broker() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).connect().await.unwrap();
    let mut peer = stage.accept().await;
    for acks in [Acks::Written, Acks::Forced] {
        let answered = async {
            let frame = peer.request().await;
            let Call::Produce(produce) = wire::decode_request(&frame).unwrap().call else { panic!("a produce") };
            assert_eq!(produce.acks, acks);
            peer.produced(id_of(&frame), 7).await;
        };
        let (produced, ()) = soon(async { tokio::join!(client.produce("a", 0, acks, &["x"]), answered) }).await;
        assert_eq!(produced.unwrap().unwrap().base_offset, 7);
    }
}

#[tokio::test]
async fn a_refusal_says_what_it_is_about_and_leaves_the_connection() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    let refused = client.produce("words", 8, Acks::Written, &["x"]).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(refused.place().map(ToString::to_string).as_deref(), Some("words/8"));
    assert!(!refused.is_retryable());
    let refused = client.metadata(&["nowhere"]).await.unwrap_err();
    let text = slipstream::Error::from(refused).to_string();
    assert!(
        text.starts_with("nowhere: the broker refused: UNKNOWN_TOPIC_OR_PARTITION, it has no such topic"),
        "{text}"
    );
    assert_eq!(client.fetch(fetch("words", 1)).await.unwrap_err().code(), Some(ErrorCode::OffsetOutOfRange));
    let empty = client.produce("words", 0, Acks::Written, &[""]).await.unwrap_err();
    assert_eq!(empty.code(), Some(ErrorCode::CorruptRequest), "one request is not second-guessed");
    client.produce("words", 0, Acks::Written, &["x"]).await.unwrap();
    assert_eq!(client.stats().connections, 1);
}

#[tokio::test]
async fn an_unknown_code_keeps_its_number() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let answered = async {
        let mut peer = stage.accept().await;
        let id = peer.id().await;
        peer.refuse(id, ErrorCode::Unknown(1234)).await;
        peer
    };
    let (produced, _peer) = tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), answered);
    assert_eq!(produced.unwrap_err().code(), Some(ErrorCode::Unknown(1234)));
}

#[tokio::test]
async fn an_ipv6_broker_is_reached() {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let client = Client::connect(&format!("[::1]:{}", listener.local_addr().unwrap().port())).await.unwrap();
    assert_eq!(client.address().host(), "::1");
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_told_at_once() {
    let nowhere = Stage::new().await.address();
    let error = client_of(nowhere).connect().await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }) && error.is_retryable(), "{error}");
    assert_eq!(slipstream::Error::from(error).kind(), Kind::Broker);
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_is_one() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let answered = async {
        let mut peer = stage.accept().await;
        let answer = fetched(peer.id().await, 3, &stored(&[b"one", b"two", b"three"]));
        for byte in answer {
            peer.send(&[byte]).await;
            tokio::task::yield_now().await;
        }
        peer
    };
    let (got, _peer) = tokio::join!(client.fetch(fetch("a", 0)), answered);
    assert_eq!(got.unwrap().records.len(), 3);
}

#[tokio::test]
async fn a_raw_fetch_tells_how_its_records_end() {
    let broker = Broker::serve(&[("words", 1)]).await;
    broker.state.append("words", 0, &["one", "two", "three"]);
    let client = broker.client();
    let cut = client.fetch(Fetch { max_bytes: 23, ..fetch("words", 0) }).await.unwrap();
    assert_eq!((cut.records.len(), cut.ending), (2, Ending::Cut { record_bytes: 0 }));
    broker.state.damage("words", 0, 1);
    let damaged = client.fetch(fetch("words", 0)).await.unwrap();
    assert_eq!(damaged.records.values().collect::<Vec<_>>(), [b"one"]);
    assert!(matches!(damaged.ending, Ending::Damaged(_)));
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_sent_and_costs_nothing() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    let large = vec![0; 9 << 20];
    let error = client.produce("words", 0, Acks::Written, &[&large]).await.unwrap_err();
    assert!(matches!(error, ClientError::Request(WireError::TooLarge(_))), "{error}");
    client.produce("words", 0, Acks::Written, &["x"]).await.unwrap();
    assert_eq!((broker.state.records("words", 0).len(), client.stats().connections), (1, 1));
}

#[tokio::test]
async fn bodies_without_sense_are_errors_that_close_the_connection() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let answer = |body: &'static [u8]| {
        let stage = &stage;
        async move {
            let mut peer = stage.accept().await;
            let id = peer.id().await;
            let length = u32::try_from(6 + body.len()).unwrap();
            peer.send(&[&length.to_be_bytes()[..], &id.to_be_bytes(), &[0, 0], body].concat()).await;
            peer.closed().await;
        }
    };
    let (described, ()) = tokio::join!(client.topics(), answer(&[0, 0]));
    assert!(matches!(described, Err(ClientError::Answer(_))));
    let (produced, ()) = tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), answer(&[0; 15]));
    assert!(matches!(&produced, Err(error @ ClientError::Answer(_)) if error.is_ambiguous()));
    let (got, ()) = tokio::join!(client.fetch(fetch("a", 0)), answer(&[0; 11]));
    assert!(matches!(got, Err(ClientError::Answer(_))));
}

#[tokio::test]
async fn a_hostile_length_ends_the_connection() {
    for length in [0_i32, 5, -1, 8_388_609, i32::MAX] {
        let stage = Stage::new().await;
        let client = client_of(stage.address()).build().unwrap();
        let answered = async {
            let mut peer = stage.accept().await;
            peer.id().await;
            peer.send(&length.to_be_bytes()).await;
            peer.closed().await;
        };
        let (produced, ()) = tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), answered);
        let Err(ClientError::Lost { ended: Ended::Malformed(WireError::FrameLength(told)), .. }) = produced else {
            panic!("{produced:?}");
        };
        assert_eq!(told, length);
    }
}

#[tokio::test]
async fn keys_and_turns_choose_the_partition() {
    let broker = Broker::serve(&[("users", 3)]).await;
    let users = broker.client().topic("users").await.unwrap();
    assert_eq!(users.partitions(), [0, 1, 2]);
    assert_eq!([None, None, None, None].map(|key| users.partition_for(key)), [0, 1, 2, 0]);
    assert_eq!([&b""[..], b"user-1", b"user-2"].map(|key| users.partition_for(Some(key))), [1, 1, 1]);
    users.send(Some(&[0xff]), "signed in", Acks::Written).await.unwrap();
    assert_eq!(broker.state.records("users", 2), ["signed in"]);
    let missing = broker.client().topic("nowhere").await.unwrap_err();
    assert_eq!(missing.code(), Some(ErrorCode::UnknownTopicOrPartition));
}

#[tokio::test]
async fn a_closed_client_fails_what_is_in_flight_and_what_comes() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let closing = async {
        let mut peer = stage.accept().await;
        peer.id().await;
        client.close();
        peer.closed().await;
    };
    let (produced, ()) = tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), closing);
    assert!(matches!(&produced, Err(error @ ClientError::Lost { ended: Ended::ByClient, .. }) if error.is_ambiguous()));
    assert!(matches!(client.topics().await, Err(ClientError::Closed)));
}

/// What no broker takes is told by its name, on no connection.
#[tokio::test]
async fn names_that_no_topic_can_have_are_not_sent() {
    let broker = Broker::serve(&[("Wörter", 1)]).await;
    let client = broker.client();
    let told = |error: ClientError| assert!(matches!(error, ClientError::TopicName { .. }), "{error:?}");
    for name in ["", "bad name", "a/b", &"a".repeat(250), &"a".repeat(70_000)] {
        told(client.metadata(&["words", name]).await.unwrap_err());
        told(client.produce(name, 0, Acks::Written, &["x"]).await.unwrap_err());
        told(client.produce(name, 0, Acks::None, &["x"]).await.unwrap_err());
        told(client.fetch(fetch(name, 0)).await.unwrap_err());
        told(client.consumer(name, 0).open().await.unwrap_err());
        told(client.producer().build().unwrap().send(name, 0, "x").await.unwrap_err());
    }
    let large = client.fetch(Fetch { max_bytes: u32::MAX, ..fetch("words", 0) }).await.unwrap_err();
    assert!(matches!(large, ClientError::Setting(text) if text.contains("max_bytes")), "{large:?}");
    assert_eq!(client.stats().connections, 0);
    // Letters beyond ASCII are names to some brokers.
    client.produce("Wörter", 0, Acks::Written, &["x"]).await.unwrap_err();
    assert_eq!(client.stats().connections, 1, "the broker was asked");
}
