//! Where reading begins, what is committed, and seeks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slipstream::Kind;
use slipstream::prelude::*;
use slipstream::topic::{SeekTo, Start};
use tokio::sync::Notify;

use super::bench::{Bench, Raw, Running, Seen, by_partition, text};

fn numbered(count: i64) -> Vec<Raw> {
    (0..count).map(|n| text("k", &n.to_string()).with_timestamp(1000 * (n + 1))).collect()
}

/// B-14: after 0 to 6, the next one is 7.
pub async fn b14_the_next_run_begins_behind_the_last_one(bench: Bench) -> Result<()> {
    bench.write("seven", 1, numbered(7)).await?;
    let topic = bench.topic::<u32, String>("seven", 1);
    assert_eq!(bench.read("reader", &topic, 7).await?.len(), 7);
    bench.write("seven", 1, vec![text("k", "7")]).await?;
    let read = bench.read("reader", &topic, 1).await?;
    assert_eq!(read.iter().map(|message| message.offset).collect::<Vec<_>>(), [7]);
    Ok(())
}

/// The commit timer alone is enough: the run that did the work is dropped.
pub async fn what_is_done_is_committed_while_running_and_survives_a_crash(bench: Bench) -> Result<()> {
    bench.write("timer", 4, (0..20).map(|n| text(&format!("k{n}"), "v")).collect()).await?;
    let seen = Seen::default();
    let run = Running::start(App::new().handle(bench.raw("timer", 4), seen.keep(), ()), bench.conf("reader"));
    run.until(|| seen.len() == 20).await;
    run.committed(20).await;
    run.crash().await;
    bench.write("timer", 4, vec![text("new", "v")]).await?;
    let read: Vec<Raw> = bench.read("reader", &bench.raw("timer", 4), 1).await?;
    assert_eq!(read.iter().map(|raw| raw.key.as_deref()).collect::<Vec<_>>(), [Some(&b"new"[..])]);
    let _: Vec<Raw> = seen.take();
    Ok(())
}

pub async fn latest_is_committed_as_soon_as_it_is_resolved(bench: Bench) -> Result<()> {
    bench.write("late", 1, numbered(5)).await?;
    let topic = || bench.topic::<u32, String>("late", 1).start(Start::Latest);
    let run = Running::start(App::new().handle(topic(), |_: u32| (), ()), bench.conf("reader"));
    run.committed(5).await;
    run.stop().await?;
    // Written while nobody reads: not lost, because the position is known.
    bench.write("late", 1, vec![text("k", "5")]).await?;
    let read = bench.read("reader", &topic(), 1).await?;
    assert_eq!(read.iter().map(|message| message.offset).collect::<Vec<_>>(), [5]);
    // `start` means groups without a position only.
    let first = bench.read("other", &bench.topic::<u32, String>("late", 1), 6).await?;
    assert_eq!(first.first().map(|message| message.offset), Some(0));
    Ok(())
}

pub async fn auto_offset_reset_sets_the_start_and_error_refuses(bench: Bench) -> Result<()> {
    bench.write("reset", 1, numbered(3)).await?;
    let topic = || bench.topic::<u32, String>("reset", 1);
    let app = || App::new().handle(topic(), |_: u32| (), ());
    let strict = bench.conf("strict").with("auto.offset.reset", "error");
    let error = app().conf(strict.clone()).run().await.unwrap_err();
    assert_eq!((error.kind(), bench.plain(error.place().unwrap_or_default())), (Kind::OutOfRange, "reset[0]".into()));

    let run = Running::start(app(), bench.conf("late").with("auto.offset.reset", "latest"));
    run.committed(3).await;
    run.stop().await?;
    // With a position, `error` has nothing to say.
    let run = Running::start(app(), bench.conf("late").with("auto.offset.reset", "error"));
    run.committed(3).await;
    run.stop().await
}

pub async fn seeks_move_to_the_beginning_the_end_an_offset_and_a_time(bench: Bench) -> Result<()> {
    bench.write("seek", 1, numbered(10)).await?;
    let topic = bench.topic::<u32, String>("seek", 1);
    let seen: Seen<Message<u32>> = Seen::default();
    let run = Running::start(App::new().handle(topic.clone(), seen.keep(), ()), bench.conf("reader"));
    run.until(|| seen.len() == 10).await;
    let mut told = Vec::new();
    for (to, count) in [(SeekTo::Beginning, 10), (SeekTo::Offset(7), 3), (SeekTo::Time(5_500), 5)] {
        seen.take();
        topic.seek(to).await?;
        run.until(|| seen.len() == count).await;
        told.push(seen.offsets());
    }
    assert_eq!(told, [(0..10).collect::<Vec<_>>(), vec![7, 8, 9], vec![5, 6, 7, 8, 9]]);
    seen.take();
    for to in [SeekTo::End, SeekTo::Offset(10), SeekTo::Time(99_000)] {
        topic.seek(to).await?;
    }
    bench.write("seek", 1, vec![text("k", "10")]).await?;
    run.until(|| seen.len() == 1).await;
    assert_eq!(seen.offsets(), [10]);
    // The target is committed: a restart begins there, although nothing was handled since.
    topic.pause();
    topic.seek(SeekTo::Offset(4)).await?;
    run.stop().await?;
    topic.resume();
    let again = bench.read("reader", &topic, 7).await?;
    assert_eq!(again.first().map(|message| message.offset), Some(4));
    Ok(())
}

