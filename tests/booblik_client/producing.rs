//! Batches.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use slipstream::booblik::client::{ClientError, Ended, ProducerBuilder};
use slipstream::booblik::wire::{self, Acks, Call, ErrorCode};

use super::fake::{Broker, Peer, Stage, client_of, id_of, produced, soon};

const NEVER: Duration = Duration::from_mins(1);

/// The records of the next request, and its id.
async fn batch(peer: &mut Peer) -> (i32, String, i32, Vec<String>) {
    let frame = peer.request().await;
    let Call::Produce(produce) = wire::decode_request(&frame).unwrap().call else { panic!("a produce") };
    let records = produce.records.iter().map(|record| String::from_utf8(record.to_vec()).unwrap());
    (id_of(&frame), produce.topic.to_owned(), produce.partition, records.collect())
}

async fn on_stage(
    set: impl FnOnce(ProducerBuilder) -> ProducerBuilder,
) -> (Stage, slipstream::booblik::client::Producer) {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let producer = set(client.producer()).build().unwrap();
    (stage, producer)
}

#[tokio::test]
async fn records_are_stored_in_order_and_each_learns_its_offset() {
    let broker = Broker::serve(&[("words", 2)]).await;
    let producer = broker.client().producer().max_batch_records(7).build().unwrap();
    let mut deliveries = Vec::new();
    for number in 0..500 {
        deliveries.push(producer.send("words", number % 2, number.to_string()).await.unwrap());
    }
    for (number, delivery) in deliveries.into_iter().enumerate() {
        let sent = soon(delivery.into_future()).await.unwrap();
        let (partition, offset) = (i32::try_from(number % 2).unwrap(), i64::try_from(number / 2).unwrap());
        assert_eq!((sent.partition, sent.offset), (partition, Some(offset)));
    }
    let evens: Vec<String> = (0..250).map(|number| (2 * number).to_string()).collect();
    assert_eq!(broker.state.records("words", 0), evens);
}

#[tokio::test]
async fn a_full_batch_waits_for_nothing_and_takes_the_others_along() {
    let (stage, producer) = on_stage(|builder| builder.linger(NEVER).max_batch_records(3)).await;
    let sends = async {
        for (partition, record) in [(0, "a"), (1, "b"), (0, "c"), (0, "d")] {
            let _ = producer.send("words", partition, record).await.unwrap();
        }
    };
    let (mut peer, ()) = tokio::join!(stage.accept(), sends);
    assert_eq!(batch(&mut peer).await, (1, "words".into(), 0, vec!["a".into(), "c".into(), "d".into()]));
    assert_eq!(batch(&mut peer).await, (2, "words".into(), 1, vec!["b".into()]));
}

#[tokio::test]
async fn batches_are_in_flight_together_and_a_refused_one_fails_alone() {
    let (stage, producer) = on_stage(|builder| builder.linger(NEVER).max_batch_records(2)).await;
    let played = async {
        let mut peer = stage.accept().await;
        for _ in 0..3 {
            batch(&mut peer).await;
        }
        peer.produced(1, 10).await;
        peer.refuse(2, ErrorCode::PartitionUnavailable).await;
        peer.produced(3, 12).await;
        peer
    };
    let all = producer.send_all("words", 0, ["a", "b", "c", "d", "e", "f"]);
    let (outcome, _peer) = soon(async { tokio::join!(all, played) }).await;
    let offsets: Vec<_> = outcome.sent().map(|(index, sent)| (index, sent.offset.unwrap())).collect();
    assert_eq!(offsets, [(0, 10), (1, 11), (4, 12), (5, 13)]);
    for (index, error) in outcome.failed() {
        assert!([2, 3].contains(&index));
        assert_eq!(error.code(), Some(ErrorCode::PartitionUnavailable));
        assert!(error.is_retryable());
        assert_eq!(error.place().map(ToString::to_string).as_deref(), Some("words/0"));
    }
    assert_eq!(outcome.failed().count(), 2);
}

#[tokio::test]
async fn records_that_no_broker_takes_fail_alone() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let producer = broker.client().producer().build().unwrap();
    let records = [vec![b'a'], vec![], vec![0; 9 << 20], vec![b'b']];
    let outcome = soon(producer.send_all("words", 0, records)).await;
    let failed: Vec<_> = outcome.failed().collect();
    assert!(
        matches!(failed[..], [(1, ClientError::EmptyRecord), (2, ClientError::RecordTooLarge { .. })]),
        "{failed:?}"
    );
    assert_eq!(broker.state.records("words", 0), ["a", "b"]);
    assert!(matches!(producer.send("no/name", 0, "x").await, Err(ClientError::TopicName { .. })));
}

