//! Many requests on one connection.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use slipstream::booblik::client::{ClientError, Ended};
use slipstream::booblik::wire::{Acks, ErrorCode, Fetch};

use super::fake::{Broker, Stage, client_of, produced, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_get_their_own_answers() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    let callers = (0..40).map(|caller: u32| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut offsets = Vec::new();
            for number in 0..50 {
                let record = format!("{caller}-{number}");
                let produced = client.produce("words", 0, Acks::Written, &[&record]).await.unwrap().unwrap();
                offsets.push((produced.base_offset, record));
            }
            offsets
        })
    });
    let answers = soon(join_all(callers)).await;
    let records = broker.state.records("words", 0);
    for (offset, record) in answers.into_iter().flat_map(Result::unwrap) {
        assert_eq!(records[usize::try_from(offset).unwrap()], record);
    }
    assert_eq!((records.len(), client.stats().connections), (2000, 1));
}

#[tokio::test]
async fn requests_are_sent_without_waiting_for_answers_up_to_the_bound() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).max_in_flight(64).build().unwrap();
    let calls: Vec<_> = (0..65).map(|_| client.produce("a", 0, Acks::Written, &["x"])).collect();
    let played = async {
        let mut peer = stage.accept().await;
        let mut ids = Vec::new();
        for _ in 0..64 {
            ids.push(peer.id().await);
        }
        assert!(!peer.is_asked(Duration::from_millis(50)).await, "the bound is 64");
        let answers: Vec<u8> = ids.iter().flat_map(|id| produced(*id, i64::from(*id) * 10)).collect();
        peer.send(&answers).await;
        let id = peer.id().await;
        peer.produced(id, i64::from(id) * 10).await;
        peer
    };
    let (answers, _peer) = soon(async { tokio::join!(join_all(calls), played) }).await;
    let offsets: Vec<i64> = answers.into_iter().map(|answer| answer.unwrap().unwrap().base_offset).collect();
    assert_eq!(offsets, (1..=65).map(|id| id * 10).collect::<Vec<i64>>());
}

#[tokio::test]
async fn a_dropped_call_leaves_the_others_their_answers() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).max_in_flight(2).build().unwrap();
    let mut peer = {
        let dropped = client.produce("a", 0, Acks::Written, &["dropped"]);
        let asked = async {
            let mut peer = stage.accept().await;
            assert_eq!(peer.id().await, 1);
            peer
        };
        tokio::select! {
            _ = dropped => panic!("nobody answers"),
            peer = asked => peer,
        }
    };
    let played = async {
        assert_eq!(peer.id().await, 2);
        peer.send(&[produced(1, 100), produced(2, 200)].concat()).await;
        assert_eq!(peer.id().await, 3);
        peer.produced(3, 300).await;
    };
    let called = async {
        let second = client.produce("a", 0, Acks::Written, &["kept"]).await.unwrap().unwrap().base_offset;
        let third = client.produce("a", 0, Acks::Written, &["kept"]).await.unwrap().unwrap().base_offset;
        (second, third)
    };
    let (offsets, ()) = soon(async { tokio::join!(called, played) }).await;
    assert_eq!(offsets, (200, 300));
    assert_eq!(client.stats().connections, 1);
}

#[tokio::test]
async fn an_answer_out_of_turn_ends_the_connection_and_fails_everyone() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let calls: Vec<_> = (0..3).map(|_| client.produce("a", 0, Acks::Written, &["x"])).collect();
    let played = async {
        let mut peer = stage.accept().await;
        for _ in 0..3 {
            peer.id().await;
        }
        peer.send(&[produced(1, 0), produced(3, 0)].concat()).await;
        peer.closed().await;
    };
    let (answers, ()) = soon(async { tokio::join!(join_all(calls), played) }).await;
    assert!(answers[0].is_ok());
    for answer in &answers[1..] {
        let Err(error @ ClientError::Lost { ended: Ended::OutOfTurn { found: 3 }, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert!(error.is_ambiguous());
    }
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_ends_the_connection() {
    let stage = Stage::new().await;
    let _client = client_of(stage.address()).connect().await.unwrap();
    let mut peer = stage.accept().await;
    peer.produced(1, 0).await;
    peer.closed().await;
}

#[tokio::test]
async fn a_held_fetch_holds_up_nobody() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    let waiting = client.clone();
    let held = tokio::spawn(async move {
        let fetch =
            Fetch { topic: "words", partition: 0, offset: 0, max_bytes: 100, max_wait_millis: 60_000, min_bytes: 1 };
        waiting.fetch(fetch).await
    });
    while broker.state.fetches.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    soon(client.produce("words", 0, Acks::Written, &["woken"])).await.unwrap();
    let got = soon(held).await.unwrap().unwrap();
    assert_eq!(got.records.values().collect::<Vec<_>>(), [b"woken"]);
    assert_eq!(client.stats().connections, 2);
}

#[tokio::test]
async fn a_dropped_waiting_fetch_hangs_up_so_that_the_broker_holds_nothing() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let fetch = Fetch { topic: "a", partition: 0, offset: 0, max_bytes: 9, max_wait_millis: 60_000, min_bytes: 0 };
    let asked = async {
        let mut peer = stage.accept().await;
        peer.id().await;
        peer
    };
    let mut peer = tokio::select! {
        _ = client.fetch(fetch) => panic!("nobody answers"),
        peer = asked => peer,
    };
    peer.closed().await;
}

#[tokio::test]
async fn connections_for_waiting_fetches_are_bounded_and_used_again() {
    let stage = Stage::new().await;
    let client = Arc::new(client_of(stage.address()).max_waiting(1).build().unwrap());
    let fetch = || async {
        let fetch = Fetch { topic: "a", partition: 0, offset: 0, max_bytes: 9, max_wait_millis: 60_000, min_bytes: 0 };
        client.fetch(fetch).await.unwrap_err().code()
    };
    let played = async {
        let mut peer = stage.accept().await;
        for _ in 0..2 {
            let id = peer.id().await;
            assert!(!stage.is_called(Duration::from_millis(20)).await, "the bound is one");
            peer.refuse(id, ErrorCode::OffsetOutOfRange).await;
        }
        peer
    };
    let (first, second, _peer) = soon(async { tokio::join!(fetch(), fetch(), played) }).await;
    assert_eq!([first, second], [Some(ErrorCode::OffsetOutOfRange); 2]);
}
