//! A broker that stops and comes back. Each test has one of its own.

use std::process::Output;
use std::sync::Arc;

use super::*;
use crate::error::Kind;
use crate::flow::Tracker;

/// A broker that is stopped, with its data, when the test ends.
struct Broker(Arc<str>);

impl Broker {
    async fn start() -> Option<(Self, Arc<KafkaBackend>)> {
        servers()?;
        let broker = Self(unique("outage"));
        let said = broker.script(&["start", "--own"]).await;
        let servers = String::from_utf8(said.stdout).unwrap();
        let servers = servers.trim().rsplit('=').next().unwrap().to_owned();
        let settings = [("reconnect.backoff.max.ms", "500"), ("app.id", "outage")];
        Some((broker, backend_at(&servers, &settings)))
    }

    async fn script(&self, arguments: &[&str]) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka.sh");
        let output = tokio::process::Command::new(script).args(arguments).args(["--name", &self.0]).output().await;
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    async fn stop(&self) {
        self.script(&["stop", "--keep-data"]).await;
    }

    async fn resume(&self) {
        self.script(&["start", "--own"]).await;
    }

    async fn end(self) {
        self.script(&["stop"]).await;
    }
}

async fn notice(member: &mut Member, expected: bool) {
    loop {
        match member.event().await {
            Event::Notice { topic: None, text } if text.is_some() == expected => return,
            Event::Notice { .. } => {}
            Event::Failed(error) => panic!("{error:?}"),
            Event::Assigned(_) | Event::Revoked { .. } => panic!("a rebalance"),
        }
    }
}

#[tokio::test]
async fn an_outage_is_told_waited_for_and_over() {
    let Some((broker, backend)) = Broker::start().await else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..10).await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    member.read(0, 10).await;

    broker.stop().await;
    notice(&mut member, true).await;
    let writer = backend.writer().unwrap();
    let receipt = write(&writer, record(&topic, 0, "during the outage")).await;
    let commit = member.driver.commit(vec![position(&topic, 0, 10)]);
    let commit = tokio::spawn(commit);
    broker.resume().await;
    notice(&mut member, false).await;
    assert_eq!(soon("the receipt", receipt).await.unwrap().offset, 10);
    assert_eq!(offsets(&member.read(0, 1).await), [10]);
    match commit.await.unwrap() {
        Ok(()) => {}
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            member.driver.commit(vec![position(&topic, 0, 10)]).await.unwrap();
        }
    }
    member.close().await;
    broker.end().await;
}

#[tokio::test]
async fn flushing_and_closing_are_bounded_while_the_broker_is_away() {
    let Some((broker, backend)) = Broker::start().await else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..10).await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    member.read(0, 10).await;
    let writer = backend.writer().unwrap();
    broker.stop().await;

    let mut tracker = Tracker::new(8);
    for _ in 0..3 {
        assert!(writer.write(record(&topic, 0, "lost"), Ack::Unit(tracker.guard())).is_ok());
        tracker.end_unit();
    }
    let begun = std::time::Instant::now();
    let error = writer.flush(Duration::from_millis(500)).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.to_string().starts_with("3 records"), "{error}");
    assert_eq!(tracker.scan(), 0);
    assert_eq!(tracker.take_failure().unwrap().kind(), Kind::Abandoned);

    let begun = std::time::Instant::now();
    member.close().await;
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());

    broker.resume().await;
    assert_eq!(write(&writer, record(&topic, 0, "after")).await.await.unwrap().offset, 10);
    broker.end().await;
}

#[tokio::test]
async fn an_app_may_start_before_its_broker() {
    let Some((broker, backend)) = Broker::start().await else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..3).await;
    broker.stop().await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    notice(&mut member, true).await;
    broker.resume().await;
    notice(&mut member, false).await;
    member.assigned(1).await;
    assert_eq!(offsets(&member.read(0, 3).await), [0, 1, 2]);
    member.close().await;
    broker.end().await;
}
