//! What a record carries, and what becomes of one that cannot be read.

use slipstream::codec::Raw as RawCodec;
use slipstream::prelude::*;
use slipstream::{Kind, Timestamp};

use super::bench::{Bench, Raw, Running, Seen, by_partition, record, text};

/// TP-16, INT-1: "a", "b", "c" come back as they were written.
pub async fn what_is_produced_is_consumed_in_order(bench: Bench) -> Result<()> {
    bench.write("abc", 1, ["a", "b", "c"].map(|value| record(None, Some(value.as_bytes()))).into()).await?;
    let read = bench.read("reader", &bench.topic::<String, String>("abc", 1), 3).await?;
    let told: Vec<_> = read.iter().map(|message| (message.value.as_str(), message.offset, &message.key)).collect();
    assert_eq!(told, [("a", 0, &None), ("b", 1, &None), ("c", 2, &None)]);
    assert!(read.iter().all(|message| bench.plain(&message.topic) == "abc"));
    Ok(())
}

pub async fn order_is_kept_within_partitions_and_keys_choose_the_same_ones(bench: Bench) -> Result<()> {
    let keys = ["", "a", "b", "21", "foobar", "a-little-bit-long-string", "key-1", "key-2"];
    let records = (0..160).map(|n| text(keys[n % keys.len()], &n.to_string())).collect();
    bench.write("many", 4, records).await?;
    let read = bench.read("reader", &bench.topic::<u32, String>("many", 4), 160).await?;
    let mut last = std::collections::BTreeMap::new();
    let mut places = std::collections::BTreeMap::new();
    for message in &read {
        let key = message.key()?.as_str();
        assert!(last.insert(key, message.value).is_none_or(|before| before < message.value), "{key} out of order");
        assert_eq!(*places.entry(key).or_insert(message.partition), message.partition, "{key} in two partitions");
    }
    for offsets in by_partition(&read).values() {
        assert!(offsets.iter().copied().zip(0..).all(|(offset, expected)| offset == expected), "{offsets:?}");
    }
    let told: Vec<_> = keys.iter().map(|key| places[key]).collect();
    let expected = if bench.is_booblik() {
        // As every booblik client chooses: FNV-1a modulo 4.
        [1, 0, 1, 0, 0, 0, 2, 3]
    } else {
        // As a Java producer chooses: murmur2, without the sign, modulo 4.
        [1, 0, 0, 0, 2, 0, 0, 2]
    };
    assert_eq!(told, expected);
    Ok(())
}

pub async fn headers_keep_order_duplicates_and_nulls(bench: Bench) -> Result<()> {
    let headers = Headers::new().with("a", "1").with_null("b").with("a", "2").with("empty", "").with("", &b"\xff"[..]);
    let records = vec![text("k", "v").with_headers(headers.clone()), text("k", "w")];
    bench.write("headed", 1, records).await?;
    let read = bench.contents("headed", 1, 2).await?;
    assert_eq!(read[0].headers, headers);
    assert_eq!(read[1].headers, Headers::new());
    Ok(())
}

pub async fn timestamps_are_kept_and_missing_ones_are_now(bench: Bench) -> Result<()> {
    let before = Utc::now().timestamp_millis();
    bench
        .write(
            "timed",
            1,
            vec![text("k", "old").with_timestamp(1_000_000), text("k", "new"), text("k", "zero").with_timestamp(0)],
        )
        .await?;
    let read = bench.contents("timed", 1, 3).await?;
    assert_eq!(read[0].timestamp, Timestamp::Created(1_000_000));
    for record in &read[1..] {
        let Timestamp::Created(now) = record.timestamp else { panic!("{:?}", record.timestamp) };
        assert!((before..=Utc::now().timestamp_millis()).contains(&now), "{now}");
    }
    Ok(())
}

/// B-23: null is not empty, for keys and for values.
pub async fn b23_null_and_empty_keys_and_values_differ(bench: Bench) -> Result<()> {
    let parts = [None, Some(&b""[..]), Some(&b"x"[..])];
    let pairs: Vec<_> = parts.iter().flat_map(|key| parts.iter().map(move |value| (*key, *value))).collect();
    bench.write("nulls", 1, pairs.iter().map(|(key, value)| record(*key, *value)).collect()).await?;
    let raw = bench.contents("nulls", 1, 9).await?;
    let told: Vec<_> = raw.iter().map(|message| (message.key.as_deref(), message.value.as_deref())).collect();
    assert_eq!(told, pairs);
    let read = bench.read("reader", &bench.topic::<Option<String>, String>("nulls", 1), 9).await?;
    let told: Vec<_> = read.iter().map(|message| (message.key.as_deref(), message.value.as_deref())).collect();
    let words: Vec<_> = pairs.iter().map(|(key, value)| (as_text(*key), as_text(*value))).collect();
    assert_eq!(told, words);
    Ok(())
}

