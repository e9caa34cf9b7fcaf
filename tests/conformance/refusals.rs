//! What is refused: records that are too large, topics that are not there, settings that cannot be right.

use slipstream::prelude::*;
use slipstream::topic::Memory;
use slipstream::{Error, Kind};

use super::bench::{Bench, Raw, RawTopic, Running, Seen, record, text};

/// B-28: a typed error at once, and the next record goes through.
pub async fn b28_an_oversized_record_is_refused_and_the_next_one_goes_through(bench: Bench) -> Result<()> {
    bench.write("large", 1, vec![text("k", "first")]).await?;
    let topic: RawTopic = bench.alone("large");
    let error = topic.send(Some(Bytes::from(vec![b'x'; bench.too_large_bytes()]))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge, "{error:?}");
    assert!(error.to_string().contains(&bench.name("large")), "{error}");
    assert_eq!(topic.send(Some(Bytes::from_static(b"next"))).await?.offset, 1);
    topic.close().await?;

    // From a handler: the run ends, says why, and the input is not committed.
    bench.write("source", 1, vec![text("k", "v")]).await?;
    let bytes = bench.too_large_bytes();
    let grow = move |_: String| One(vec![b'x'; bytes]);
    let app =
        App::new().handle(bench.topic::<String, String>("source", 1), grow, bench.topic::<Vec<u8>, String>("large", 1));
    let error = app.conf(bench.conf("grower")).run().await.unwrap_err();
    assert_eq!(kinds(&error).last(), Some(&Kind::TooLarge), "{error:?}");
    let again = bench.read("grower", &bench.topic::<String, String>("source", 1), 1).await?;
    assert_eq!((again[0].offset, bench.contents("large", 1, 2).await?.len()), (0, 2));
    Ok(())
}

/// The kinds of an error and of its causes.
fn kinds(error: &Error) -> Vec<Kind> {
    let mut found = vec![error.kind()];
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        found.extend(next.downcast_ref::<Error>().map(Error::kind));
        cause = next.source();
    }
    found
}

pub async fn admin_creates_describes_and_deletes(bench: Bench) -> Result<()> {
    let topic: RawTopic = bench.alone("managed");
    let admin = topic.admin()?;
    assert_eq!(admin.describe().await?, None);
    if bench.can_create() {
        admin.create(3).await?;
    } else {
        assert_eq!(admin.create(3).await.unwrap_err().kind(), Kind::Unsupported);
        bench.create("managed", 3);
    }
    let ends = || async { Ok::<_, Error>(admin.describe().await?.map(|found| found.partitions)) };
    assert_eq!(ends().await?, Some(vec![(0, 0); 3]));
    if bench.can_create() {
        assert_eq!(admin.create(3).await.unwrap_err().kind(), Kind::Broker);
    }
    let receipt = topic.send((Bytes::from_static(b"a"), Some(Bytes::new()))).await?;
    let mut expected = vec![(0, 0); 3];
    expected[usize::try_from(receipt.partition).unwrap()] = (0, 1);
    assert_eq!(ends().await?, Some(expected));
    if bench.is_booblik() {
        let error = admin.delete().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains(&bench.name("managed")), "{error}");
        return topic.close().await;
    }
    admin.delete().await?;
    while admin.describe().await?.is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(admin.delete().await.unwrap_err().kind(), Kind::UnknownTopic);
    assert_eq!(bench.plain(format!("{admin:?}")), r#"Admin { topic: "managed", .. }"#);
    topic.close().await
}

/// TP-14: neither as a sink nor by `send`; reading is not affected.
pub async fn a_dry_topic_writes_nothing(bench: Bench) -> Result<()> {
    bench.write("dry", 1, vec![text("k", "wet")]).await?;
    let topic = || bench.topic::<String, String>("dry", 1).dry();
    App::new().handle(stream::iter(["no"]), str::to_owned, topic()).conf(bench.conf("writer")).run().await?;
    let alone: Topic<String> = bench.alone::<String, String>("dry").dry();
    assert_eq!(alone.send("neither".to_owned()).await?.offset, -1);
    alone.close().await?;
    assert_eq!(bench.ends("dry").await?, Some(vec![(0, 1)]));
    assert_eq!(bench.read("reader", &topic(), 1).await?[0].value, "wet");
    Ok(())
}

/// TP-1, TP-2: declaring and cloning do nothing; what is wrong is said when an app opens it.
pub async fn a_wrong_setting_ends_the_run_at_its_start_and_names_the_key(bench: Bench) -> Result<()> {
    let topic = || bench.raw("configured", 1);
    let run = |conf: Conf| App::new().handle(topic(), |_: Raw| (), ()).conf(conf).run();
    let wrong = [
        ("commit.intervall", "1s", "commit.interval"),
        ("auto.offset.reset", "sometimes", "auto.offset.reset"),
        ("enable.auto.commit", "true", "enable.auto.commit"),
        ("acks", "1", "acks"),
    ];
    for (key, value, named) in wrong {
        let error = run(bench.conf("reader").with(key, value)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Config, "{error:?}");
        assert!(error.report().contains(named), "{error:?}");
    }
    // What the framework owns may be said with the same value.
    let same = bench.conf("reader").with("enable.auto.commit", "false").with("acks", "all");
    let running = Running::start(App::new().handle(topic(), |_: Raw| (), ()), same);
    running.assigned(1).await;
    running.stop().await
}

