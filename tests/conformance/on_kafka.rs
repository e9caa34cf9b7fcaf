//! What only a real Kafka can be asked: its logs lose records, its topics grow, it does not create topics by itself.
//!
//! `memory:` keeps what a group has not committed past and cannot add partitions, so that there is nothing to ask it;
//! its own unit tests cover a position outside the log.

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use slipstream::Kind;
use slipstream::prelude::*;
use slipstream::topic::{OutOfRange, Start};

use super::bench::{Backend, Bench, Raw, RawTopic, Running, Seen, text};

pub fn admin(bench: &Bench) -> AdminClient<DefaultClientContext> {
    let Backend::Kafka(servers) = &bench.backend else { panic!("for Kafka only") };
    ClientConfig::new().set("bootstrap.servers", servers).create().unwrap()
}

pub async fn delete_before(bench: &Bench, part: &str, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&bench.name(part), 0, Offset::Offset(offset)).unwrap();
    admin(bench).delete_records(&list, &AdminOptions::new()).await.unwrap();
}

fn numbered(from: i64, count: i64) -> Vec<Raw> {
    (from..from + count).map(|n| text("k", &n.to_string())).collect()
}

/// B-15, the part of the explicit policy.
#[tokio::test]
async fn b15_a_position_that_was_deleted_follows_the_policy() -> Result<()> {
    let Some(bench) = Bench::kafka() else { return Ok(()) };
    bench.write("gone", 1, numbered(0, 5)).await?;
    let topic = || bench.topic::<u32, String>("gone", 1);
    for app in ["stop", "earliest", "latest"] {
        bench.read(app, &topic(), 5).await?;
    }
    bench.write("gone", 1, numbered(5, 5)).await?;
    delete_before(&bench, "gone", 8).await;
    let stop = App::new().handle(topic(), |_: u32| (), ()).conf(bench.conf("stop")).run().await.unwrap_err();
    assert_eq!(stop.kind(), Kind::OutOfRange);
    assert!(stop.to_string().contains('3') && stop.to_string().contains(&bench.name("gone")), "{stop}");
    let read = bench.read("earliest", &topic().out_of_range(OutOfRange::Earliest), 2).await?;
    assert_eq!(read.iter().map(|message| message.offset).collect::<Vec<_>>(), [8, 9]);
    let seen: Seen<Message<u32>> = Seen::default();
    let app = App::new().handle(topic().out_of_range(OutOfRange::Latest), seen.keep(), ());
    let run = Running::start(app, bench.conf("latest"));
    run.committed(10).await;
    bench.write("gone", 1, numbered(10, 1)).await?;
    run.until(|| seen.len() == 1).await;
    run.stop().await?;
    assert_eq!(seen.take()[0].offset, 10);
    Ok(())
}

/// B-30: 4 partitions become 8 while the app runs; the new ones are read from their beginning.
#[tokio::test]
async fn b30_partitions_that_are_added_are_read_from_their_beginning() -> Result<()> {
    let Some(bench) = Bench::kafka() else { return Ok(()) };
    bench.write("grows", 4, Vec::new()).await?;
    let seen: Seen<Raw> = Seen::default();
    let app = App::new().handle(bench.raw("grows", 4).start(Start::Latest), seen.keep(), ());
    let run = Running::start(app, bench.conf("reader"));
    run.assigned(4).await;
    let name = bench.name("grows");
    let grown = admin(&bench).create_partitions([&NewPartitions::new(&name, 8)], &AdminOptions::new()).await;
    assert!(grown.unwrap().iter().all(Result::is_ok));
    // By a writer that sees all eight, before the reader has noticed perhaps.
    while bench.ends("grows").await?.map(|ends| ends.len()) != Some(8) {}
    bench.write("grows", 8, (0..64).map(|n| text(&format!("key-{n}"), "v")).collect()).await?;
    run.until(|| seen.len() == 64).await;
    run.assigned(8).await;
    run.committed(64).await;
    run.stop().await?;
    let partitions: std::collections::BTreeSet<_> = seen.take().iter().map(|raw| raw.partition).collect();
    assert_eq!(partitions, (0..8).collect());
    Ok(())
}

