//! A booblik broker that is stopped and started again, perhaps with other topics, while an app uses it.

use std::path::Path;
use std::time::{Duration, Instant};

use slipstream::booblik::broker::{Acks, Broker, BrokerOptions, Server, ServerOptions};
use slipstream::prelude::*;

use super::bench::{Running, Seen};

/// Far below what a request may take, which is how it would be noticed otherwise.
const SOON: Duration = Duration::from_secs(8);

async fn open(directory: &Path) -> Broker {
    Broker::open(directory, BrokerOptions::default()).await.unwrap()
}

async fn listen(broker: &Broker, address: &str) -> Server {
    broker.listen(address, ServerOptions::default()).await.unwrap()
}

fn conf(server: &Server, state: &Path) -> Conf {
    Conf::isolated()
        .with("broker", format!("booblik://{}", server.local_addr()))
        .with("app.id", "away")
        .with("state.dir", state.display().to_string())
}

#[tokio::test]
async fn readers_and_writers_say_within_seconds_that_the_broker_is_away_and_that_it_is_back() -> Result<()> {
    let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let broker = open(directory.path()).await;
    broker.ensure_topic("read", 1).await?;
    broker.ensure_topic("written", 1).await?;
    let server = listen(&broker, "127.0.0.1:0").await;
    let address = server.local_addr().to_string();
    let (read, written): (Topic<String>, Topic<String>) = (Topic::named("read"), Topic::named("written"));
    let app = App::new().handle(read, |_: String| (), ()).handle(
        every(Duration::from_millis(20)),
        || "tick".to_owned(),
        written,
    );
    let run = Running::start(app, conf(&server, state.path()));
    let written = broker.partition("written", 0)?;
    run.until(|| written.high_watermark() > 0 && run.handle.health().ok).await;

    server.shutdown().await;
    let since = Instant::now();
    let reader_says = || run.notice().is_some_and(|notice| notice.contains("cannot be reached"));
    let writer_says = || {
        let notices = run.handle.health().notices;
        notices.iter().any(|notice| notice.contains("topic written: cannot be written"))
    };
    run.until(|| reader_says() && writer_says()).await;
    assert!(since.elapsed() < SOON, "said after {:?}", since.elapsed());
    assert!(!run.handle.health().ok);

    let server = listen(&broker, &address).await;
    let before = written.high_watermark();
    run.until(|| run.handle.health().ok && written.high_watermark() > before).await;
    run.stop().await?;
    server.shutdown().await;
    broker.close().await
}

/// An app that starts before its broker.
#[tokio::test]
async fn a_broker_that_is_not_there_yet_is_said_and_used_as_soon_as_it_is() -> Result<()> {
    let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let broker = open(directory.path()).await;
    broker.ensure_topic("read", 1).await?;
    let server = listen(&broker, "127.0.0.1:0").await;
    let (address, conf) = (server.local_addr().to_string(), conf(&server, state.path()));
    server.shutdown().await;
    let seen: Seen<Bytes> = Seen::default();
    let (read, out): (Topic<Bytes>, Topic<Bytes>) = (Topic::named("read"), Topic::named("read"));
    let app = App::new().handle(read, seen.keep(), ()).handle(stream::iter([1]), |_: u8| Bytes::from("first"), out);
    let run = Running::start(app, conf);
    let since = Instant::now();
    run.until(|| run.notice().is_some() && !run.handle.health().notices.is_empty()).await;
    assert!(since.elapsed() < SOON, "said after {:?}", since.elapsed());

    let server = listen(&broker, &address).await;
    run.until(|| seen.len() == 1 && run.handle.health().ok).await;
    run.stop().await?;
    server.shutdown().await;
    broker.close().await
}

#[tokio::test]
async fn partitions_that_a_broker_comes_back_with_are_read_from_their_beginning() -> Result<()> {
    let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let broker = open(directory.path()).await;
    broker.ensure_topic("grows", 1).await?;
    broker.partition("grows", 0)?.append(["old"], Acks::Written).await?;
    let server = listen(&broker, "127.0.0.1:0").await;
    let address = server.local_addr().to_string();
    let seen: Seen<Message<Bytes>> = Seen::default();
    let topic: Topic<Bytes> = Topic::named("grows").start(slipstream::topic::Start::Latest);
    let run = Running::start(App::new().handle(topic, seen.keep(), ()), conf(&server, state.path()));
    run.assigned(1).await;
    server.shutdown().await;
    broker.close().await?;

    // As another configuration does it elsewhere.
    std::fs::write(directory.path().join("booblik.topics"), "grows 2\n")?;
    let broker = open(directory.path()).await;
    broker.partition("grows", 1)?.append(["new"], Acks::Written).await?;
    let server = listen(&broker, &address).await;
    run.assigned(2).await;
    run.until(|| seen.len() == 1).await;
    run.stop().await?;
    let found = seen.take();
    assert_eq!((found[0].partition, &found[0].value[..]), (1, &b"new"[..]));
    server.shutdown().await;
    broker.close().await
}
