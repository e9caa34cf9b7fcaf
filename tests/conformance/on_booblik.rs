//! What only a log in booblik's format can be asked: it lies on disk under a lock, keeps no positions, carries records
//! of others, and may be served to the network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipstream::booblik::broker::{Acks, Broker, BrokerOptions, ServerOptions, TopicOptions};
use slipstream::booblik::log::OnDamage;
use slipstream::booblik::wire::crc32c;
use slipstream::prelude::*;
use slipstream::topic::OutOfRange;
use slipstream::{Kind, Timestamp};

use super::bench::{Backend, Bench, Raw, RawTopic, Running, Seen, text};

/// Tells the test binary that it is the second process, and which log it is to open.
const SECOND_PROCESS: &str = "CONFORMANCE_SECOND_PROCESS";

fn numbered(from: i64, count: i64) -> Vec<Raw> {
    (from..from + count).map(|n| text("k", &n.to_string())).collect()
}

/// The directory of the log.
fn directory(bench: &Bench) -> PathBuf {
    match &bench.backend {
        Backend::Embedded(directory) => directory.path().to_owned(),
        _ => panic!("for logs in the process only"),
    }
}

/// The log, for as long as no app has it open under other options.
async fn open(bench: &Bench, options: BrokerOptions) -> Result<Broker> {
    Broker::open(directory(bench), options).await
}

fn positions_file(bench: &Bench, app: &str) -> PathBuf {
    let folder = bench.state_dir(app).join(bench.name(app));
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|kind| kind == "positions")).last().unwrap()
}

async fn run_to_error(bench: &Bench, app: &str, topic: RawTopic) -> slipstream::Error {
    App::new().handle(topic, |_: Raw| (), ()).conf(bench.conf(app)).run().await.unwrap_err()
}

#[tokio::test]
async fn a_restart_keeps_records_and_positions_with_the_checksum_of_the_last_record() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("kept", 1, numbered(0, 3)).await?;
    assert_eq!(bench.read("reader", &bench.raw("kept", 1), 3).await?.len(), 3);
    let lines = std::fs::read_to_string(positions_file(&bench, "reader"))?;
    let broker = open(&bench, BrokerOptions::default()).await?;
    let last = broker.partition(&bench.name("kept"), 0)?.read(2, 1)?.records().next().map(|record| record.crc);
    let above = format!("slipstream positions 4\n{}\t0\t3\t{:08x}\n", bench.name("kept"), last.unwrap());
    assert_eq!(lines, format!("{above}checksum\t{:08x}\n", crc32c(above.as_bytes())));
    broker.close().await?;
    bench.write("kept", 1, numbered(3, 1)).await?;
    let read: Vec<Raw> = bench.read("reader", &bench.raw("kept", 1), 1).await?;
    assert_eq!(read.iter().map(|raw| raw.offset).collect::<Vec<_>>(), [3]);
    Ok(())
}

/// As after a restore from somewhere else: same place, as many records, not the same ones.
#[tokio::test]
async fn a_log_that_was_replaced_ends_the_run() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("replaced", 1, numbered(0, 5)).await?;
    assert_eq!(bench.read("reader", &bench.raw("replaced", 1), 5).await?.len(), 5);
    std::fs::remove_dir_all(directory(&bench).join(format!("{}-0", bench.name("replaced"))))?;
    bench.write("replaced", 1, numbered(100, 6)).await?;
    let topic = bench.raw("replaced", 1).out_of_range(OutOfRange::Earliest);
    let error = run_to_error(&bench, "reader", topic).await;
    assert_eq!(error.kind(), Kind::OutOfRange, "{error:?}");
    assert!(error.to_string().contains("the log was replaced"), "{error}");
    assert!(error.to_string().contains(&bench.name("replaced")), "{error}");
    Ok(())
}

