//! Several members of one group, and pauses that outlive what happens to their partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use slipstream::prelude::*;
use tokio::sync::Semaphore;

use super::bench::{Bench, Raw, RawTopic, Running, Seen, text};

const PARTITIONS: u32 = 4;

fn spread(from: usize, count: usize) -> Vec<Raw> {
    (from..from + count).map(|n| text(&format!("k{n}"), &n.to_string())).collect()
}

fn start(bench: &Bench, topic: RawTopic, member: &str, seen: &Seen<Raw>) -> Running {
    Running::start(App::new().handle(topic, seen.keep(), ()), bench.member("group", member))
}

fn places(records: &[Raw]) -> BTreeSet<(i32, i64)> {
    records.iter().map(|record| (record.partition, record.offset)).collect()
}

pub async fn two_members_share_the_partitions_and_each_record_is_handled_once(bench: Bench) -> Result<()> {
    bench.write("shared", PARTITIONS, Vec::new()).await?;
    let (one, two) = (Seen::default(), Seen::default());
    let first = start(&bench, bench.raw("shared", PARTITIONS), "one", &one);
    first.assigned(4).await;
    let second = start(&bench, bench.raw("shared", PARTITIONS), "two", &two);
    first.assigned(2).await;
    second.assigned(2).await;
    bench.write("shared", PARTITIONS, spread(0, 80)).await?;
    first.until(|| one.len() + two.len() >= 80).await;
    second.stop().await?;
    first.assigned(4).await;
    bench.write("shared", PARTITIONS, spread(80, 20)).await?;
    first.until(|| one.len() + two.len() >= 100).await;
    first.stop().await?;
    let (one, two) = (one.take(), two.take());
    assert!(!one.is_empty() && !two.is_empty());
    assert_eq!((one.len() + two.len(), places(&[one, two].concat()).len()), (100, 100));
    Ok(())
}

/// B-01, B-02: paused means paused, for partitions that come and go as well, and nothing is lost meanwhile.
pub async fn b01_b02_a_pause_holds_while_a_member_joins_and_leaves(bench: Bench) -> Result<()> {
    bench.write("paused", PARTITIONS, spread(0, 20)).await?;
    let (mine, theirs) = (bench.raw("paused", PARTITIONS), bench.raw("paused", PARTITIONS));
    let (one, two) = (Seen::default(), Seen::default());
    let first = start(&bench, mine.clone(), "one", &one);
    first.assigned(4).await;
    first.until(|| one.len() == 20).await;
    mine.pause();
    theirs.pause();
    assert_eq!(first.handle.health().sources[0].paused_by, ["user"]);
    bench.write("paused", PARTITIONS, spread(20, 40)).await?;
    let second = start(&bench, theirs.clone(), "two", &two);
    first.assigned(2).await;
    second.assigned(2).await;
    bench.write("paused", PARTITIONS, spread(60, 40)).await?;
    second.stop().await?;
    first.assigned(4).await;
    assert_eq!((one.len(), two.len()), (20, 0));
    mine.resume();
    first.until(|| one.len() >= 100).await;
    first.stop().await?;
    let all = one.take();
    assert_eq!((all.len(), places(&all).len()), (100, 100));
    Ok(())
}

/// B-04: what a partition's next owner committed counts, not what the first one remembers.
pub async fn b04_a_partition_that_comes_back_goes_on_where_the_other_member_was(bench: Bench) -> Result<()> {
    bench.write("lent", PARTITIONS, spread(0, 20)).await?;
    let (mine, theirs) = (bench.raw("lent", PARTITIONS), bench.raw("lent", PARTITIONS));
    let (one, two) = (Seen::default(), Seen::default());
    let first = start(&bench, mine.clone(), "one", &one);
    first.until(|| one.len() == 20).await;
    mine.pause();
    bench.write("lent", PARTITIONS, spread(20, 60)).await?;
    let second = start(&bench, theirs, "two", &two);
    second.assigned(2).await;
    let ends = bench.ends("lent").await?.unwrap_or_default();
    let lanes = second.handle.health().sources[0].lanes.clone();
    let has = |partition: &i32| lanes.iter().any(|lane| lane.partition == *partition);
    let end: i64 = (0..).zip(&ends).filter(|(partition, _)| has(partition)).map(|(_, (_, end))| end).sum();
    second.committed(end).await;
    second.stop().await?;
    first.assigned(4).await;
    mine.resume();
    first.until(|| one.len() + two.len() >= 80).await;
    first.stop().await?;
    let (one, two) = (one.take(), two.take());
    assert_eq!((one.len() + two.len(), places(&[one, two].concat()).len()), (80, 80));
    Ok(())
}

