//! Requests that ask for no acknowledgement.

use slipstream::booblik::client::{ClientError, Ended};
use slipstream::booblik::wire::{Acks, ErrorCode};

use super::fake::{Broker, Stage, client_of, produced, soon};

#[tokio::test]
async fn it_is_done_when_it_is_written_and_the_next_request_is_answered() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    for _ in 0..3 {
        assert_eq!(soon(client.produce("words", 0, Acks::None, &["x"])).await.unwrap(), None);
    }
    // What is behind them on the same connection shows that they were read.
    assert_eq!(client.topics().await.unwrap()[0].partitions[0].high_watermark, 3);
}

#[tokio::test]
async fn a_refusal_that_some_brokers_send_is_counted_and_confuses_nobody() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    for round in 1..=5 {
        assert_eq!(client.produce("nowhere", 0, Acks::None, &["x"]).await.unwrap(), None);
        let written = client.produce("words", 0, Acks::Written, &["x"]).await.unwrap().unwrap();
        assert_eq!(written.log_end_offset, round);
    }
    let stats = client.stats();
    assert_eq!((stats.refused_unacknowledged, stats.connections), (5, 1));
}

#[tokio::test]
async fn refusals_among_pipelined_requests_are_told_apart() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let calls = async {
        let none = || client.produce("a", 0, Acks::None, &["x"]);
        let some = || client.produce("a", 0, Acks::Written, &["x"]);
        tokio::join!(none(), some(), none(), none(), some())
    };
    let played = async {
        let mut peer = stage.accept().await;
        for id in 1..=5 {
            assert_eq!(peer.id().await, id);
        }
        peer.refuse(1, ErrorCode::CorruptRequest).await;
        peer.produced(2, 20).await;
        peer.refuse(4, ErrorCode::CorruptRequest).await;
        peer.refuse(5, ErrorCode::PartitionUnavailable).await;
        peer
    };
    let ((first, stored, third, fourth, refused), _peer) = Box::pin(soon(async { tokio::join!(calls, played) })).await;
    assert!([first, third, fourth].into_iter().all(|none| none.unwrap().is_none()));
    assert_eq!(stored.unwrap().unwrap().base_offset, 20);
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::PartitionUnavailable));
    assert_eq!(client.stats().refused_unacknowledged, 2);
}

#[tokio::test]
async fn an_acknowledgement_for_it_is_out_of_turn() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let played = async {
        let mut peer = stage.accept().await;
        assert_eq!((peer.id().await, peer.id().await), (1, 2));
        peer.send(&produced(1, 0)).await;
        peer.closed().await;
    };
    let calls = async {
        tokio::join!(client.produce("a", 0, Acks::None, &["x"]), client.produce("a", 0, Acks::Written, &["x"]))
    };
    let ((none, written), ()) = soon(async { tokio::join!(calls, played) }).await;
    assert!(none.is_ok());
    assert!(matches!(written, Err(ClientError::Lost { ended: Ended::OutOfTurn { found: 1 }, .. })));
}