/// The same over the network, where the name that positions are kept under is the address, or what the URL says.
#[tokio::test]
async fn a_broker_whose_log_was_replaced_ends_the_run() -> Result<()> {
    let (one, two) = (Bench::booblik().await, Bench::booblik().await);
    for (bench, from) in [(&one, 0), (&two, 100)] {
        bench.write("moved", 1, numbered(from, 5)).await?;
    }
    let name = |bench: &Bench| bench.name("moved");
    let read = |bench: &Bench| {
        let topic: RawTopic = Topic::named("moved").conf(vec![("name", &*name(bench).leak())].leak());
        let conf = one.conf("reader").with("broker", format!("{}?id=orders", bench.url()));
        App::new().handle(topic, |_: Raw| (), ()).conf(conf)
    };
    let run = Running::start(read(&one), one.conf("reader").with("broker", format!("{}?id=orders", one.url())));
    run.committed(5).await;
    run.stop().await?;
    // The second one has the topic under another name: what tells positions apart is the broker and the topic.
    let kept = std::fs::read_to_string(positions_file(&one, "reader"))?;
    let (lines, _) = kept.split_once("checksum").unwrap();
    let lines = lines.replace(&name(&one), &name(&two));
    std::fs::write(positions_file(&one, "reader"), format!("{lines}checksum\t{:08x}\n", crc32c(lines.as_bytes())))?;
    let error = read(&two).run().await.unwrap_err();
    assert!(error.to_string().contains("the log was replaced"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_record_that_retention_removed_is_no_mismatch() -> Result<()> {
    let bench = Bench::embedded();
    // A segment for each record.
    let small = TopicOptions { segment_bytes: 120, ..TopicOptions::default() };
    let keep_one = TopicOptions { retention_bytes: Some(1), ..small.clone() };
    let payload = |n: u8| vec![n; 100];
    let broker = open(&bench, BrokerOptions { default: small, ..BrokerOptions::default() }).await?;
    broker.ensure_topic(&bench.name("short"), 1).await?;
    let log = broker.partition(&bench.name("short"), 0)?;
    log.append([payload(0), payload(1)], Acks::Written).await.map_err(slipstream::Error::from)?;
    broker.close().await?;
    let topic = || bench.raw("short", 1);
    assert_eq!(bench.read("reader", &topic(), 2).await?.len(), 2);

    let options =
        BrokerOptions { default: keep_one, retention_check: Duration::from_millis(20), ..BrokerOptions::default() };
    let broker = open(&bench, options).await?;
    let log = broker.partition(&bench.name("short"), 0)?;
    log.append([payload(2)], Acks::Written).await.map_err(slipstream::Error::from)?;
    slipstream::testing::until(|| log.log_start() == 2).await;
    broker.close().await?;
    let read: Vec<Raw> = bench.read("reader", &topic(), 1).await?;
    assert_eq!(read.iter().map(|raw| raw.offset).collect::<Vec<_>>(), [2]);
    Ok(())
}

/// Positions below what retention left follow the policy, and so do those beyond the end.
#[tokio::test]
async fn a_position_outside_the_log_follows_the_policy() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("outside", 1, numbered(0, 5)).await?;
    for app in ["stop", "earliest", "latest"] {
        bench.read(app, &bench.raw("outside", 1), 5).await?;
    }
    std::fs::remove_dir_all(directory(&bench).join(format!("{}-0", bench.name("outside"))))?;
    bench.write("outside", 1, numbered(0, 2)).await?;
    let topic = |policy| bench.raw("outside", 1).out_of_range(policy);
    let error = run_to_error(&bench, "stop", topic(OutOfRange::Stop)).await;
    assert_eq!(error.kind(), Kind::OutOfRange);
    assert!(error.to_string().contains("3 beyond the end"), "{error}");
    assert_eq!(bench.read("earliest", &topic(OutOfRange::Earliest), 2).await?.len(), 2);
    let run = Running::start(App::new().handle(topic(OutOfRange::Latest), |_: Raw| (), ()), bench.conf("latest"));
    run.committed(2).await;
    run.stop().await
}

/// Run by the test below, in a process of its own.
#[tokio::test]
async fn second_process() -> Result<()> {
    let Some(directory) = std::env::var_os(SECOND_PROCESS) else { return Ok(()) };
    let state = tempfile::tempdir()?;
    let conf = Conf::isolated()
        .with("broker", format!("embedded:{}", Path::new(&directory).display()))
        .with("app.id", "second")
        .with("state.dir", state.path().display().to_string());
    let topic: RawTopic = Topic::new("any");
    App::new().handle(topic, |_: Raw| (), ()).conf(conf).run().await
}

#[tokio::test]
async fn a_second_process_is_told_who_has_the_log_and_what_to_do() -> Result<()> {
    let bench = Bench::embedded();
    let run = Running::start(App::new().handle(bench.raw("owned", 1), |_: Raw| (), ()), bench.conf("first"));
    run.assigned(1).await;
    let mut second = std::process::Command::new(std::env::current_exe()?);
    second.args(["--exact", "on_booblik::second_process", "--nocapture"]).env(SECOND_PROCESS, directory(&bench));
    let output = tokio::task::spawn_blocking(move || second.output()).await.unwrap()?;
    run.stop().await?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{said}");
    let id = std::fs::read_to_string(directory(&bench).join("booblik.id"))?;
    let way_out = format!("booblik://host:port?id={}", id.trim());
    for part in [format!("process {}", std::process::id()), way_out, "encoding = envelope".to_owned()] {
        assert!(said.contains(&part), "{said} does not say {part}");
    }
    Ok(())
}

#[tokio::test]
async fn a_second_run_of_the_same_app_is_refused() -> Result<()> {
    let bench = Bench::embedded();
    let run = Running::start(App::new().handle(bench.raw("one", 1), |_: Raw| (), ()), bench.conf("app"));
    run.assigned(1).await;
    let error = run_to_error(&bench, "app", bench.raw("one", 1)).await;
    assert_eq!(error.kind(), Kind::Locked, "{error:?}");
    assert!(error.to_string().contains("app.id"), "{error}");
    run.stop().await
}

#[tokio::test]
async fn a_shared_group_is_refused() -> Result<()> {
    for bench in [Bench::embedded(), Bench::booblik().await] {
        let conf = bench.conf("app").with("group.id", "shared");
        let error = App::new().handle(bench.raw("grouped", 1), |_: Raw| (), ()).conf(conf).run().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("group.id"), "{error}");
    }
    Ok(())
}

/// Records that another program wrote are values; one that only begins like an envelope is, too.
#[tokio::test]
async fn records_of_others_are_values() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("mixed", 1, vec![text("key", "ours").with_timestamp(5)]).await?;
    let broker = open(&bench, BrokerOptions::default()).await?;
    let foreign: [&[u8]; 2] = [b"theirs", b"\xF5be\x01\x02\0\0\0\0\0\0\0\x05\0\0\0\0alike"];
    let log = broker.partition(&bench.name("mixed"), 0)?;
    log.append(foreign, Acks::Written).await.map_err(slipstream::Error::from)?;
    let ours = log.read(0, 1)?.records().next().unwrap().payload;
    assert_eq!(&ours[..3], b"\xF5be");
    drop(log);
    broker.close().await?;
    let read = bench.contents("mixed", 1, 3).await?;
    let keys: Vec<_> = read.iter().map(|raw| raw.key.as_deref()).collect();
    assert_eq!(keys, [Some(&b"key"[..]), None, None]);
    let values: Vec<_> = read.iter().filter_map(|raw| raw.value.as_deref()).collect();
    assert_eq!(values, [b"ours", foreign[0], foreign[1]]);
    let times: Vec<_> = read.iter().map(|raw| raw.timestamp).collect();
    assert_eq!(times, [Timestamp::Created(5), Timestamp::None, Timestamp::None]);
    Ok(())
}

