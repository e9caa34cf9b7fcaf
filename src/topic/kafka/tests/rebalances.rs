//! Members that come and go, topics that appear and grow.

use std::sync::Arc;

use rdkafka::admin::{AdminOptions, NewPartitions};

use super::*;

/// The first event that is none of the notices.
async fn next(member: &mut Member) -> Event {
    loop {
        match member.event().await {
            Event::Notice { .. } => {}
            event => return event,
        }
    }
}

#[tokio::test]
async fn partitions_are_given_up_when_the_app_has_answered_and_its_positions_are_committed() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 2).await;
    fill(&backend, &topic, 0, 0..50).await;
    fill(&backend, &topic, 1, 0..50).await;
    let group = unique("g");
    let mut first = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    first.assigned(2).await;
    first.read(0, 50).await;
    let mut second = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    let Event::Revoked { partitions, lost, answer } = next(&mut first).await else { panic!("not revoked") };
    assert!(!lost);
    assert_eq!(partitions.len(), 1);
    let gone = partitions[0].1;
    // What stays is read meanwhile, and committed.
    assert_eq!(first.read(1 - gone, usize::from(gone == 0)).await.len() % 50, 0);
    first.driver.commit(vec![position(&topic, 1 - gone, 11)]).await.unwrap();
    answer.send(vec![position(&topic, gone, 33)]).unwrap();
    second.assigned(1).await;
    assert_eq!(second.feeds.keys().copied().collect::<Vec<_>>(), [gone]);
    assert_eq!((second.feeds[&gone].from, second.feeds[&gone].committed), (33, Some(33)));
    // Not ours any more: dropped, and the new owner's position stays.
    first.driver.commit(vec![position(&topic, gone, 1)]).await.unwrap();
    let old = &first.feeds[&gone].feed;
    assert!(!poll_fn(|cx| old.queue.poll_take(&mut VecDeque::new(), cx)).await, "the old feed has ended");
    second.close().await;
    first.feeds.remove(&gone);
    first.assigned(2).await;
    assert_eq!(first.feeds[&gone].committed, Some(33));
    first.close().await;
}

#[tokio::test]
async fn an_app_that_does_not_answer_loses_its_partitions_after_the_revoke_timeout() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 2).await;
    let group = unique("g");
    let slow = Subscription { revoke_timeout: Duration::from_millis(300), ..in_group(vec![wanted(&topic)], &group) };
    let mut first = Member::join(&backend, slow);
    first.assigned(2).await;
    let mut second = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    let Event::Revoked { answer, .. } = next(&mut first).await else { panic!("not revoked") };
    second.assigned(1).await;
    assert!(answer.send(Vec::new()).is_err(), "nobody waits any more");
    first.close().await;
    second.assigned(2).await;
    second.close().await;
}

#[tokio::test]
async fn a_member_that_the_group_threw_out_loses_its_partitions_without_a_commit() {
    let settings = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500"), ("max.poll.interval.ms", "6000")];
    let Some(backend) = backend(&settings) else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..10).await;
    let group = unique("g");
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    member.assigned(1).await;
    // An administrator removes all members.
    remove_members(&group).await;
    let Event::Revoked { lost, answer, .. } = next(&mut member).await else { panic!("not revoked") };
    assert!(lost);
    drop(answer);
    member.feeds.clear();
    member.assigned(1).await;
    assert_eq!(member.feeds[&0].committed, None);
    member.close().await;
}

