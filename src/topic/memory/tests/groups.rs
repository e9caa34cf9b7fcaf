//! Sharing, handing over and losing partitions.

use tokio::time::Instant;

use super::super::MemoryBackend;
use super::harness::{App, REVOKE_TIMEOUT, at, fill, group, settle, tp};
use crate::topic::driver::SeekTo;

/// One member that has read two records of each partition, and a second one that has just joined.
async fn one_and_a_newcomer(backend: &MemoryBackend) -> (App, App) {
    (0..4).for_each(|partition| fill(backend, partition, 3));
    let mut first = App::ready(backend, group("g")).await;
    for partition in 0..4 {
        assert_eq!(first.offsets(partition, 2).await, [0, 1]);
    }
    let second = App::start(backend, group("g"));
    (first, second)
}

#[tokio::test]
async fn two_members_share_and_nothing_is_lost_or_doubled() {
    let backend = MemoryBackend::open(None);
    let (mut first, mut second) = one_and_a_newcomer(&backend).await;
    let (moved, lost, answer) = first.revoked().await;
    assert_eq!((moved.clone(), lost), (vec![tp(2), tp(3)], false));
    settle().await;
    assert!(second.events.try_recv().is_err(), "nothing moves before the answer");
    answer.send(vec![at(2, 2), at(3, 2)]).unwrap();
    assert_eq!(second.assigned().await, moved);
    for partition in [2, 3] {
        assert_eq!(second.lanes[&tp(partition)].committed, Some(2));
        assert_eq!(second.offsets(partition, 1).await, [2]);
    }
    // What stayed was not disturbed.
    for partition in [0, 1] {
        assert_eq!(first.offsets(partition, 1).await, [2]);
    }
    assert!(first.events.try_recv().is_err());
}

#[tokio::test]
async fn a_dropped_driver_counts_as_a_lost_member() {
    let backend = MemoryBackend::open(None);
    let (mut first, mut second) = one_and_a_newcomer(&backend).await;
    first.commit(0, 1).await;
    let (_, _, answer) = first.revoked().await;
    answer.send(vec![]).unwrap();
    assert_eq!(second.assigned().await, [tp(2), tp(3)]);
    drop(first);
    assert_eq!(second.assigned().await, [tp(0), tp(1)]);
    assert_eq!((second.from(0), second.from(1)), (1, 0), "from what was committed");
}

#[tokio::test]
async fn a_member_whose_events_nobody_takes_any_more_is_lost() {
    let backend = MemoryBackend::open(None);
    let App { driver, events, lanes: _ } = App::ready(&backend, group("g")).await;
    let mut second = App::start(&backend, group("g"));
    drop(events);
    let mut mine = second.assigned().await;
    if mine.len() < 4 {
        mine.extend(second.assigned().await);
    }
    assert_eq!(mine.len(), 4);
    driver.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_answer_in_time_loses_its_partitions() {
    let backend = MemoryBackend::open(None);
    let (mut first, mut second) = one_and_a_newcomer(&backend).await;
    let began = Instant::now();
    let (moved, _, answer) = first.revoked().await;
    first.commit(2, 1).await; // still its own
    assert_eq!(second.assigned().await, moved);
    assert_eq!(began.elapsed(), REVOKE_TIMEOUT);
    assert_eq!(second.from(2), 1);
    assert!(answer.send(vec![at(2, 2)]).is_err(), "nobody waits for it");
    first.commit(2, 2).await; // dropped, which is no error
    first.commit(0, 2).await;
    drop((first, second));
    let third = App::ready(&backend, group("g")).await;
    assert_eq!((third.from(2), third.from(0)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_app_that_takes_no_events_loses_what_it_should_give_up_and_hears_of_it() {
    let backend = MemoryBackend::open(None);
    let mut first = {
        let (sender, events) = tokio::sync::mpsc::channel(1);
        let driver = crate::topic::driver::Backend::subscribe(&backend, group("g"), sender).unwrap();
        App { driver, events, lanes: std::collections::BTreeMap::new() }
    };
    settle().await; // its assignment fills the channel
    let mut second = App::start(&backend, group("g"));
    assert_eq!(second.assigned().await, [tp(2), tp(3)]);
    assert_eq!(first.assigned().await.len(), 4);
    let (partitions, lost, _) = first.revoked().await;
    assert_eq!((partitions, lost), (vec![tp(2), tp(3)], true));
}

#[tokio::test]
async fn partitions_come_back_when_the_other_leaves_and_a_revoked_one_cannot_be_sought() {
    let backend = MemoryBackend::open(None);
    let (mut first, second) = one_and_a_newcomer(&backend).await;
    let (_, _, answer) = first.revoked().await;
    assert!(first.driver.resolve("t".into(), 2, SeekTo::Beginning).await.is_err());
    second.driver.close().await.unwrap();
    answer.send(vec![at(2, 2)]).unwrap();
    assert_eq!(first.assigned().await, [tp(2), tp(3)]);
    assert_eq!((first.from(2), first.from(3)), (2, 0));
}

#[tokio::test]
async fn positions_belong_to_the_broker_and_groups_do_not_mix() {
    let name = "positions-belong-to-the-broker";
    let handle = super::super::Memory::named(name);
    let backend = MemoryBackend::open(Some(name));
    fill(&backend, 0, 2);
    let one = App::ready(&backend, group("one")).await;
    let other = App::ready(&backend, group("other")).await;
    assert_eq!((one.lanes.len(), other.lanes.len()), (4, 4));
    one.commit(0, 2).await;
    drop((one, other, backend));
    let backend = MemoryBackend::open(Some(name));
    assert_eq!(App::ready(&backend, group("one")).await.from(0), 2);
    assert_eq!(App::ready(&backend, group("other")).await.from(0), 0);
    drop(handle);
}
