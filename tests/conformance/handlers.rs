//! Handlers on topics: several of them, and several lanes.

use std::collections::BTreeMap;

use slipstream::Kind;
use slipstream::prelude::*;

use super::bench::{Bench, Running, Seen, text};

pub async fn every_handler_of_a_topic_gets_every_record_in_order(bench: Bench) -> Result<()> {
    bench.write("several", 1, (0..50).map(|n| text("k", &n.to_string())).collect()).await?;
    let topic = bench.topic::<u32, String>("several", 1);
    let calls: Seen<(char, u32)> = Seen::default();
    let handler = |name: char| {
        let calls = calls.clone();
        move |n: u32| calls.push((name, n))
    };
    // The second one is another declaration of the same topic: read once all the same.
    let app = App::new().handle(topic.clone(), handler('a'), ()).handle(topic, handler('b'), ());
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| calls.len() == 100).await;
    assert_eq!(run.handle.stats().handled(&bench.name("several")), 50);
    run.committed(50).await;
    run.stop().await?;
    // Each message is finished by both before the next one.
    assert_eq!(calls.take(), (0..50).flat_map(|n| [('a', n), ('b', n)]).collect::<Vec<_>>());
    Ok(())
}

/// One that fails keeps the message from being done, whatever the other one did.
pub async fn one_handler_that_fails_holds_the_position_of_both(bench: Bench) -> Result<()> {
    bench.write("half", 1, (0..5).map(|n| text("k", &n.to_string())).collect()).await?;
    let topic = || bench.topic::<u32, String>("half", 1);
    let seen: Seen<u32> = Seen::default();
    let fails = |n: u32| if n == 3 { Err(std::io::Error::other("not three")) } else { Ok(()) };
    let app = App::new().handle(topic(), seen.keep(), ()).handle(topic(), fails, ());
    let error = app.conf(bench.conf("reader")).run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Handler);
    assert_eq!(seen.take(), [0, 1, 2, 3]);
    let left = bench.read("reader", &topic(), 2).await?;
    assert_eq!(left.iter().map(|message| message.offset).collect::<Vec<_>>(), [3, 4]);
    Ok(())
}

pub async fn concurrency_keeps_the_order_of_each_key_and_commits_in_one_piece(bench: Bench) -> Result<()> {
    let records = (0..400).map(|n| text(&format!("k{}", n % 13), &n.to_string())).collect();
    bench.write("lanes", 2, records).await?;
    let seen: Seen<(String, u32)> = Seen::default();
    let handler = {
        let seen = seen.clone();
        move |message: Message<u32>| {
            let seen = seen.clone();
            async move {
                for _ in 0..message.value % 7 {
                    tokio::task::yield_now().await;
                }
                seen.push((message.key.unwrap_or_default(), message.value));
            }
        }
    };
    let app = App::new().handle(bench.topic::<u32, String>("lanes", 2), handler, ()).concurrency(4);
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| seen.len() == 400).await;
    run.committed(400).await;
    run.stop().await?;
    let mut last = BTreeMap::new();
    for (key, value) in seen.take() {
        assert!(last.insert(key.clone(), value).is_none_or(|before| before < value), "{key} out of order");
    }
    Ok(())
}

/// Topic to topic and back into the same app: each output is acknowledged before its input is committed.
pub async fn topics_in_a_row_pass_everything_on(bench: Bench) -> Result<()> {
    bench.write("row-a", 4, (0..100).map(|n| text(&format!("k{n}"), &n.to_string())).collect()).await?;
    let (a, b) = (bench.topic::<u32, String>("row-a", 4), bench.topic::<u32, String>("row-b", 4));
    let seen: Seen<u32> = Seen::default();
    let double = |message: Message<u32>| One((message.key, message.value * 2));
    let app = App::new().handle(a, double, b.clone()).handle(b, seen.keep(), ());
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| seen.len() == 100).await;
    run.committed(200).await;
    run.stop().await?;
    let mut all = seen.take();
    all.sort_unstable();
    assert_eq!(all, (0..100).map(|n| n * 2).collect::<Vec<_>>());
    Ok(())
}

/// B-11: a busy topic of the same connection does not starve a quiet one.
pub async fn b11_a_quiet_topic_is_read_beside_a_busy_one(bench: Bench) -> Result<()> {
    bench.write("busy", 4, (0..20_000).map(|n| text(&format!("k{n}"), "v")).collect()).await?;
    bench.write("quiet", 1, vec![text("k", "0")]).await?;
    let (busy, quiet) = (Seen::default(), Seen::default());
    let app = App::new()
        .handle(
            bench.topic::<String, String>("busy", 4),
            {
                let busy = busy.clone();
                move |_: String| busy.push(())
            },
            (),
        )
        .handle(
            bench.topic::<String, String>("quiet", 1),
            {
                let quiet = quiet.clone();
                move |_: String| quiet.push(())
            },
            (),
        );
    let run = Running::start(app, bench.conf("reader"));
    run.until(|| quiet.len() == 1 && busy.len() == 20_000).await;
    bench.write("quiet", 1, vec![text("k", "1")]).await?;
    run.until(|| quiet.len() == 2).await;
    run.committed(20_002).await;
    run.stop().await
}