/// Scenario 8 of the reliability notes: a typed error before any movement.
pub async fn a_seek_outside_the_log_moves_nothing(bench: Bench) -> Result<()> {
    // One partition has five records, the others none: offset 3 exists in that one only.
    bench.write("narrow", 4, numbered(5)).await?;
    let topic = bench.topic::<u32, String>("narrow", 4);
    let seen: Seen<Message<u32>> = Seen::default();
    let run = Running::start(App::new().handle(topic.clone(), seen.keep(), ()), bench.conf("reader"));
    run.assigned(4).await;
    run.until(|| seen.len() == 5).await;
    run.committed(5).await;
    seen.take();
    for to in [SeekTo::Offset(3), SeekTo::Offset(6), SeekTo::Offset(-1), SeekTo::Offset(i64::MAX)] {
        let error = topic.seek(to).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Seek, "{to:?}: {error:?}");
    }
    assert_eq!(run.committed_now(), 5);
    bench.write("narrow", 4, vec![text("k", "5")]).await?;
    run.until(|| seen.len() == 1).await;
    assert_eq!(seen.offsets(), [5]);
    run.stop().await?;
    let closed = topic.seek(SeekTo::Beginning).await.unwrap_err();
    assert_eq!(closed.kind(), Kind::Closed);
    Ok(())
}

/// B-30: it concerns what is assigned next, and that once.
pub async fn b30_a_seek_before_the_assignment_applies_to_it_and_to_no_later_one(bench: Bench) -> Result<()> {
    bench.write("early", 4, (0..20).map(|n| text(&format!("k{n}"), "v")).collect()).await?;
    assert_eq!(bench.read("reader", &bench.raw("early", 4), 20).await?.len(), 20);
    let topic = bench.raw("early", 4);
    let seen: Seen<Raw> = Seen::default();
    topic.pause();
    let run = Running::start(App::new().handle(topic.clone(), seen.keep(), ()), bench.conf("reader"));
    run.until(|| !run.handle.health().sources.is_empty()).await;
    topic.seek(SeekTo::Beginning).await?;
    run.assigned(4).await;
    topic.resume();
    run.until(|| seen.len() == 20).await;
    run.committed(20).await;
    if bench.is_booblik() {
        // Nobody takes partitions away there.
        return run.stop().await;
    }
    // Partitions that go and come back go on where they were.
    let other = App::new().handle(bench.raw("early", 4), seen.keep(), ());
    let second = Running::start(other, bench.member("reader", "second"));
    run.assigned(2).await;
    second.assigned(2).await;
    second.stop().await?;
    run.assigned(4).await;
    bench.write("early", 4, vec![text("last", "v")]).await?;
    run.until(|| seen.len() >= 21).await;
    run.stop().await?;
    assert_eq!(seen.len(), 21);
    Ok(())
}

/// A replay that ends exactly where the group was before is committed again, and `auto.offset.reset=error` has nothing
/// to say where a seek did.
pub async fn a_replay_up_to_the_old_position_is_committed(bench: Bench) -> Result<()> {
    bench.write("replay", 1, numbered(10)).await?;
    let topic = bench.topic::<u32, String>("replay", 1);
    let seen: Seen<Message<u32>> = Seen::default();
    let strict = bench.conf("reader").with("auto.offset.reset", "error");
    let app = || App::new().handle(topic.clone(), seen.keep(), ());
    bench.read("reader", &topic, 10).await?;
    topic.pause();
    let run = Running::start(app(), strict);
    run.until(|| !run.handle.health().sources.is_empty()).await;
    topic.seek(SeekTo::Beginning).await?;
    run.assigned(1).await;
    topic.resume();
    run.until(|| seen.len() == 10).await;
    topic.seek(SeekTo::Offset(5)).await?;
    run.until(|| seen.len() == 15).await;
    run.committed(10).await;
    run.crash().await;
    bench.write("replay", 1, vec![text("k", "10")]).await?;
    let next = bench.read("reader", &topic, 1).await?;
    assert_eq!(next.iter().map(|message| message.offset).collect::<Vec<_>>(), [10]);
    Ok(())
}