#[tokio::test]
async fn batches_are_bounded_by_bytes_and_one_large_record_goes_alone() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let producer = broker.client().producer().max_batch_bytes(1 << 20).linger(NEVER).build().unwrap();
    // Together far more than a frame: the reference sends that, and the broker hangs up.
    let mut records = vec![vec![7; 100_000]; 100];
    records.push(vec![8; 5 << 20]);
    let sizes: Vec<usize> = records.iter().map(Vec::len).collect();
    let mut deliveries = Vec::new();
    for record in records {
        deliveries.push(producer.send("words", 0, record).await.unwrap());
    }
    soon(producer.flush()).await;
    for delivery in deliveries {
        soon(delivery.into_future()).await.unwrap();
    }
    let stored: Vec<usize> = broker.state.records("words", 0).iter().map(bytes::Bytes::len).collect();
    assert_eq!(stored, sizes);
    assert_eq!(broker.state.produces.load(SeqCst), 11);
}

#[tokio::test]
async fn flush_sends_what_waits_and_waits_for_the_answers() {
    let (stage, producer) = on_stage(|builder| builder.linger(NEVER)).await;
    let _ = producer.send("words", 0, "a").await.unwrap();
    let played = async {
        let mut peer = stage.accept().await;
        let (id, ..) = batch(&mut peer).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        peer.refuse(id, ErrorCode::CorruptRequest).await;
        peer
    };
    let mut flush = Box::pin(producer.flush());
    let early = tokio::time::timeout(Duration::from_millis(10), &mut flush).await;
    assert!(early.is_err(), "nobody has answered");
    let ((), _peer) = soon(async { tokio::join!(flush, played) }).await;
    soon(producer.flush()).await;
}

