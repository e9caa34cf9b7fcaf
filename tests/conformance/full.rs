//! A log in the process on a disk that is full: nothing that was acknowledged is lost, and all goes on when there is room.

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Error, Kind};

use super::bench::{Bench, Raw, Running, Seen, text};
use super::small::Small;

fn conf(bench: &Bench, small: &Small, app: &str) -> Conf {
    bench.conf(app).with("broker", format!("embedded:{}", small.path().join("log").display()))
}

/// What cannot be squeezed into a little room that is left.
fn large(number: usize) -> Raw {
    text("k", &format!("{number:>30000}"))
}

fn numbers(seen: &[Raw]) -> Vec<usize> {
    let number = |raw: &Raw| std::str::from_utf8(raw.value.as_ref().unwrap()).unwrap().trim().parse().unwrap();
    seen.iter().map(number).collect()
}

/// Whether that is what the error is, or what it comes from.
fn is_disk_full(error: &Error) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<Error>()).any(|error| error.kind() == Kind::DiskFull)
}

/// Sends until the disk is full; how many were acknowledged, and the error.
async fn send_until_full(topic: &Topic<Option<Bytes>, Bytes>) -> (usize, Error) {
    for sent in 0.. {
        if let Err(error) = topic.send(large(sent)).await {
            return (sent, error);
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_full_disk_is_an_error_to_who_writes_and_none_to_who_reads() -> Result<()> {
    let Some(small) = Small::mount(2) else { return Ok(()) };
    let bench = Bench::embedded();
    let seen: Seen<Raw> = Seen::default();
    let reader =
        Running::start(App::new().handle(bench.raw("full", 1), seen.keep(), ()), conf(&bench, &small, "reader"));
    reader.assigned(1).await;
    small.fill();

    let url: &str = format!("embedded:{}", small.path().join("log").display()).leak();
    let topic: Topic<Option<Bytes>, Bytes> = bench.raw("full", 1).conf(vec![("broker", url)].leak());
    let (sent, error) = send_until_full(&topic).await;
    assert!(sent > 0);
    assert_eq!((error.kind(), error.is_retryable()), (Kind::DiskFull, true), "{error:?}");
    reader.committed(i64::try_from(sent).unwrap()).await;
    assert!(reader.handle.health().ok, "what reads has no trouble");

    // An app that writes ends with the error, and its input is not committed.
    let give = |record: Raw| One(record);
    let writer = |record: Raw| {
        App::new().handle(stream::iter([record]), give, bench.raw("full", 1)).conf(conf(&bench, &small, "writer")).run()
    };
    let error = writer(large(sent)).await.unwrap_err();
    assert!(is_disk_full(&error), "{error:?}");

    small.make_room();
    // The log tries by itself until it can write.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while let Err(error) = topic.send(large(sent)).await {
        assert_eq!(error.kind(), Kind::DiskFull, "{error:?}");
        assert!(std::time::Instant::now() < limit, "it does not resume");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    writer(large(sent + 1)).await?;
    until(|| seen.len() == sent + 2).await;
    topic.close().await?;
    reader.stop().await?;
    assert_eq!(numbers(&seen.take()), (0..sent + 2).collect::<Vec<_>>());

    // What another app finds after a restart.
    let again: Seen<Raw> = Seen::default();
    let run = Running::start(App::new().handle(bench.raw("full", 1), again.keep(), ()), conf(&bench, &small, "again"));
    run.until(|| again.len() == sent + 2).await;
    run.stop().await?;
    assert_eq!(numbers(&again.take()), (0..sent + 2).collect::<Vec<_>>());
    Ok(())
}