/// B-12: what hangs is not committed past, whatever finished behind it.
pub async fn b12_a_record_in_flight_holds_the_position_back(bench: Bench) -> Result<()> {
    let records = (0..6).map(|n| text(&format!("k{n}"), &n.to_string())).collect();
    bench.write("hang", 1, records).await?;
    let seen: Seen<i64> = Seen::default();
    let hanging = |never: Arc<AtomicBool>| {
        let seen = seen.clone();
        move |message: Message<u32>| {
            let (seen, never) = (seen.clone(), Arc::clone(&never));
            async move {
                if message.offset == 0 && never.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                seen.push(message.offset);
            }
        }
    };
    let topic = || bench.topic::<u32, String>("hang", 1);
    // Keys have lanes of their own; those that share the lane of offset 0 wait behind it.
    let app = App::new().handle(topic(), hanging(Arc::new(AtomicBool::new(true))), ()).concurrency(64);
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| seen.len() >= 4).await;
    assert!(!seen.take().contains(&0));
    run.crash().await;
    let app = App::new().handle(topic(), hanging(Arc::new(AtomicBool::new(false))), ()).concurrency(64);
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| seen.len() == 6).await;
    run.committed(6).await;
    run.stop().await?;
    let mut again = seen.take();
    again.sort_unstable();
    assert_eq!(again, [0, 1, 2, 3, 4, 5]);
    Ok(())
}

/// B-18: a handler that has returned is not enough; the position waits for every sink.
pub async fn b18_nothing_is_committed_before_the_sinks_have_it(bench: Bench) -> Result<()> {
    bench.write("in", 1, numbered(3)).await?;
    let (open, began) = (Arc::new(Notify::new()), Seen::default());
    let slow = {
        let (open, began) = (Arc::clone(&open), began.clone());
        move |n: u32| {
            let (open, began) = (Arc::clone(&open), began.clone());
            async move {
                began.push(n);
                open.notified().await;
            }
        }
    };
    let sinks = (bench.topic::<u32, String>("out", 1), slow);
    let app = App::new().handle(bench.topic::<u32, String>("in", 1), |n: u32| n, sinks);
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| began.len() == 1).await;
    // The topic has the first output, the other sink has not.
    assert_eq!(bench.contents("out", 1, 1).await?.len(), 1);
    assert_eq!(run.committed_now(), 0);
    run.crash().await;
    // All of it again: at least once, and the repeat is the one that was in flight.
    let app = App::new().handle(bench.topic::<u32, String>("in", 1), |n: u32| n, bench.topic::<u32, String>("out", 1));
    let run = Running::start(app, bench.conf("reader"));
    run.committed(3).await;
    run.stop().await?;
    let values: Vec<_> = bench.contents("out", 1, 4).await?.into_iter().filter_map(|raw| raw.value).collect();
    assert_eq!(values, ["0", "0", "1", "2"]);
    Ok(())
}

/// Each app reads everything, and goes on where it was.
pub async fn a_broadcast_topic_is_read_whole_by_every_app(bench: Bench) -> Result<()> {
    bench.write("news", 4, (0..12).map(|n| text(&format!("k{n}"), "v")).collect()).await?;
    // One declaration for both: they may differ in their ids as long as it is one broker.
    let topic = bench.raw("news", 4).broadcast();
    let (one, two): (Seen<Raw>, Seen<Raw>) = Default::default();
    let start = |app: &str, seen: &Seen<Raw>| {
        Running::start(App::new().handle(topic.clone(), seen.keep(), ()), bench.conf(app))
    };
    let (first, second) = (start("one", &one), start("two", &two));
    first.until(|| one.len() == 12).await;
    second.until(|| two.len() == 12).await;
    first.stop().await?;
    bench.write("news", 4, vec![text("k0", "new")]).await?;
    second.until(|| two.len() == 13).await;
    second.stop().await?;
    assert_eq!(by_partition(&one.take()).values().map(Vec::len).sum::<usize>(), 12);
    let (first, second) = (start("one", &one), start("two", &two));
    first.until(|| one.len() == 1).await;
    second.assigned(4).await;
    first.stop().await?;
    second.stop().await?;
    assert_eq!(one.take().iter().map(|raw| raw.value.as_deref()).collect::<Vec<_>>(), [Some(&b"new"[..])]);
    assert_eq!(two.take().len(), 13, "the second one had read it before");
    Ok(())
}