/// Throws all members out of a group, by Kafka's own tool.
async fn remove_members(group: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka.sh");
    let servers = servers().unwrap();
    let arguments = ["tool", "StreamsResetter", "--bootstrap-server", &servers, "--application-id", group];
    let status = tokio::process::Command::new(script).args(arguments).args(["--force"]).status().await.unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn a_missing_topic_is_awaited_and_read_from_its_first_record() {
    let Some(backend) = backend(&[]) else { return };
    let (missing, present) = (unique("late"), topic(&backend, 1).await);
    fill(&backend, &present, 0, 0..1).await;
    let late = Wanted { start: Start::Latest, ..wanted(&missing) };
    let mut member = Member::join(&backend, in_group(vec![late, wanted(&present)], &unique("g")));
    let (mut told, mut reads_the_other) = (false, false);
    while !(told && reads_the_other) {
        match member.event().await {
            Event::Notice { topic: Some(topic), text: Some(text) } => {
                assert!(*topic == *missing && text.contains("waits for the topic"), "{text}");
                told = true;
            }
            Event::Assigned(new) => reads_the_other = new.iter().all(|new| *new.feed.topic == *present),
            _ => panic!("something else"),
        }
    }
    backend.manage().unwrap().create(Arc::clone(&missing), 2).await.unwrap();
    fill(&backend, &missing, 1, 0..3).await;
    let mut cleared = false;
    let mut found: Vec<Assignment> = Vec::new();
    while found.len() < 2 || !cleared {
        match member.event().await {
            Event::Notice { topic: Some(_), text: None } => cleared = true,
            Event::Assigned(new) => found.extend(new),
            Event::Revoked { answer, .. } => answer.send(Vec::new()).unwrap(),
            _ => panic!("something else"),
        }
    }
    let second = found.iter().find(|new| new.feed.partition == 1).unwrap();
    assert_eq!(second.from, 0, "created after we came: read whole, also with `Latest`");
    assert_eq!(read(&second.feed, 3).await.len(), 3);
    member.close().await;
}

#[tokio::test]
async fn a_topic_that_is_deleted_is_given_up_and_awaited_again() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 1).await;
    fill(&backend, &topic, 0, 0..5).await;
    let mut member = Member::join(&backend, in_group(vec![wanted(&topic)], &unique("g")));
    member.assigned(1).await;
    member.read(0, 5).await;
    member.driver.commit(vec![position(&topic, 0, 5)]).await.unwrap();
    backend.manage().unwrap().delete(Arc::clone(&topic)).await.unwrap();
    let (mut given_up, mut awaited) = (false, false);
    while !(given_up && awaited) {
        match member.event().await {
            Event::Revoked { answer, .. } => {
                // The app has positions that nobody can keep any more, and perhaps nobody waits for them.
                let _lost = answer.send(vec![position(&topic, 0, 5)]);
                given_up = true;
            }
            Event::Notice { topic: Some(_), text: Some(_) } => awaited = true,
            Event::Notice { .. } => {}
            Event::Assigned(_) => panic!("assigned"),
            Event::Failed(error) => panic!("{error:?}"),
        }
    }
    member.feeds.clear();
    backend.manage().unwrap().create(Arc::clone(&topic), 1).await.unwrap();
    fill(&self::backend(&[]).unwrap(), &topic, 0, 0..2).await;
    member.assigned(1).await;
    assert_eq!(offsets(&member.read(0, 2).await), [0, 1]);
    member.close().await;
}

#[tokio::test]
async fn a_missing_topic_is_created_when_its_partitions_are_given() {
    let Some(backend) = backend(&[]) else { return };
    let created = Wanted { partitions: Some(3), ..wanted(&unique("made")) };
    let mut member = Member::join(&backend, in_group(vec![created], &unique("g")));
    member.assigned(3).await;
    member.close().await;
}