fn as_text(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.map(|bytes| std::str::from_utf8(bytes).unwrap())
}

/// B-23: a sink of `None` writes a real null, and a reader without `Option` is told where it met one.
pub async fn b23_tombstones_need_an_option(bench: Bench) -> Result<()> {
    let source = stream::iter([("k", Some(5_u32)), ("k", None)]);
    let give = |(key, value): (&str, Option<u32>)| One((key.to_owned(), value));
    App::new()
        .handle(source, give, bench.topic::<Option<u32>, String>("graves", 1))
        .conf(bench.conf("writer"))
        .run()
        .await?;
    let raw = bench.contents("graves", 1, 2).await?;
    assert_eq!(raw.iter().map(|raw| raw.value.as_deref()).collect::<Vec<_>>(), [Some(&b"5"[..]), None]);
    let read = bench.read("reader", &bench.topic::<Option<u32>, String>("graves", 1), 2).await?;
    assert_eq!(read.iter().map(|message| message.value).collect::<Vec<_>>(), [Some(5), None]);

    let seen = Seen::default();
    let app = App::new().handle(bench.topic::<u32, String>("graves", 1), |n: u32| n, seen.keep());
    let error = app.conf(bench.conf("plain")).run().await.unwrap_err();
    assert_eq!((error.kind(), bench.plain(&error)), (Kind::Decode, "graves[0]@1: the value cannot be decoded".into()));
    assert_eq!(seen.take(), [5]);
    Ok(())
}

/// B-22, the part of `stop`: nothing behind the record is committed, what is done elsewhere is, and a restart meets it
/// again.
pub async fn b22_an_undecodable_record_stops_the_run_and_stays_the_next(bench: Bench) -> Result<()> {
    let topic = || bench.topic::<u32, String>("poisoned", 4);
    bench.write("poisoned", 4, (0..40).map(|n| text(&format!("k{n}"), "1")).collect()).await?;
    let seen = Seen::default();
    // Nothing is committed by the timer: only by the end.
    let conf = || bench.conf("reader").with("commit.interval", "1h");
    let run = Running::start(App::new().handle(topic(), |n: u32| n, seen.keep()), conf());
    run.until(|| seen.len() == 40).await;
    bench.write("poisoned", 4, vec![text("k0", "2"), text("k0", "poison"), text("k0", "3")]).await?;
    let first = run.ended().await.unwrap_err();
    assert_eq!(first.kind(), Kind::Decode);
    let place = bench.plain(first.place().unwrap_or_default());
    assert!(place.starts_with("poisoned[") && place.contains("]@"), "{place}");
    assert_eq!(seen.take().len(), 41);

    let again = App::new().handle(topic(), |n: u32| n, seen.keep()).conf(conf()).run().await.unwrap_err();
    assert_eq!((again.kind(), again.to_string()), (Kind::Decode, first.to_string()));
    assert_eq!(seen.len(), 0);

    // As the same group, but as bytes: exactly the record and what is behind it is left.
    let left = bench.read("reader", &bench.raw("poisoned", 4), 2).await?;
    assert_eq!(left.iter().map(|raw| raw.value.as_deref()).collect::<Vec<_>>(), [Some(&b"poison"[..]), Some(b"3")]);
    assert_eq!(place, bench.plain(left[0].place()));
    Ok(())
}

/// B-24: bytes stay bytes unless text was asked for.
pub async fn b24_a_key_that_is_not_utf8_is_bytes_or_an_error_with_its_place(bench: Bench) -> Result<()> {
    bench.write("odd", 1, vec![record(Some(b"\xff\xfe"), Some(b"\xfe"))]).await?;
    let read = bench.read("bytes", &bench.topic::<Vec<u8>, Bytes>("odd", 1), 1).await?;
    assert_eq!((read[0].key.as_deref(), &read[0].value[..]), (Some(&b"\xff\xfe"[..]), &b"\xfe"[..]));
    let key = App::new().handle(bench.topic::<Bytes, String>("odd", 1), |_: Bytes| (), ()).conf(bench.conf("key"));
    let error = key.run().await.unwrap_err();
    assert_eq!((error.kind(), bench.plain(&error)), (Kind::Decode, "odd[0]@0: the key cannot be decoded".into()));
    let value = App::new().handle(bench.topic::<String, Bytes>("odd", 1), |_: String| (), ()).conf(bench.conf("value"));
    let error = value.run().await.unwrap_err();
    assert_eq!((error.kind(), bench.plain(&error)), (Kind::Decode, "odd[0]@0: the value cannot be decoded".into()));
    Ok(())
}