#[tokio::test]
async fn close_sends_what_waits_and_refuses_what_comes() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let producer = broker.client().producer().linger(NEVER).build().unwrap();
    let delivery = producer.send("words", 0, "last").await.unwrap();
    soon(producer.close()).await;
    assert_eq!(soon(delivery.into_future()).await.unwrap().offset, Some(0));
    soon(producer.close()).await;
    assert!(matches!(producer.send("words", 0, "too late").await, Err(ClientError::Closed)));
    assert!(matches!(producer.try_send("words", 0, "too late"), Err(ClientError::Closed)));
    assert_eq!(broker.state.records("words", 0), ["last"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_races_with_close_is_stored_or_refused() {
    for _ in 0..30 {
        let broker = Broker::serve(&[("words", 1)]).await;
        let producer = Arc::new(broker.client().producer().linger(Duration::ZERO).build().unwrap());
        let senders: Vec<_> = (0..8)
            .map(|_| {
                let producer = Arc::clone(&producer);
                tokio::spawn(async move {
                    let mut stored = 0;
                    while let Ok(delivery) = producer.send("words", 0, "x").await {
                        delivery.await.unwrap();
                        stored += 1;
                    }
                    stored
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(2)).await;
        soon(producer.close()).await;
        let mut stored = 0;
        for sender in senders {
            stored += soon(sender).await.unwrap();
        }
        assert_eq!(broker.state.records("words", 0).len(), stored);
    }
}

#[tokio::test]
async fn a_dropped_producer_sends_what_it_has() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let producer = broker.client().producer().linger(NEVER).build().unwrap();
    let delivery = producer.send("words", 0, "left behind").await.unwrap();
    drop(producer);
    assert_eq!(soon(delivery.into_future()).await.unwrap().offset, Some(0));
}

#[tokio::test]
async fn a_dropped_delivery_changes_nothing() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let producer = broker.client().producer().linger(Duration::ZERO).build().unwrap();
    for round in 0..50 {
        drop(producer.send("words", 0, "dropped").await.unwrap());
        let kept = producer.send("words", 0, "kept").await.unwrap();
        assert_eq!(soon(kept.into_future()).await.unwrap().offset, Some(2 * round + 1));
    }
    soon(producer.flush()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_record_is_lost_between_windows() {
    let broker = Broker::serve(&[("fast", 1), ("slow", 1)]).await;
    let producer = broker.client().producer().linger(Duration::from_millis(2)).build().unwrap();
    let mut deliveries = Vec::new();
    for round in 0..1500 {
        deliveries.push(producer.send("fast", 0, "x").await.unwrap());
        if round % 7 == 0 {
            deliveries.push(producer.send("slow", 0, "x").await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for delivery in deliveries {
        soon(delivery.into_future()).await.unwrap();
    }
    assert_eq!(broker.state.records("fast", 0).len(), 1500);
}

#[tokio::test]
async fn a_full_buffer_makes_the_sender_wait() {
    let (stage, producer) = on_stage(|builder| builder.linger(Duration::ZERO).buffer_bytes(1024)).await;
    let record = vec![b'x'; 400];
    let first = producer.send("words", 0, record.clone()).await.unwrap();
    let _ = producer.try_send("words", 0, record.clone()).unwrap();
    assert!(matches!(producer.try_send("words", 0, record.clone()), Err(ClientError::Full)));
    let mut waiting = Box::pin(producer.send("words", 0, record));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err());

    let mut peer = stage.accept().await;
    let (id, .., records) = batch(&mut peer).await;
    peer.produced(id, 0).await;
    if records.len() == 1 {
        let (id, ..) = batch(&mut peer).await;
        peer.produced(id, 1).await;
    }
    let delivery = soon(waiting).await.unwrap();
    assert_eq!(soon(first.into_future()).await.unwrap().offset, Some(0));
    let (id, ..) = batch(&mut peer).await;
    peer.produced(id, 2).await;
    assert_eq!(soon(delivery.into_future()).await.unwrap().offset, Some(2));
}

#[tokio::test]
async fn without_acknowledgement_the_offset_is_unknown() {
    let broker = Broker::serve(&[("words", 1)]).await;
    let client = broker.client();
    let producer = client.producer().acks(Acks::None).build().unwrap();
    let outcome = soon(producer.send_all("words", 0, ["a", "b"])).await;
    assert!(outcome.into_result().unwrap().iter().all(|sent| sent.offset.is_none()));
    let refused = soon(producer.send_all("nowhere", 0, ["a"])).await;
    assert_eq!(refused.failed().count(), 0, "nobody learns of it");
    soon(producer.send_all("words", 0, ["c"])).await.into_result().unwrap();
    soon(producer.close()).await;
    while broker.state.records("words", 0).len() < 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_partition_that_takes_nothing_stops_no_other_and_takes_again_later() {
    let broker = Broker::serve(&[("words", 2)]).await;
    broker.state.refuse("words", 0, Some(ErrorCode::PartitionUnavailable));
    let producer = broker.client().producer().build().unwrap();
    let (full, other) = tokio::join!(producer.send_all("words", 0, ["a"]), producer.send_all("words", 1, ["b"]));
    let codes: Vec<_> = full.failed().map(|(_, error)| error.code()).collect();
    assert_eq!(codes, [Some(ErrorCode::PartitionUnavailable)]);
    assert_eq!(other.into_result().unwrap()[0].offset, Some(0));
    broker.state.refuse("words", 0, None);
    assert_eq!(producer.send_all("words", 0, ["a"]).await.into_result().unwrap()[0].offset, Some(0));
}

#[tokio::test]
async fn keys_choose_the_partition() {
    let broker = Broker::serve(&[("users", 3)]).await;
    let client = broker.client();
    let users = client.topic("users").await.unwrap();
    let producer = client.producer().build().unwrap();
    for key in [&[0xff][..], &[0x7f], b"user-1"] {
        let delivery = producer.send_keyed(&users, Some(key), key.to_vec()).await.unwrap();
        assert_eq!(soon(delivery.into_future()).await.unwrap().partition, users.partition_for(Some(key)));
    }
    assert_eq!(broker.state.records("users", 2), [vec![0xff]]);
}

#[tokio::test]
async fn a_lost_connection_fails_what_was_on_its_way_and_nothing_else() {
    let (stage, producer) = on_stage(|builder| builder.linger(Duration::ZERO).max_batch_records(1)).await;
    let first = producer.send("words", 0, "a").await.unwrap();
    let second = producer.send("words", 0, "b").await.unwrap();
    let mut peer = stage.accept().await;
    let (a, b) = (batch(&mut peer).await, batch(&mut peer).await);
    assert_eq!((a.3, b.3), (vec!["a".to_owned()], vec!["b".to_owned()]));
    peer.send(&produced(1, 0)).await;
    drop(peer);
    assert!(soon(first.into_future()).await.is_ok());
    let lost = soon(second.into_future()).await.unwrap_err();
    assert!(matches!(lost, ClientError::Lost { ended: Ended::ByBroker | Ended::Io(_), .. }) && lost.is_ambiguous());

    let third = producer.send("words", 0, "c").await.unwrap();
    let mut peer = stage.accept().await;
    assert_eq!(batch(&mut peer).await.3, ["c"], "b is not sent again");
    peer.produced(1, 2).await;
    assert_eq!(soon(third.into_future()).await.unwrap().offset, Some(2));
}

#[tokio::test]
async fn records_for_a_broker_that_is_gone_fail_in_time() {
    let address = Stage::new().await.address();
    let client = client_of(address).request_timeout(Duration::from_millis(300)).build().unwrap();
    let producer = client.producer().max_batch_records(1).build().unwrap();
    // Their time runs from when they were ready, so that fifty of them take no longer than one.
    let outcome =
        tokio::time::timeout(Duration::from_secs(10), producer.send_all("words", 0, ["x"; 50])).await.unwrap();
    assert_eq!(outcome.failed().filter(|(_, error)| !error.is_ambiguous() && error.is_retryable()).count(), 50);
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_told() {
    let client = client_of(Stage::new().await.address()).build().unwrap();
    for builder in [
        client.producer().max_batch_records(0),
        client.producer().max_batch_bytes(0),
        client.producer().max_batch_bytes(9 << 20),
        client.producer().max_in_flight(0),
        client.producer().buffer_bytes(10),
        client.producer().linger(Duration::from_secs(61)),
    ] {
        assert!(matches!(builder.build(), Err(ClientError::Setting(_))));
    }
    for builder in [
        client_of(Stage::new().await.address()).max_in_flight(0),
        client_of(Stage::new().await.address()).max_waiting(100_000),
        client_of(Stage::new().await.address()).request_timeout(Duration::ZERO),
    ] {
        assert!(matches!(builder.build(), Err(ClientError::Setting(_))));
    }
}