/// `plain`: what other programs read is the value alone, and the key has chosen the partition.
#[tokio::test]
async fn a_plain_topic_holds_values_alone() -> Result<()> {
    let bench = Bench::booblik().await;
    bench.create("plain", 3);
    let conf = vec![("broker", &*bench.url().leak())].leak();
    let topic: RawTopic = Topic::named(bench.name("plain")).conf(conf);
    let receipt = topic.send((Bytes::from_static(b"user-1"), Some(Bytes::from_static(b"in")))).await?;
    assert_eq!(receipt.partition, 1, "as the golden vectors of the protocol have it");
    let error = topic.send(None::<Bytes>).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Encode, "a null has no bytes: {error:?}");
    assert!(error.to_string().contains("envelope"), "{error}");
    topic.close().await?;
    let Backend::Booblik(served) = &bench.backend else { panic!("made above") };
    let stored = served.broker.partition(&bench.name("plain"), 1)?.read(0, 1024)?.records().next().unwrap();
    assert_eq!(&stored.payload[..], b"in");
    let read = bench.contents("plain", 3, 1).await?;
    assert_eq!((read[0].key.clone(), read[0].value.as_deref()), (None, Some(&b"in"[..])));
    Ok(())
}

#[tokio::test]
async fn forced_records_are_on_stable_storage_when_they_are_acknowledged() -> Result<()> {
    let bench = Bench::embedded();
    let broker = open(&bench, BrokerOptions::default()).await?;
    for (durability, synced) in [("written", 0), ("forced", 2)] {
        let conf = vec![("broker", &*bench.url().leak()), ("durability", durability), ("partitions", "1")].leak();
        let topic: RawTopic = Topic::named(bench.name("forced")).conf(conf);
        topic.send(Some(Bytes::from_static(b"v"))).await?;
        assert_eq!(broker.partition(&bench.name("forced"), 0)?.synced(), synced, "{durability}");
        topic.close().await?;
    }
    Ok(())
}