pub async fn a_secret_in_a_wrong_configuration_is_not_printed(bench: Bench) -> Result<()> {
    const SECRET: &str = "hunter2-secret";
    let topic = || bench.raw("secret", 1);
    for (key, value) in [("sasl.passwd", SECRET), ("sasl.password", SECRET), ("ssl.key.pem", SECRET)] {
        let conf = bench.conf("reader").with(key, value).with("security.protocol", "sasl_ssl").with("acks", "1");
        assert!(!format!("{conf:?}").contains(SECRET));
        let error = App::new().handle(topic(), |_: Raw| (), ()).conf(conf).run().await.unwrap_err();
        assert!(matches!(error.kind(), Kind::Config | Kind::Unsupported), "{error:?}");
        assert!(!format!("{error:?} {error} {}", error.report()).contains(SECRET), "{error:?}");
    }
    Ok(())
}

/// `[topic.<declared name>]` decides about everything, the name on the broker included.
pub async fn the_file_overrides_what_a_topic_declares(bench: Bench) -> Result<()> {
    bench.write("renamed", 2, vec![text("k", "v")]).await?;
    let file = bench.state_dir("slipstream.toml");
    let section = format!("[topic.declared]\nname = \"{}\"\nauto_offset_reset = \"earliest\"\n", bench.name("renamed"));
    std::fs::write(&file, section)?;
    let topic: RawTopic = Topic::new("declared").conf(&[("auto.offset.reset", "latest")]);
    let seen: Seen<Raw> = Seen::default();
    let run = Running::start(App::new().handle(topic, seen.keep(), ()), bench.conf("reader").file(file));
    run.until(|| seen.len() == 1).await;
    run.assigned(2).await;
    run.stop().await?;
    assert_eq!(bench.plain(&seen.take()[0].topic), "renamed");
    Ok(())
}

pub async fn one_declaration_on_two_brokers_is_refused_and_both_are_named(bench: Bench) -> Result<()> {
    bench.write("twice", 1, Vec::new()).await?;
    let topic = bench.raw("twice", 1);
    let app = || App::new().handle(topic.clone(), |_: Raw| (), ());
    let run = Running::start(app(), bench.conf("first"));
    run.assigned(1).await;
    let other = Memory::named(&bench.name("elsewhere"));
    let elsewhere = format!("memory:{}", other.name().unwrap_or_default());
    let error = app().conf(bench.conf("second").with("broker", elsewhere.clone())).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::AlreadyOpen);
    for named in [elsewhere, bench.url(), bench.name("first"), bench.name("second"), bench.name("twice")] {
        assert!(error.to_string().contains(&named), "{error} does not name {named}");
    }
    run.stop().await?;
    // The slot opens again once the first one has ended.
    let run = Running::start(app(), bench.conf("second").with("broker", format!("memory:{}", bench.name("elsewhere"))));
    run.assigned(1).await;
    run.stop().await
}

/// B-30: a missing topic is waited for, visibly; here the backends differ by design: some create it.
pub async fn b30_a_missing_topic_is_awaited_and_then_read_from_its_beginning(bench: Bench) -> Result<()> {
    use slipstream::topic::Start;
    let topic: RawTopic = Topic::named(bench.name("later"));
    let seen: Seen<Raw> = Seen::default();
    let run = Running::start(App::new().handle(topic.start(Start::Latest), seen.keep(), ()), bench.conf("reader"));
    let alone: RawTopic = bench.alone("later");
    if bench.is_kafka() || !bench.can_create() {
        run.until(|| run.notice().is_some()).await;
        let notice = run.notice().unwrap_or_default();
        assert!(notice.contains(&bench.name("later")), "{notice}");
        assert!(!run.handle.health().ok);
        assert_eq!(alone.admin()?.describe().await?, None, "nobody created it");
        if bench.is_kafka() {
            alone.admin()?.create(4).await?;
        } else {
            bench.create("later", 4);
        }
    } else {
        run.assigned(4).await;
    }
    // Written as soon as it exists, before the reader may have noticed: not skipped, although `start` is latest.
    alone.send(Some(Bytes::from_static(b"first"))).await?;
    run.until(|| seen.len() == 1).await;
    run.assigned(4).await;
    run.until(|| run.handle.health().ok).await;
    run.stop().await?;
    alone.close().await?;
    assert_eq!(seen.take()[0].value.as_deref(), Some(&b"first"[..]));
    Ok(())
}

/// TP-3, TP-6: an error of writing names the topic.
pub async fn a_value_that_cannot_be_encoded_names_the_topic(bench: Bench) -> Result<()> {
    bench.write("floats", 1, vec![record(None, None)]).await?;
    let topic: Topic<f64> = bench.alone("floats");
    let error = topic.send(f64::NAN).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Encode);
    assert_eq!(bench.plain(&error), "topic floats: the value cannot be encoded");
    topic.close().await
}
