//! One script, told word for word (B-51): what the checks compare with their expectations is compared here with the
//! other backend, wording of errors included where the part that is common to all backends makes it.

use slipstream::prelude::*;
use slipstream::topic::SeekTo;

use super::bench::{Bench, Raw, Running, Seen, record, text};

#[tokio::test]
async fn both_backends_give_the_same_transcript() -> Result<()> {
    let Some(kafka) = Bench::kafka() else { return Ok(()) };
    let (ours, theirs) = tokio::try_join!(transcript(Bench::memory()), transcript(kafka))?;
    assert_eq!(ours, theirs);
    assert!(ours.len() > 80, "{ours:#?}");
    Ok(())
}

fn tell(bench: &Bench, raw: &Raw) -> String {
    let headers: Vec<_> = raw.headers.iter().collect();
    format!("{} {:?} {:?} {headers:?}", bench.plain(raw.place()), raw.key, raw.value)
}

async fn transcript(bench: Bench) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let mut records: Vec<_> = (0..60).map(|n| text(&format!("key {n}"), &n.to_string())).collect();
    records.push(record(Some(b""), None));
    records.push(record(Some(b"\xff\x00"), Some(b"")).with_headers(Headers::new().with("a", "1").with_null("a")));
    bench.write("script", 3, records).await?;
    told.extend(bench.contents("script", 3, 62).await?.iter().map(|raw| tell(&bench, raw)));
    told.push(format!("{:?}", bench.ends("script").await?));

    let topic = bench.raw("script", 3);
    let seen: Seen<Raw> = Seen::default();
    let run = Running::start(App::new().handle(topic.clone(), seen.keep(), ()), bench.conf("reader"));
    run.assigned(3).await;
    run.committed(62).await;
    let mut lanes = run.handle.health().sources[0].lanes.clone();
    lanes.sort_by_key(|lane| lane.partition);
    told.extend(lanes.iter().map(|lane| format!("{lane:?}")));
    for to in [SeekTo::Offset(-5), SeekTo::Offset(1_000), SeekTo::Time(-1)] {
        told.push(format!("{to:?}: {:?}", topic.seek(to).await.err().map(|error| error.kind())));
    }
    told.push(format!("{:?}", topic.seek(SeekTo::End).await));
    seen.take();
    topic.seek(SeekTo::Offset(10)).await?;
    run.until(|| seen.len() == 32).await;
    run.stop().await?;
    let mut again = seen.take();
    again.sort_by_key(|raw| (raw.partition, raw.offset));
    told.extend(again.iter().map(|raw| bench.plain(raw.place())));
    told.push(bench.plain(format!("{:?}", topic.seek(SeekTo::End).await)));

    let narrow = App::new().handle(bench.topic::<u8, String>("script", 3), |_: u8| (), ()).conf(bench.conf("narrow"));
    told.push(format!("{:?}", narrow.run().await.err().map(|error| error.kind())));
    bench.write("poison", 1, vec![text("k", "x")]).await?;
    let poisoned =
        App::new().handle(bench.topic::<u8, String>("poison", 1), |_: u8| (), ()).conf(bench.conf("poisoned"));
    told.push(bench.plain(format!("{:?}", poisoned.run().await)));
    Ok(told)
}