/// B-30: `send` is told that nobody created the topic, and asking does not create it; a sink waits for it, visibly.
#[tokio::test]
async fn b30_an_unknown_topic_is_an_error_for_send_and_awaited_by_a_sink() -> Result<()> {
    let Some(bench) = Bench::kafka() else { return Ok(()) };
    let topic: RawTopic = bench.alone("nobody");
    let error = topic.send(Some(Bytes::new())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::UnknownTopic, "{error:?}");
    assert!(error.to_string().contains(&bench.name("nobody")), "{error}");
    assert_eq!(topic.admin()?.describe().await?, None);

    bench.write("asked", 1, vec![text("k", "v")]).await?;
    let sink: RawTopic = Topic::named(bench.name("nobody"));
    let app = App::new().handle(bench.raw("asked", 1), |raw: Raw| One((raw.key, raw.value)), sink);
    let run = Running::start(app, bench.conf("waiter"));
    let told = |health: &slipstream::app::Health| format!("{health:?}").contains(&bench.name("nobody"));
    run.until(|| told(&run.handle.health())).await;
    assert!(!run.handle.health().ok);
    assert_eq!(run.committed_now(), 0);
    topic.admin()?.create(1).await?;
    run.committed(1).await;
    run.until(|| run.handle.health().ok).await;
    run.stop().await?;
    topic.close().await?;
    assert_eq!(bench.contents("nobody", 1, 1).await?.len(), 1);
    Ok(())
}

/// A topic with a producer's setting of its own is read by the same member; two broadcast topics share their positions.
#[tokio::test]
async fn settings_for_writing_do_not_make_another_member() -> Result<()> {
    let Some(bench) = Bench::kafka() else { return Ok(()) };
    bench.write("plain", 1, numbered(0, 5)).await?;
    bench.write("slow", 1, numbered(0, 5)).await?;
    for broadcast in [false, true] {
        let declared = |part: &str, conf| {
            let topic = bench.raw(part, 1).conf(conf);
            if broadcast { topic.broadcast() } else { topic }
        };
        let app = if broadcast { "everyone" } else { "member" };
        for expected in [10, 0] {
            let seen: Seen<Raw> = Seen::default();
            let handlers = App::new().handle(declared("plain", &[]), seen.keep(), ()).handle(
                declared("slow", &[("linger.ms", "20")]),
                seen.keep(),
                (),
            );
            let run = Running::start(handlers, bench.conf(app).with("group.instance.id", bench.name(app)));
            run.until(|| seen.len() == expected).await;
            run.committed(10).await;
            run.stop().await?;
            assert_eq!(seen.len(), expected, "broadcast: {broadcast}");
        }
    }
    Ok(())
}

/// With a fixed place in its group an app has one consumer, so that settings for reading cannot differ.
#[tokio::test]
async fn a_static_member_with_two_ways_of_reading_is_refused() {
    let Some(bench) = Bench::kafka() else { return };
    let app = App::new()
        .handle(bench.raw("one", 1), |_: Raw| (), ())
        .handle(bench.raw("two", 1).conf(&[("fetch.min.bytes", "2")]), |_: Raw| (), ())
        .conf(bench.conf("static").with("group.instance.id", bench.name("static")));
    let error = app.run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error:?}");
    assert!(error.to_string().contains("group.instance.id"), "{error}");
}

/// A topic that the broker will never have: what waits to be written fails at once, whatever time the end of a run has.
#[tokio::test]
async fn an_app_that_only_writes_ends_at_once_when_its_topic_can_never_be() -> Result<()> {
    let Some(bench) = Bench::kafka() else { return Ok(()) };
    let topic: Topic<u32> = Topic::named("no name for a topic").partitions(1);
    let app = App::new().handle(stream::iter([1, 2]), |n: u32| n, topic);
    let run = app.conf(bench.conf("writer")).run().drain_timeout(std::time::Duration::from_hours(1));
    let ended = tokio::time::timeout(std::time::Duration::from_mins(1), run.into_future()).await;
    let error = ended.expect("the run waits for a topic that cannot be").unwrap_err();
    assert!(error.report().contains("no name for a topic"), "{error:?}");
    Ok(())
}