/// Durable before committed: what a position says is on stable storage before the position is.
#[tokio::test]
async fn a_position_is_stored_after_what_it_stands_for() -> Result<()> {
    let bench = Bench::embedded();
    let broker = open(&bench, BrokerOptions::default()).await?;
    bench.write("in", 1, numbered(0, 10)).await?;
    let app = App::new().handle(bench.raw("in", 1), |raw: Raw| One((raw.key, raw.value)), bench.raw("out", 1));
    let run = Running::start(app, bench.conf("app"));
    run.committed(10).await;
    for part in ["in", "out"] {
        assert_eq!(broker.partition(&bench.name(part), 0)?.synced(), 10, "{part}");
    }
    run.stop().await
}

#[tokio::test]
async fn topics_live_in_the_state_directory_when_nothing_says_where() -> Result<()> {
    let state = tempfile::tempdir()?;
    let conf = || Conf::isolated().with("app.id", "app").with("state.dir", state.path().display().to_string());
    let topic = || Topic::<u32>::new("numbers");
    App::new().handle(stream::iter([1, 2, 3]), |n: u32| n, topic()).conf(conf()).run().await?;
    let seen: Seen<u32> = Seen::default();
    let run = Running::start(App::new().handle(topic(), seen.keep(), ()), conf());
    run.until(|| seen.len() == 3).await;
    run.stop().await?;
    assert!(state.path().join("_broker/numbers-3").is_dir(), "four partitions");
    Ok(())
}