pub async fn a_topic_takes_values_pairs_headers_and_messages(bench: Bench) -> Result<()> {
    let topic = || bench.topic::<u32, String>("forms", 1);
    let one = || stream::iter([7_u32]);
    let headed = || Headers::new().with("h", "1");
    let pair = bench.topic::<(u32, u32), String>("pairs", 1);
    // One after the other: each line is an app, so that the order is known.
    let run = |app: App| app.conf(bench.conf("writer")).run();
    run(App::new().handle(one(), |n: u32| n, topic())).await?;
    run(App::new().handle(one(), |n: u32| One(("k".to_owned(), n)), topic())).await?;
    run(App::new().handle(one(), |n: u32| One((None::<String>, n)), topic())).await?;
    run(App::new().handle(one(), |n: u32| One((Some("o".to_owned()), n)), topic())).await?;
    run(App::new().handle(one(), move |n: u32| One(("h".to_owned(), n, headed())), topic())).await?;
    run(App::new().handle(one(), |n: u32| One(Message::<u32>::new(n).with_key("m".into()).with_timestamp(9)), topic()))
        .await?;
    run(App::new().handle(one(), |n: u32| n, topic().map(|n: u32| ("mapped".to_owned(), n + 1)))).await?;
    run(App::new().handle(one(), |n: u32| One(One((n, n))), pair)).await?;

    let read = bench.read("reader", &topic(), 7).await?;
    let told: Vec<_> = read.iter().map(|m| (m.key.as_deref(), m.value, m.headers.get("h").is_some())).collect();
    let expected = [
        (None, 7, false),
        (Some("k"), 7, false),
        (None, 7, false),
        (Some("o"), 7, false),
        (Some("h"), 7, true),
        (Some("m"), 7, false),
        (Some("mapped"), 8, false),
    ];
    assert_eq!(told, expected);
    assert_eq!(read[5].timestamp, Timestamp::Created(9));
    let pairs = bench.contents("pairs", 1, 1).await?;
    assert_eq!(pairs[0].value.as_deref(), Some(&b"[7,7]"[..]));
    Ok(())
}

/// TP-13, TP-15: a receipt says where the record is; first sends at the same time share one connection.
pub async fn a_send_is_answered_by_the_place_of_the_record(bench: Bench) -> Result<()> {
    bench.write("sent", 1, vec![text("k", "0")]).await?;
    let topic: Topic<String> = bench.alone("sent");
    let (first, second) = tokio::try_join!(topic.send("1".to_owned()), topic.send(("k".to_owned(), "2".to_owned())))?;
    let mut offsets = [first.offset, second.offset];
    offsets.sort_unstable();
    assert_eq!((offsets, first.partition, second.partition), ([1, 2], 0, 0));
    topic.close().await?;
    // Opened again by its next use.
    assert_eq!(topic.send("3".to_owned()).await?.offset, 3);
    topic.close().await?;
    let values: Vec<_> = bench.contents("sent", 1, 4).await?.into_iter().filter_map(|raw| raw.value).collect();
    assert_eq!((values.len(), &values[0][..], &values[3][..]), (4, &b"0"[..], &b"3"[..]));
    Ok(())
}

/// A codec that is chosen is used, whatever the type would mean by default.
pub async fn a_chosen_codec_reads_and_writes(bench: Bench) -> Result<()> {
    let topic: Topic<Bytes, Bytes> = bench.topic::<Bytes, Bytes>("chosen", 1).codec(&RawCodec).key_codec(&RawCodec);
    let give = |n: u8| One((Bytes::from(vec![n]), Bytes::from(vec![n, 0xff])));
    App::new().handle(stream::iter([0xf0_u8]), give, topic.clone()).conf(bench.conf("writer")).run().await?;
    let read = bench.read("reader", &topic, 1).await?;
    assert_eq!((read[0].key.as_deref(), &read[0].value[..]), (Some(&[0xf0][..]), &[0xf0, 0xff][..]));
    Ok(())
}

/// B-28: a record larger than what is fetched at once is read all the same.
pub async fn b28_a_record_larger_than_the_fetch_size_is_read(bench: Bench) -> Result<()> {
    let large = vec![b'x'; 900_000];
    bench.write("fetched", 1, vec![text("k", "a"), record(Some(b"k"), Some(&large)), text("k", "b")]).await?;
    let seen: Seen<Raw> = Seen::default();
    let conf = bench.conf("reader").with("fetch.message.max.bytes", "1000");
    let run = Running::start(App::new().handle(bench.raw("fetched", 1), seen.keep(), ()), conf);
    run.until(|| seen.len() == 3).await;
    run.stop().await?;
    let lengths: Vec<_> = seen.take().iter().map(|raw| raw.value.as_ref().map(Bytes::len)).collect();
    assert_eq!(lengths, [Some(1), Some(900_000), Some(1)]);
    Ok(())
}
