//! Reading from a position on.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures::StreamExt as _;
use slipstream::booblik::client::{ClientError, Consumer, OutOfRange, Start};
use slipstream::booblik::wire::{self, Call, Damage, ErrorCode, Records};

use super::fake::{Broker, Stage, client_of, fetched, id_of, soon, stored};

const HELD: Duration = Duration::from_secs(20);

fn texts(records: &Records) -> Vec<String> {
    records.values().map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
}

async fn consumer(broker: &Broker, start: Start) -> Consumer {
    broker.client().consumer("words", 0).start(start).max_wait(Duration::from_millis(10)).open().await.unwrap()
}

async fn words(records: &[&str]) -> Broker {
    let broker = Broker::serve(&[("words", 1)]).await;
    broker.state.append("words", 0, records);
    broker
}

#[tokio::test]
async fn a_poll_moves_the_position_and_tells_the_lag() {
    let broker = words(&["a", "b", "c"]).await;
    let mut consumer = consumer(&broker, Start::Earliest).await;
    assert_eq!((consumer.position(), consumer.high_watermark(), consumer.lag()), (0, 3, 3));
    let records = consumer.poll().await.unwrap();
    assert_eq!(
        (texts(&records), records.base_offset(), records.next_offset()),
        (vec!["a".into(), "b".into(), "c".into()], 0, 3)
    );
    assert_eq!((consumer.position(), consumer.lag()), (3, 0));
    assert!(consumer.poll().await.unwrap().is_empty(), "caught up, not at an end");
    broker.state.append("words", 0, &["d"]);
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["d"]);
    consumer.seek(1);
    assert_eq!((consumer.position(), consumer.lag()), (1, 3));
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["b", "c", "d"]);
}

#[tokio::test]
async fn starts_are_where_they_say() {
    let broker = words(&["a", "b", "c", "d"]).await;
    broker.state.expire("words", 0, 2);
    assert_eq!(consumer(&broker, Start::Earliest).await.position(), 2);
    assert_eq!(consumer(&broker, Start::Latest).await.position(), 4);
    let mut at = consumer(&broker, Start::At(3)).await;
    assert_eq!(texts(&at.poll().await.unwrap()), ["d"]);
    let unknown = broker.client().consumer("words", 5).open().await.unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::UnknownTopicOrPartition));
}

#[tokio::test]
async fn the_position_is_behind_the_record_that_was_given_out() {
    let broker = words(&["a", "b", "c"]).await;
    let mut consumer = consumer(&broker, Start::Earliest).await;
    let record = consumer.next().await.unwrap();
    assert_eq!((record.offset, &record.value[..], consumer.position(), consumer.lag()), (0, &b"a"[..], 1, 2));
    // What is left of the batch is not fetched again.
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["b", "c"]);
    assert_eq!(broker.state.fetches.load(SeqCst), 1);
}

#[tokio::test]
async fn a_stream_goes_on_for_ever() {
    let broker = words(&["a", "b"]).await;
    let mut consumer = consumer(&broker, Start::Earliest).await;
    let state = std::sync::Arc::clone(&broker.state);
    let later = tokio::spawn(async move {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(40)).await;
            state.append("words", 0, &["more"]);
        }
    });
    let mut records = Box::pin(consumer.records());
    for offset in 0..5 {
        assert_eq!(soon(records.next()).await.unwrap().unwrap().offset, offset);
    }
    drop(records);
    soon(later).await.unwrap();
    assert_eq!(consumer.position(), 5);
    broker.state.append("words", 0, &["last"]);
    let mut owned = Box::pin(consumer.into_records());
    assert_eq!(soon(owned.next()).await.unwrap().unwrap().value, "last");
}

#[tokio::test]
async fn a_short_answer_is_no_end() {
    let broker = words(&["aaaa"; 20]).await;
    let client = broker.client();
    let mut consumer = client.consumer("words", 0).max_bytes(30).open().await.unwrap();
    let mut count = 0;
    while consumer.lag() > 0 {
        let records = soon(consumer.poll()).await.unwrap();
        assert_eq!(records.len(), 2);
        count += records.len();
    }
    assert_eq!(count, 20);
}

#[tokio::test]
async fn a_record_that_can_never_arrive_is_told_until_there_is_room() {
    let broker = words(&["a", &"b".repeat(500)]).await;
    let mut consumer = broker.client().consumer("words", 0).max_bytes(100).open().await.unwrap();
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["a"]);
    for _ in 0..2 {
        let error = consumer.poll().await.unwrap_err();
        let ClientError::ExceedsMaxBytes { offset: 1, record_bytes: 500, max_bytes: 100, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(consumer.position(), 1);
    }
    consumer.set_max_bytes(4).unwrap();
    assert!(matches!(consumer.poll().await, Err(ClientError::ExceedsMaxBytes { record_bytes: 0, .. })));
    consumer.set_max_bytes(508).unwrap();
    assert_eq!(consumer.poll().await.unwrap().len(), 1);
}