/// An outage is back-pressure: what was written arrives when the broker is back, in order, and `health` says so.
#[tokio::test]
async fn a_broker_that_goes_away_is_waited_for() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let broker = Broker::open(directory.path(), BrokerOptions::default()).await?;
    broker.ensure_topic("in", 1).await?;
    broker.ensure_topic("out", 1).await?;
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
    let address = server.local_addr().to_string();
    let state = tempfile::tempdir()?;
    let conf = Conf::isolated()
        .with("broker", format!("booblik://{address}"))
        .with("app.id", "app")
        .with("commit.interval", "20ms")
        .with("state.dir", state.path().display().to_string());
    let app = App::new().handle(Topic::<u32>::new("in"), |n: u32| n, Topic::<u32>::new("out"));
    let run = Running::start(app, conf);
    run.assigned(1).await;
    server.shutdown().await;
    let numbers: Vec<String> = (0..100).map(|n: u32| n.to_string()).collect();
    broker.partition("in", 0)?.append(&numbers, Acks::Written).await.map_err(slipstream::Error::from)?;
    run.until(|| !run.handle.health().ok).await;
    let server = broker.listen(&address, ServerOptions::default()).await?;
    run.committed(100).await;
    run.until(|| run.handle.health().ok).await;
    let read: Vec<String> = broker
        .partition("out", 0)?
        .read(0, 1 << 20)?
        .records()
        .map(|record| String::from_utf8_lossy(&record.payload).into_owned())
        .collect();
    assert_eq!(read, numbers);
    run.stop().await?;
    server.shutdown().await;
    Ok(())
}

/// The log can never be opened: what waits to be written fails at once, whatever time the end of a run has.
#[tokio::test]
async fn an_app_that_only_writes_ends_at_once_when_its_log_cannot_be_opened() -> Result<()> {
    let place = tempfile::NamedTempFile::new()?;
    let bench = Bench::embedded();
    let conf = bench.conf("writer").with("broker", format!("embedded:{}", place.path().display()));
    let run = App::new().handle(stream::iter([1, 2]), |n: u32| n, Topic::<u32>::new("numbers")).conf(conf).run();
    let ended = tokio::time::timeout(Duration::from_mins(1), run.drain_timeout(Duration::from_hours(1))).await;
    let error = ended.expect("the run waits for a log that it cannot have").unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error:?}");
    assert!(error.to_string().contains(&place.path().display().to_string()), "{error:?}");
    Ok(())
}

/// A log of ten records in two segments, of which 2 to 4 are lost, served by a broker that was told to live with it.
async fn with_a_hole(directory: &Path) -> Result<Broker> {
    let small = TopicOptions { segment_bytes: 60, on_damage: OnDamage::Serve, ..TopicOptions::default() };
    let options = BrokerOptions { default: small, ..BrokerOptions::default() };
    let broker = Broker::open(directory, options.clone()).await?;
    broker.ensure_topic("holed", 1).await?;
    let log = broker.partition("holed", 0)?;
    for n in 0..10_u8 {
        log.append([[n; 4]], Acks::Written).await.map_err(slipstream::Error::from)?;
    }
    drop(log);
    broker.close().await?;
    let first = directory.join("holed-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&first)?;
    assert_eq!(bytes.len(), 60, "five records of twelve bytes");
    bytes[2 * 12 + 9] ^= 1;
    std::fs::write(first, bytes)?;
    Broker::open(directory, options).await
}

/// The policy is about the records that are lost: none of those that are there is left out or comes again.
#[tokio::test]
async fn a_hole_in_the_log_follows_the_policy() -> Result<()> {
    let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let broker = with_a_hole(directory.path()).await?;
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
    let conf = |app: &str| {
        Conf::isolated()
            .with("broker", format!("booblik://{}", server.local_addr()))
            .with("app.id", app)
            .with("state.dir", state.path().display().to_string())
    };
    for (app, policy) in [("earliest", OutOfRange::Earliest), ("latest", OutOfRange::Latest)] {
        let seen: Seen<Raw> = Seen::default();
        let topic: RawTopic = Topic::new("holed").out_of_range(policy);
        let run = Running::start(App::new().handle(topic, seen.keep(), ()), conf(app));
        run.until(|| seen.len() == 7).await;
        run.stop().await?;
        assert_eq!(seen.offsets(), [0, 1, 5, 6, 7, 8, 9], "{app}");
    }
    let app = App::new().handle(RawTopic::new("holed"), |_: Raw| (), ());
    let error = app.conf(conf("stop")).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::OutOfRange, "{error:?}");
    assert!(error.to_string().contains("records 2 to 4 are lost"), "{error}");
    server.shutdown().await;
    broker.close().await
}

