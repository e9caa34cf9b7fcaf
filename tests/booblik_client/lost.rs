//! Connections that end, answers that do not come.

use std::time::Duration;

use futures::future::join_all;
use slipstream::booblik::client::{ClientError, Ended, Fate, Resend};
use slipstream::booblik::wire::{self, Acks, Fetch};

use super::fake::{Broker, Stage, client_of, soon, written};

#[tokio::test]
async fn an_end_of_the_stream_fails_all_that_are_pending() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let calls: Vec<_> = (0..20).map(|_| client.produce("a", 0, Acks::Written, &["x"])).collect();
    let played = async {
        let mut peer = stage.accept().await;
        for _ in 0..20 {
            peer.id().await;
        }
    };
    let (answers, ()) = soon(async { tokio::join!(join_all(calls), played) }).await;
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error, ClientError::Lost { ended: Ended::ByBroker, fate: Fate::Unknown }), "{error:?}");
        assert!(error.is_retryable() && error.is_ambiguous());
    }
}

#[tokio::test]
async fn a_half_answer_and_then_the_end_fails_too() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let played = async {
        let mut peer = stage.accept().await;
        peer.id().await;
        peer.send(&[0, 0, 0, 22, 0, 0]).await;
    };
    let (produced, ()) = soon(async { tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), played) }).await;
    assert!(matches!(produced, Err(ClientError::Lost { ended: Ended::ByBroker, .. })));
}

#[tokio::test]
async fn a_late_answer_closes_the_connection_and_the_next_call_has_a_new_one() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).request_timeout(Duration::from_millis(100)).build().unwrap();
    let played = async {
        let mut peer = stage.accept().await;
        peer.id().await;
        peer.closed().await;
        peer
    };
    let (late, _old) = soon(async { tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), played) }).await;
    let late = late.unwrap_err();
    assert!(matches!(late, ClientError::Timeout { fate: Fate::Unknown, .. }) && late.is_ambiguous(), "{late:?}");
    assert_eq!(late.to_string(), format!("no answer from {} within 100ms", stage.address()));

    let played = async {
        let mut peer = stage.accept().await;
        let id = peer.id().await;
        peer.produced(id, 5).await;
        peer
    };
    let (next, _peer) = soon(async { tokio::join!(client.produce("a", 0, Acks::Written, &["x"]), played) }).await;
    assert_eq!(next.unwrap().unwrap().base_offset, 5);
}

#[tokio::test]
async fn a_wait_is_added_to_the_deadline() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).request_timeout(Duration::from_millis(200)).build().unwrap();
    let fetch = Fetch { topic: "a", partition: 0, offset: 0, max_bytes: 9, max_wait_millis: 20_000, min_bytes: 0 };
    let played = async {
        let mut peer = stage.accept().await;
        let id = peer.id().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        peer.send(&wire::fetched_head(id, 0, 0)).await;
        peer
    };
    let (got, _peer) = soon(async { tokio::join!(client.fetch(fetch), played) }).await;
    assert!(got.unwrap().records.is_empty());
}

#[tokio::test]
async fn a_peer_that_reads_nothing_fails_calls_by_their_deadline() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).request_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let _peer = stage.accept().await;
    let large = vec![1; 4 << 20];
    let calls = (0..10).map(|_| client.produce("a", 0, Acks::Written, std::slice::from_ref(&large)));
    let answers = soon(join_all(calls)).await;
    let expected = |answer| matches!(answer, Err(ClientError::Timeout { .. } | ClientError::Lost { .. }));
    assert!(answers.into_iter().all(expected));
}

#[tokio::test]
async fn metadata_is_asked_again_on_a_new_connection() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let played = async {
        for _ in 0..3 {
            stage.accept().await.id().await;
        }
        let mut peer = stage.accept().await;
        let id = peer.id().await;
        peer.send(&written(|out| wire::encode_described(out, id, &[]).unwrap())).await;
        peer
    };
    let (described, _peer) = soon(async { tokio::join!(client.topics(), played) }).await;
    assert!(described.unwrap().is_empty());
    assert_eq!(client.stats().connections, 4);
}

#[tokio::test]
async fn a_produce_is_not_sent_twice_unless_that_is_asked_for() {
    for resend in [Resend::Unsent, Resend::Always] {
        let stage = Stage::new().await;
        let client = client_of(stage.address()).resend(resend).build().unwrap();
        let played = async {
            stage.accept().await.id().await;
            if resend == Resend::Unsent {
                return (stage.is_called(Duration::from_millis(100)).await, None);
            }
            let mut peer = stage.accept().await;
            let id = peer.id().await;
            peer.produced(id, 9).await;
            (true, Some(peer))
        };
        let call = client.produce("a", 0, Acks::Written, &["x"]);
        let (produced, (is_resent, _peer)) = soon(async { tokio::join!(call, played) }).await;
        assert_eq!((produced.is_ok(), is_resent), (resend == Resend::Always, resend == Resend::Always));
    }
}

#[tokio::test]
async fn a_broker_that_comes_late_gets_the_request() {
    let address = Stage::new().await.address();
    let client = client_of(address).build().unwrap();
    let calling = tokio::spawn(async move { client.topics().await.map(|topics| (topics.len(), client.stats())) });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let state = Broker::serve(&[("words", 1)]).await.stop().await.0;
    let _broker = Broker::serve_at(state, &address.to_string()).await;
    let (topics, counted) = soon(calling).await.unwrap().unwrap();
    assert_eq!((topics, counted.connections), (1, 1));
    assert!((2..60).contains(&counted.failed_connections), "with pauses: {counted:?}");
}

#[tokio::test]
async fn a_broker_that_never_comes_is_named_at_the_deadline() {
    let address = Stage::new().await.address();
    let client = client_of(address).request_timeout(Duration::from_millis(200)).build().unwrap();
    let error = soon(client.produce("a", 0, Acks::Written, &["x"])).await.unwrap_err();
    assert!(matches!(&error, ClientError::Connect { .. }) && !error.is_ambiguous());
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn what_accepts_and_hangs_up_is_not_called_without_pause() {
    let stage = Stage::new().await;
    let (first, cap) = (Duration::from_millis(20), Duration::from_millis(20));
    let builder = client_of(stage.address()).backoff(first, cap).request_timeout(Duration::from_millis(400));
    let client = builder.build().unwrap();
    let hanging_up = async {
        loop {
            drop(stage.accept().await);
        }
    };
    tokio::select! {
        described = client.topics() => assert!(described.is_err()),
        () = hanging_up => {}
    }
    assert!((2..=45).contains(&client.stats().connections), "{:?}", client.stats());
}
