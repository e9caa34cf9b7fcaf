//! What a full topic does to its writers, and what may be dropped to make room.

use std::future::poll_fn;
use std::sync::Arc;

use super::super::{Memory, MemoryBackend, MemoryLimits};
use super::harness::{App, at, fill, group, record, refused, settle, subscription, write};
use crate::error::Kind;
use crate::flow::Position;
use crate::topic::driver::{Backend, Membership, Outgoing, Refusal, TopicDescription, Writer};

/// Records of "x" that fit into [`small`].
const FIT: usize = 10;

fn small() -> MemoryBackend {
    MemoryBackend::over(Memory::unnamed(MemoryLimits::default().topic_bytes(FIT * 65).partitions(2)))
}

async fn described(backend: &MemoryBackend) -> Vec<(i64, i64)> {
    let TopicDescription { partitions, .. } = backend.manage().unwrap().describe("t".into()).await.unwrap().unwrap();
    partitions
}

/// A task that waits for room.
fn wait_for_room(writer: &Arc<dyn Writer>, since: Refusal) -> tokio::task::JoinHandle<()> {
    let writer = Arc::clone(writer);
    tokio::spawn(async move { poll_fn(|cx| writer.poll_room(since, cx)).await })
}

#[tokio::test]
async fn a_full_topic_refuses_its_writer_and_wakes_it_after_a_commit() {
    let backend = small();
    let writer = backend.writer().unwrap();
    let app = App::ready(&backend, group("g")).await;
    fill(&backend, 0, FIT);
    let waiting = wait_for_room(&writer, refused(&backend, record(Some(0), "x")));
    settle().await;
    assert!(!waiting.is_finished());
    app.commit(0, 1).await;
    waiting.await.unwrap();
    assert_eq!(described(&backend).await[0], (1, 10));
    assert_eq!(write(&backend, record(Some(0), "x")).unwrap().unwrap().offset, 10);
    assert!(write(&backend, record(Some(0), "x")).is_none());
}

#[tokio::test]
async fn only_what_every_group_has_committed_is_dropped() {
    let backend = small();
    let one = App::ready(&backend, group("one")).await;
    let other = App::ready(&backend, group("other")).await;
    fill(&backend, 0, FIT / 2);
    fill(&backend, 1, FIT / 2);
    one.driver.commit(vec![at(0, 5), at(1, 5)]).await.unwrap();
    assert!(write(&backend, record(Some(0), "x")).is_none(), "the other group has committed nothing");
    drop(other);
    assert!(write(&backend, record(Some(0), "x")).is_none(), "it may come back");
    let other = App::ready(&backend, group("other")).await;
    other.commit(1, 3).await;
    assert!(write(&backend, record(Some(0), "x")).is_some());
    assert_eq!(described(&backend).await, [(0, 6), (3, 5)]);
}

#[tokio::test]
async fn what_a_member_has_gone_back_to_is_kept() {
    let backend = small();
    fill(&backend, 0, FIT);
    let mut app = App::ready(&backend, group("g")).await;
    app.offsets(0, FIT).await;
    app.commit(0, 10).await;
    // The feeder has not run since the seek.
    let back = app.driver.seek("t".into(), 0, 4).await.unwrap();
    app.take(vec![back]);
    assert!(write(&backend, record(Some(0), "x")).is_some());
    assert_eq!(described(&backend).await[0].0, 4);
    assert_eq!(app.offsets(0, 7).await, [4, 5, 6, 7, 8, 9, 10]);
}

#[tokio::test]
async fn nothing_is_dropped_before_the_first_group_has_come() {
    let backend = small();
    fill(&backend, 0, FIT);
    assert!(write(&backend, record(Some(0), "x")).is_none());
    let app = App::ready(&backend, group("g")).await;
    assert_eq!(app.from(0), 0);
}

#[tokio::test]
async fn readers_without_a_group_make_room_by_what_they_store() {
    let backend = small();
    let mut app = App::ready(&backend, subscription(Membership::Everything(vec![]))).await;
    for expected in (0..).take(5 * FIT) {
        while write(&backend, record(Some(0), "x")).is_none() {
            settle().await;
        }
        assert_eq!(app.offsets(0, 1).await, [expected]);
        app.driver.stored(vec![at(0, expected + 1)]);
    }
}

#[tokio::test]
async fn what_a_reader_without_a_group_needs_again_is_kept_also_until_it_says_so_after_a_restart() {
    let backend = small();
    let everything = |known| subscription(Membership::Everything(known));
    let mut app = App::ready(&backend, everything(vec![])).await;
    fill(&backend, 0, FIT);
    assert_eq!(app.offsets(0, FIT).await.len(), FIT);
    let stored = Position { needed: 3, ..at(0, 5) };
    app.driver.stored(vec![stored.clone()]);
    assert!(write(&backend, record(Some(0), "x")).is_some());
    assert_eq!(described(&backend).await[0], (3, 11));
    drop(app);
    let app = App::ready(&backend, everything(vec![stored.clone().into()])).await;
    while write(&backend, record(Some(0), "x")).is_some() {}
    assert_eq!(described(&backend).await[0].0, 3);
    app.driver.stored(vec![Position { needed: 4, ..stored }]);
    assert_eq!(described(&backend).await[0].0, 4);
}

#[tokio::test]
async fn writers_of_two_full_topics_do_not_miss_each_other_s_room() {
    let backend = small();
    let writer = backend.writer().unwrap();
    let app = App::ready(&backend, group("g")).await;
    let elsewhere = || Outgoing { topic: "u".into(), ..record(Some(0), "x") };
    fill(&backend, 0, FIT);
    while write(&backend, elsewhere()).is_some() {}
    let since = refused(&backend, record(Some(0), "x"));
    settle().await; // what is to be dropped has been read
    // Room is made between one task's refusal and its first poll, and another is refused in between.
    app.commit(0, 1).await;
    assert!(write(&backend, elsewhere()).is_none());
    wait_for_room(&writer, since).await.unwrap();
}

#[tokio::test]
async fn deleting_a_full_topic_wakes_its_writers() {
    let backend = small();
    let writer = backend.writer().unwrap();
    fill(&backend, 0, FIT);
    let waiting = wait_for_room(&writer, refused(&backend, record(Some(0), "x")));
    settle().await;
    backend.manage().unwrap().delete("t".into()).await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test]
async fn an_oversized_record_is_refused_for_good_and_the_next_one_goes_through() {
    let backend = MemoryBackend::open(None);
    let error = write(&backend, record(Some(0), &"x".repeat((1 << 20) + 1))).unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::TooLarge, false));
    assert_eq!(write(&backend, record(Some(0), &"x".repeat(1 << 20))).unwrap().unwrap().offset, 0);
}

#[tokio::test]
async fn a_record_larger_than_the_topic_passes_alone() {
    let backend = small();
    assert!(write(&backend, record(Some(0), &"x".repeat(5000))).is_some());
    assert!(write(&backend, record(Some(0), "x")).is_none());
}