/// Who is told to share the log by a broker finds records and positions as they were.
#[tokio::test]
async fn a_log_that_is_served_later_keeps_its_positions_and_its_keys() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("shared", 1, numbered(0, 3)).await?;
    assert_eq!(bench.read("reader", &bench.raw("shared", 1), 3).await?.len(), 3);
    let id = std::fs::read_to_string(directory(&bench).join("booblik.id"))?;
    let broker = open(&bench, BrokerOptions::default()).await?;
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
    let url = format!("booblik://{}?id={}", server.local_addr(), id.trim());
    let conf = |app: &str| bench.conf(app).with("broker", url.as_str());
    let topic = || RawTopic::named(bench.name("shared"));
    App::new().handle(stream::iter(numbered(3, 1)), |raw: Raw| One(raw), topic()).conf(conf("writer")).run().await?;
    let seen: Seen<Raw> = Seen::default();
    let run = Running::start(App::new().handle(topic(), seen.keep(), ()), conf("reader"));
    run.until(|| seen.len() > 0).await;
    run.stop().await?;
    let read: Vec<_> = seen.take().into_iter().map(|raw| (raw.offset, raw.key)).collect();
    assert_eq!(read, [(3, Some(Bytes::from_static(b"k")))]);
    server.shutdown().await;
    broker.close().await
}

#[tokio::test]
async fn a_log_that_has_lost_its_identity_is_not_read_anew() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("lost", 1, numbered(0, 3)).await?;
    assert_eq!(bench.read("reader", &bench.raw("lost", 1), 3).await?.len(), 3);
    let file = directory(&bench).join("booblik.id");
    let id = std::fs::read(&file)?;
    std::fs::remove_file(&file)?;
    let error = run_to_error(&bench, "reader", bench.raw("lost", 1)).await;
    assert_eq!(error.kind(), Kind::Corrupt, "{error:?}");
    assert!(error.to_string().contains("booblik.id"), "{error}");
    std::fs::write(&file, id)?;
    bench.write("lost", 1, numbered(3, 1)).await?;
    assert_eq!(bench.read("reader", &bench.raw("lost", 1), 1).await?[0].offset, 3);
    Ok(())
}

/// What the error says to do is enough.
#[tokio::test]
async fn a_topic_is_deleted_by_what_the_error_says() -> Result<()> {
    let bench = Bench::embedded();
    bench.write("kept", 1, numbered(0, 1)).await?;
    bench.write("gone", 2, numbered(0, 4)).await?;
    let gone: RawTopic = bench.alone("gone");
    let error = gone.admin()?.delete().await.unwrap_err().to_string();
    gone.close().await?;
    drop(gone);
    for part in ["booblik.topics", &format!("{}-<partition>", bench.name("gone"))] {
        assert!(error.contains(part), "{error} does not say {part}");
    }
    let file = directory(&bench).join("booblik.topics");
    let is_other = |line: &&str| !line.starts_with(&bench.name("gone"));
    let lines: Vec<String> = std::fs::read_to_string(&file)?.lines().filter(is_other).map(str::to_owned).collect();
    std::fs::write(&file, lines.join("\n") + "\n")?;
    for number in 0..2 {
        std::fs::remove_dir_all(directory(&bench).join(format!("{}-{number}", bench.name("gone"))))?;
    }
    assert_eq!(bench.ends("gone").await?, None);
    assert_eq!(bench.ends("kept").await?, Some(vec![(0, 1)]));
    Ok(())
}
