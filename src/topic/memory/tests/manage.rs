//! Topics come and go; the broker goes with its last user.

use std::sync::Arc;

use super::super::{Memory, MemoryBackend, MemoryLimits};
use super::harness::{App, fill, group, record, settle, write};
use crate::error::Kind;
use crate::topic::driver::{Backend, Outgoing, TopicDescription};

#[tokio::test]
async fn topics_are_created_described_and_deleted() {
    let backend = MemoryBackend::open(None);
    let manage = backend.manage().unwrap();
    assert_eq!(manage.describe("t".into()).await.unwrap(), None);
    manage.create("t".into(), 2).await.unwrap();
    assert_eq!(manage.create("t".into(), 2).await.unwrap_err().kind(), Kind::Broker);
    fill(&backend, 1, 3);
    let described = TopicDescription { name: "t".into(), partitions: vec![(0, 0), (0, 3)] };
    assert_eq!(manage.describe("t".into()).await.unwrap(), Some(described));
    manage.delete("t".into()).await.unwrap();
    assert_eq!(manage.describe("t".into()).await.unwrap(), None);
    assert_eq!(manage.delete("t".into()).await.unwrap_err().kind(), Kind::UnknownTopic);
}

#[tokio::test]
async fn a_topic_that_is_missing_gets_the_wanted_partitions_or_four() {
    let backend = MemoryBackend::open(None);
    let (writer, manage) = (backend.writer().unwrap(), backend.manage().unwrap());
    writer.prepare("two".into(), Some(2)).await.unwrap();
    writer.prepare("two".into(), Some(7)).await.unwrap();
    writer.prepare("four".into(), None).await.unwrap();
    let mut subscription = group("g");
    subscription.topics[0].partitions = Some(3);
    assert_eq!(App::ready(&backend, subscription).await.lanes.len(), 3);
    for (name, count) in [("two", 2), ("four", 4), ("t", 3)] {
        let partitions = manage.describe(name.into()).await.unwrap().unwrap().partitions;
        assert_eq!(partitions.len(), count, "{name}");
    }
}

#[tokio::test]
async fn names_and_partitions_that_kafka_refuses_are_refused() {
    let backend = MemoryBackend::open(None);
    let manage = backend.manage().unwrap();
    for name in ["", ".", "..", "a b", "ä", &"x".repeat(250)] {
        assert_eq!(manage.create(name.into(), 1).await.unwrap_err().kind(), Kind::Config, "{name:?}");
    }
    assert_eq!(manage.create("t".into(), 0).await.unwrap_err().kind(), Kind::Config);
    let nowhere = write(&backend, record(Some(4), "x")).unwrap().unwrap_err();
    assert_eq!(nowhere.kind(), Kind::UnknownTopic);
    let misnamed = Outgoing { topic: "a b".into(), ..record(None, "x") };
    assert_eq!(write(&backend, misnamed).unwrap().unwrap_err().kind(), Kind::Config);
}

#[tokio::test]
async fn a_deleted_topic_is_lost_and_read_from_its_start_when_it_is_back() {
    let backend = MemoryBackend::open(None);
    fill(&backend, 0, 3);
    let mut app = App::ready(&backend, group("g")).await;
    app.commit(0, 3).await;
    backend.manage().unwrap().delete("t".into()).await.unwrap();
    let (partitions, lost, _) = app.revoked().await;
    assert_eq!((partitions.len(), lost), (4, true));
    fill(&backend, 0, 1);
    assert_eq!(app.assigned().await.len(), 4);
    assert_eq!(app.from(0), 0);
    assert_eq!(app.offsets(0, 1).await, [0]);
}

#[tokio::test]
async fn the_broker_goes_with_its_last_user() {
    let memory = Memory::unnamed(MemoryLimits::default());
    let alive = Arc::downgrade(memory.broker());
    let backend = MemoryBackend::over(memory);
    fill(&backend, 0, 3);
    let app = App::ready(&backend, group("g")).await;
    let feed = Arc::downgrade(&app.lanes.values().next().unwrap().feed);
    drop(backend);
    settle().await;
    assert!(alive.upgrade().is_some(), "its app is still there");
    drop(app);
    settle().await;
    assert!(alive.upgrade().is_none());
    assert!(feed.upgrade().is_none());
}

#[tokio::test]
async fn a_named_broker_lives_as_long_as_any_handle() {
    let name = "lives-as-long-as-any-handle";
    let (one, other) = (Memory::named(name), Memory::named(name));
    assert_eq!(one, other);
    assert_eq!(one.name(), Some(name));
    fill(&MemoryBackend::over(one), 0, 1);
    assert!(Memory::named(name).size_bytes() > 0);
    drop(other);
    assert_eq!(Memory::named(name).size_bytes(), 0, "another broker of that name");
}