#[tokio::test]
async fn good_records_come_before_the_damaged_one_which_can_be_left_out() {
    let broker = words(&["a", "b", "c", "d"]).await;
    broker.state.damage("words", 0, 2);
    let mut consumer = consumer(&broker, Start::Earliest).await;
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["a", "b"]);
    assert_eq!(consumer.skip_damaged(), None, "nobody was told yet");
    for _ in 0..3 {
        let error = consumer.poll().await.unwrap_err();
        let ClientError::Corrupt { offset: 2, damage: Damage::Checksum { stored, computed }, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((computed, stored != computed), (wire::crc32c(b"c"), true));
        assert_eq!(slipstream::Error::from(error).kind(), slipstream::Kind::Corrupt);
        assert_eq!(consumer.position(), 2, "it stays until it is told to go on");
    }
    assert_eq!(consumer.skip_damaged(), Some(2));
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["d"]);
    assert_eq!(consumer.skip_damaged(), None);
}

#[tokio::test]
async fn a_damaged_size_is_damage_and_no_large_record() {
    let stage = Stage::new().await;
    let mut consumer =
        client_of(stage.address()).build().unwrap().consumer("a", 0).start(Start::At(7)).open().await.unwrap();
    let played = async {
        let mut peer = stage.accept().await;
        let payload = [&stored(&[b"good"])[..], &[0x7f; 12]].concat();
        let id = peer.id().await;
        peer.send(&fetched(id, 9, &payload)).await;
        peer
    };
    let (records, _peer) = soon(async { tokio::join!(consumer.poll(), played) }).await;
    assert_eq!(records.unwrap().len(), 1);
    let error = consumer.poll().await.unwrap_err();
    assert!(matches!(error, ClientError::Corrupt { offset: 8, damage: Damage::Size(0x7f7f_7f7f), .. }), "{error:?}");
}

#[tokio::test]
async fn a_position_outside_of_the_log_is_told_with_the_side() {
    let broker = words(&["a", "b", "c"]).await;
    broker.state.expire("words", 0, 2);
    for offset in [1, 4] {
        let mut consumer = consumer(&broker, Start::At(offset)).await;
        let error = consumer.poll().await.unwrap_err();
        let ClientError::OutOfRange { offset: told, log_start_offset: 2, high_watermark: 3, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((told, consumer.position()), (offset, offset));
        assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange));
    }
}

#[tokio::test]
async fn a_consumer_that_is_told_to_moves_into_the_log() {
    let broker = words(&["a", "b", "c"]).await;
    broker.state.expire("words", 0, 2);
    for (out_of_range, position) in [(OutOfRange::Earliest, 2), (OutOfRange::Latest, 3)] {
        let builder = broker.client().consumer("words", 0).start(Start::At(99)).out_of_range(out_of_range);
        let mut consumer = builder.max_wait(Duration::ZERO).open().await.unwrap();
        let records = consumer.poll().await.unwrap();
        assert_eq!(records.base_offset(), position);
    }
}

#[tokio::test]
async fn a_dropped_poll_loses_nothing_and_asks_for_nothing_twice() {
    let broker = words(&[]).await;
    let mut consumer = broker.client().consumer("words", 0).max_wait(HELD).open().await.unwrap();
    for _ in 0..20 {
        let dropped = tokio::time::timeout(Duration::from_millis(5), consumer.poll()).await;
        assert!(dropped.is_err());
    }
    broker.state.append("words", 0, &["a"]);
    assert_eq!(texts(&soon(consumer.poll()).await.unwrap()), ["a"]);
    assert_eq!(broker.state.fetches.load(SeqCst), 1);
}

#[tokio::test]
async fn a_seek_does_not_wait_for_the_fetch_that_is_held() {
    let broker = words(&["a"]).await;
    let mut consumer = broker.client().consumer("words", 0).start(Start::Latest).max_wait(HELD).open().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), consumer.poll()).await.is_err());
    consumer.seek(0);
    let records = tokio::time::timeout(Duration::from_secs(10), consumer.poll()).await;
    assert_eq!(texts(&records.expect("the held fetch was given up").unwrap()), ["a"]);
}

#[tokio::test]
async fn an_idle_consumer_asks_once_per_wait() {
    let broker = words(&[]).await;
    let mut consumer = broker.client().consumer("words", 0).max_wait(Duration::from_millis(200)).open().await.unwrap();
    let idle = tokio::time::timeout(Duration::from_millis(1100), consumer.next()).await;
    assert!(idle.is_err());
    assert!(broker.state.fetches.load(SeqCst) <= 6);
}