#[tokio::test]
async fn without_a_group_every_partition_is_read_from_the_given_positions_and_new_ones_are_noticed() {
    let Some(backend) = backend(&[]) else { return };
    let topic = topic(&backend, 2).await;
    fill(&backend, &topic, 0, 0..10).await;
    fill(&backend, &topic, 1, 0..10).await;
    let subscription = Subscription {
        topics: vec![wanted(&topic)],
        group: Membership::Everything(vec![position(&topic, 1, 6).into()]),
        revoke_timeout: Duration::from_secs(1),
    };
    let mut one = Member::join(&backend, subscription.clone());
    let mut two = Member::join(&backend, subscription);
    for member in [&mut one, &mut two] {
        member.assigned(2).await;
        assert_eq!(offsets(&member.read(0, 10).await), (0..10).collect::<Vec<_>>());
        assert_eq!(offsets(&member.read(1, 4).await), [6, 7, 8, 9]);
        assert_eq!((member.feeds[&0].committed, member.feeds[&1].committed), (None, Some(6)));
    }
    let admin = backend.admin.client().unwrap();
    admin.create_partitions([&NewPartitions::new(&topic, 3)], &AdminOptions::new()).await.unwrap();
    for member in [&mut one, &mut two] {
        member.assigned(3).await;
    }
    // A producer that knows the topic already sees the new partition only at its next look.
    fill(&self::backend(&[]).unwrap(), &topic, 2, 0..2).await;
    assert_eq!(offsets(&one.read(2, 2).await), [0, 1]);
    fill(&backend, &topic, 0, 10..11).await;
    assert_eq!(offsets(&one.read(0, 1).await), [10], "the others go on where they were");
    let back = two.driver.seek(Arc::clone(&topic), 1, 2).await.unwrap();
    assert_eq!(offsets(&read(&back.feed, 8).await)[0], 2);
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn the_newer_group_protocol_works_the_same() {
    let Some(backend) = backend(&[("group.protocol", "consumer")]) else { return };
    let topic = topic(&backend, 2).await;
    fill(&backend, &topic, 0, 0..10).await;
    fill(&backend, &topic, 1, 0..10).await;
    let group = unique("g");
    let mut first = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    first.assigned(2).await;
    assert_eq!(first.read(0, 10).await.len(), 10);
    let mut second = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    let Event::Revoked { partitions, lost, answer } = next(&mut first).await else { panic!("not revoked") };
    assert!(!lost);
    let gone = partitions[0].1;
    answer.send(vec![position(&topic, gone, 4)]).unwrap();
    second.assigned(1).await;
    assert_eq!(second.feeds[&gone].committed, Some(4));
    first.close().await;
    second.assigned(2).await;
    second.close().await;
}

#[tokio::test]
async fn a_member_whose_name_another_took_fails_for_good() {
    let Some(backend) = backend(&[("group.instance.id", "the-one")]) else { return };
    let topic = topic(&backend, 1).await;
    let group = unique("g");
    let mut first = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    first.assigned(1).await;
    let mut second = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    second.assigned(1).await;
    let failed = loop {
        match first.event().await {
            Event::Failed(error) => break error,
            Event::Revoked { .. } | Event::Notice { .. } => {}
            Event::Assigned(_) => panic!("goes on"),
        }
    };
    assert_eq!(failed.kind(), crate::Kind::Broker);
    assert!(!failed.is_retryable());
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_static_member_that_comes_back_with_another_topic_reads_that_one_too() {
    let Some(backend) = backend(&[("group.instance.id", "back-again")]) else { return };
    let (old, new) = (topic(&backend, 1).await, topic(&backend, 2).await);
    let group = unique("g");
    let mut before = Member::join(&backend, in_group(vec![wanted(&old)], &group));
    before.assigned(1).await;
    before.close().await;
    let mut after = Member::join(&backend, in_group(vec![wanted(&old), wanted(&new)], &group));
    let mut ours: Vec<Assignment> = Vec::new();
    while ours.len() < 3 {
        match after.event().await {
            Event::Assigned(added) => ours.extend(added),
            Event::Revoked { answer, .. } => {
                ours.clear();
                answer.send(Vec::new()).unwrap();
            }
            Event::Notice { .. } => {}
            Event::Failed(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(ours.iter().filter(|assignment| *assignment.feed.topic == *new).count(), 2);
    after.close().await;
}

#[tokio::test]
async fn a_static_member_that_comes_back_reads_partitions_that_were_added_meanwhile() {
    let Some(backend) = backend(&[("group.instance.id", "grown")]) else { return };
    let topic = topic(&backend, 1).await;
    let group = unique("g");
    let mut before = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    before.assigned(1).await;
    before.close().await;
    let admin = backend.admin.client().unwrap();
    admin.create_partitions([&NewPartitions::new(&topic, 3)], &AdminOptions::new()).await.unwrap();
    let mut after = Member::join(&backend, in_group(vec![wanted(&topic)], &group));
    after.assigned(3).await;
    after.close().await;
}