/// One declaration in two members: one pause for both.
pub async fn b01_a_shared_declaration_pauses_all_members_at_once(bench: Bench) -> Result<()> {
    bench.write("both", PARTITIONS, Vec::new()).await?;
    let topic = bench.raw("both", PARTITIONS);
    let (one, two) = (Seen::default(), Seen::default());
    topic.pause();
    let (first, second) = (start(&bench, topic.clone(), "one", &one), start(&bench, topic.clone(), "two", &two));
    first.assigned(2).await;
    second.assigned(2).await;
    bench.write("both", PARTITIONS, spread(0, 80)).await?;
    assert_eq!((one.len(), two.len()), (0, 0));
    topic.resume();
    first.until(|| one.len() + two.len() >= 80).await;
    first.stop().await?;
    second.stop().await?;
    let (one, two) = (one.take(), two.take());
    assert!(!one.is_empty() && !two.is_empty());
    assert_eq!((one.len() + two.len(), places(&[one, two].concat()).len()), (80, 80));
    Ok(())
}

/// A handler that gives its messages away only as permits come.
fn gated(permits: &Arc<Semaphore>, began: &Seen<Raw>) -> impl Fn(Raw) -> Gated + Clone + Send + Sync + 'static {
    let (permits, began) = (Arc::clone(permits), began.clone());
    move |raw: Raw| {
        let (permits, began) = (Arc::clone(&permits), began.clone());
        Box::pin(async move {
            began.push(raw);
            permits.acquire().await.unwrap().forget();
        })
    }
}

type Gated = futures::future::BoxFuture<'static, ()>;

/// A rebalance waits for what is in hand, within `revoke.timeout`: nothing is handled twice.
pub async fn b21_a_rebalance_waits_for_a_slow_handler(bench: Bench) -> Result<()> {
    bench.write("slow", PARTITIONS, spread(0, 40)).await?;
    let (permits, began, two) = (Arc::new(Semaphore::new(0)), Seen::default(), Seen::default());
    let app = App::new().handle(bench.raw("slow", PARTITIONS), gated(&permits, &began), ());
    let first = Running::start(app, bench.member("group", "one"));
    first.until(|| began.len() == 4).await;
    let second = start(&bench, bench.raw("slow", PARTITIONS), "two", &two);
    second.until(|| !second.handle.health().sources.is_empty()).await;
    permits.add_permits(1000);
    second.assigned(2).await;
    first.until(|| began.len() + two.len() >= 40).await;
    first.stop().await?;
    second.stop().await?;
    let (one, two) = (began.take(), two.take());
    assert_eq!((one.len() + two.len(), places(&[one, two].concat()).len()), (40, 40));
    Ok(())
}

/// B-07, B-21: past the timeout the partition moves without its handler; what that was working on is repeated, what it
/// finishes later is not committed, and nothing else is repeated.
pub async fn b07_b21_a_handler_slower_than_the_timeout_repeats_only_what_was_in_hand(bench: Bench) -> Result<()> {
    bench.write("slower", PARTITIONS, spread(0, 40)).await?;
    let (permits, began, two) = (Arc::new(Semaphore::new(0)), Seen::default(), Seen::default());
    let app = App::new().handle(bench.raw("slower", PARTITIONS), gated(&permits, &began), ());
    let first = Running::start(app, bench.member("group", "one").with("revoke.timeout", "500ms"));
    first.until(|| began.len() == 4).await;
    let second = start(&bench, bench.raw("slower", PARTITIONS), "two", &two);
    second.assigned(2).await;
    permits.add_permits(1000);
    first.until(|| began.len() + two.len() >= 42).await;
    first.stop().await?;
    second.stop().await?;
    let (one, two) = (places(&began.take()), two.take());
    let repeated: BTreeSet<_> = places(&two).intersection(&one).copied().collect();
    assert!(repeated.iter().all(|(_, offset)| *offset == 0), "{repeated:?}");
    assert_eq!((repeated.len(), two.len() + one.len()), (2, 42));
    assert_eq!(one.union(&places(&two)).count(), 40);
    Ok(())
}

/// `group.instance.id` is accepted, and a restart takes its place again.
pub async fn a_static_member_comes_back_as_itself(bench: Bench) -> Result<()> {
    bench.write("static", PARTITIONS, spread(0, 8)).await?;
    let conf = || bench.conf("group").with("group.instance.id", "m1");
    let topic = || bench.raw("static", PARTITIONS);
    for count in [8, 4] {
        let seen: Seen<Raw> = Seen::default();
        let run = Running::start(App::new().handle(topic(), seen.keep(), ()), conf());
        run.until(|| seen.len() == count).await;
        run.stop().await?;
        bench.write("static", PARTITIONS, spread(8, 4)).await?;
    }
    Ok(())
}