#[tokio::test]
async fn a_consumer_goes_on_when_the_broker_is_back() {
    let broker = words(&["a"]).await;
    let client = broker.client();
    let mut consumer = client.consumer("words", 0).max_wait(HELD).open().await.unwrap();
    assert_eq!(texts(&consumer.poll().await.unwrap()), ["a"]);
    let polling = tokio::spawn(async move { consumer.poll().await });
    while broker.state.fetches.load(SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let (state, address) = broker.stop().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let broker = Broker::serve_at(state, &address.to_string()).await;
    broker.state.append("words", 0, &["b"]);
    assert_eq!(texts(&soon(polling).await.unwrap().unwrap()), ["b"]);
}

#[tokio::test]
async fn a_poll_asks_for_what_was_set() {
    let stage = Stage::new().await;
    let client = client_of(stage.address()).build().unwrap();
    let builder = client.consumer("a", 3).start(Start::At(42)).max_bytes(1000).min_bytes(10);
    let mut consumer = builder.max_wait(Duration::from_secs(1000)).open().await.unwrap();
    let played = async {
        let mut peer = stage.accept().await;
        let frame = peer.request().await;
        let Call::Fetch(fetch) = wire::decode_request(&frame).unwrap().call else { panic!("a fetch") };
        let asked = (fetch.partition, fetch.offset, fetch.max_bytes, fetch.min_bytes, fetch.max_wait_millis);
        assert_eq!(asked, (3, 42, 1000, 10, 60_000));
        peer.send(&fetched(id_of(&frame), 42, b"")).await;
        peer
    };
    let (polled, _peer) = soon(async { tokio::join!(consumer.poll(), played) }).await;
    assert!(polled.unwrap().is_empty());
    assert!(matches!(consumer.set_min_bytes(1001), Err(ClientError::Setting(_))));
    for builder in [client.consumer("a", 0).max_bytes(0), client.consumer("a", 0).max_bytes(5).min_bytes(6)] {
        assert!(matches!(builder.open().await, Err(ClientError::Setting(_))));
    }
}

/// What a consumer gets from ten records of which 3 to 6 are lost, until it has caught up or failed.
async fn read_around_a_hole(policy: OutOfRange, says_so: bool) -> (Vec<i64>, Option<ClientError>, Consumer) {
    let broker = words(&["a"; 10]).await;
    broker.state.lose("words", 0, 3..7, says_so);
    let builder = broker.client().consumer("words", 0).out_of_range(policy).max_wait(Duration::ZERO);
    let (mut consumer, mut offsets) = (builder.open().await.unwrap(), Vec::new());
    loop {
        match soon(consumer.poll()).await {
            Ok(records) if records.is_empty() => return (offsets, None, consumer),
            Ok(records) => offsets.extend(records.base_offset()..records.next_offset()),
            Err(error) => return (offsets, Some(error), consumer),
        }
        assert!(offsets.len() <= 10, "the same records again and again: {offsets:?}");
    }
}

/// Neither the same records again, nor a jump over those that are still there; also with a broker that does not say
/// where a hole ends.
#[tokio::test]
async fn a_hole_in_the_log_is_passed_by_the_policy_and_nothing_else_is_left_out() {
    for says_so in [true, false] {
        for policy in [OutOfRange::Earliest, OutOfRange::Latest] {
            let (offsets, error, consumer) = read_around_a_hole(policy, says_so).await;
            assert!(error.is_none(), "{error:?}");
            assert_eq!((offsets, consumer.lag()), (vec![0, 1, 2, 7, 8, 9], 0), "{policy:?}");
        }
    }
}

#[tokio::test]
async fn a_hole_in_the_log_stops_a_consumer_with_the_truth_and_can_be_left_out() {
    let (offsets, error, mut consumer) = read_around_a_hole(OutOfRange::Stop, true).await;
    let error = error.unwrap();
    assert!(matches!(error, ClientError::Gap { offset: 3, next: Some(7), .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("lost records 3 to 6") && text.contains("skip_damaged"), "{text}");
    assert_eq!(slipstream::Error::from(error).kind(), slipstream::Kind::OutOfRange);
    assert_eq!((offsets, consumer.position(), consumer.skip_damaged()), (vec![0, 1, 2], 3, Some(3)));
    assert_eq!(consumer.position(), 7);

    let (_, error, mut consumer) = read_around_a_hole(OutOfRange::Stop, false).await;
    let error = error.unwrap();
    assert!(matches!(error, ClientError::Gap { offset: 3, next: None, .. }), "{error:?}");
    assert_eq!((error.code(), consumer.skip_damaged()), (Some(ErrorCode::OffsetOutOfRange), Some(3)));
    assert_eq!(consumer.position(), 4);
}

/// A broker that refuses whatever it is asked for is not asked for ever.
#[tokio::test]
async fn a_log_that_cannot_be_read_anywhere_is_an_error() {
    let broker = words(&["a"; 3]).await;
    broker.state.lose("words", 0, 0..4, false);
    let builder = broker.client().consumer("words", 0).out_of_range(OutOfRange::Earliest);
    let error = soon(builder.open().await.unwrap().poll()).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange));
}
