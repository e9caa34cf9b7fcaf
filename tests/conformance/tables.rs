//! Tables on topics: rows are the fold of the log, on every backend, and a log that they cannot go on with is refused.

use std::collections::BTreeMap;

use slipstream::Kind;
use slipstream::prelude::*;

use super::bench::{Backend, Bench, Raw, Running, Seen, text};

type Counts = Table<String, u64>;

/// Of every key so many, in a topic with so many partitions.
fn records(keys: u64, count: u64) -> Vec<Raw> {
    (0..count).map(|n| text(&format!("k{}", n % keys), &n.to_string())).collect()
}

fn counts() -> Counts {
    Table::named("counts").merge(|a, b| a + b)
}

fn app(bench: &Bench, part: &str, partitions: u32, counts: &Counts, out: &Seen<u64>) -> App {
    let count = |message: Message<u64>, counts: &mut Rows<String, u64>| -> Result<u64> {
        counts.update(message.key()?, |n| n.unwrap_or(0) + 1)?;
        Ok(message.value)
    };
    App::new().handle(bench.topic::<u64, String>(part, partitions), count, out.keep()).name("count").table(counts)
}

fn conf(bench: &Bench) -> Conf {
    bench.conf("reader").with("table.generation.time", "10ms")
}

/// The rows once so many records are counted, from the first offsets on; the run goes on.
async fn counted(run: &Running, counts: &Counts, position: i64) -> Result<BTreeMap<String, u64>> {
    run.until(|| counts.stats().is_ok_and(|stats| stats.stored() == position)).await;
    counts.items().iter().collect()
}

/// Counts until so many records are counted, and ends.
async fn count(bench: &Bench, app: App, counts: &Counts, position: i64) -> Result<BTreeMap<String, u64>> {
    let run = Running::start(app, conf(bench));
    let rows = counted(&run, counts, position).await?;
    run.committed(position).await;
    run.stop().await?;
    Ok(rows)
}

fn fold(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect()
}

#[track_caller]
fn assert_refused(ended: Result<()>, words: &[&str]) {
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), Kind::OutOfRange, "{}", error.report());
    for word in words {
        assert!(error.report().contains(word), "{word:?} is not in: {}", error.report());
    }
}

pub async fn a_table_is_the_fold_of_its_topic_across_restarts_and_a_crash(bench: Bench) -> Result<()> {
    let (table, out) = (counts(), Seen::default());
    bench.write("fold", 2, records(3, 60)).await?;
    let app = || app(&bench, "fold", 2, &table, &out);
    assert_eq!(count(&bench, app(), &table, 60).await?, fold(&[("k0", 20), ("k1", 20), ("k2", 20)]));
    bench.write("fold", 2, records(2, 40)).await?;
    let run = Running::start(app(), conf(&bench));
    assert_eq!(counted(&run, &table, 100).await?, fold(&[("k0", 40), ("k1", 40), ("k2", 20)]));
    run.crash().await;
    bench.write("fold", 2, records(1, 10)).await?;
    assert_eq!(count(&bench, app(), &table, 110).await?, fold(&[("k0", 50), ("k1", 40), ("k2", 20)]));
    assert!(out.len() >= 110, "outputs are delivered at least once");
    Ok(())
}

pub async fn rows_that_are_gone_are_rebuilt_and_say_nothing(bench: Bench) -> Result<()> {
    let (table, out) = (counts(), Seen::default());
    bench.write("gone", 2, records(3, 60)).await?;
    let app = || app(&bench, "gone", 2, &table, &out);
    count(&bench, app(), &table, 60).await?;
    assert_eq!(out.take().len(), 60);
    let state = bench.state_dir("reader");
    match &bench.backend {
        // Its tables live as long as the broker, under the name of the directory.
        Backend::Memory(_) => std::fs::rename(&state, bench.state_dir("old")).unwrap_or_default(),
        _ => std::fs::remove_dir_all(state.join(bench.name("reader")).join("tables"))?,
    }
    bench.write("gone", 2, records(1, 3)).await?;
    let elsewhere = match &bench.backend {
        Backend::Memory(_) => bench.member("reader", "other"),
        _ => bench.conf("reader"),
    };
    let run = Running::start(app(), elsewhere.with("table.generation.time", "10ms"));
    assert_eq!(counted(&run, &table, 63).await?, fold(&[("k0", 23), ("k1", 20), ("k2", 20)]));
    run.stop().await?;
    assert_eq!(out.take(), [0, 1, 2], "what was acknowledged is not said again");
    Ok(())
}

/// Deletes a topic of one partition, so that the next record makes it anew.
async fn replace(bench: &Bench, part: &str) -> Result<()> {
    match &bench.backend {
        #[cfg(feature = "booblik")]
        Backend::Embedded(log) => std::fs::remove_dir_all(log.path().join(format!("{}-0", bench.name(part))))?,
        _ => {
            let topic = bench.alone::<Bytes, Bytes>(part);
            let admin = topic.admin()?;
            admin.delete().await?;
            while admin.create(1).await.is_err() {
                tokio::task::yield_now().await;
            }
            topic.close().await?;
        }
    }
    Ok(())
}

pub async fn a_table_of_a_log_that_was_replaced_is_refused_or_built_anew(bench: Bench) -> Result<()> {
    let (table, out) = (counts(), Seen::default());
    bench.write("new", 1, records(3, 6)).await?;
    let app_of = |table: &Counts| app(&bench, "new", 1, table, &out).conf(conf(&bench));
    count(&bench, app_of(&table), &table, 6).await?;
    replace(&bench, "new").await?;
    bench.write("new", 1, records(1, 2)).await?;
    assert_refused(app_of(&table).run().await, &[&bench.name("new")]);
    bench.write("new", 1, records(1, 6)).await?;
    assert_refused(app_of(&table).run().await, &["replaced", &bench.name("new")]);
    out.take();
    let rebuilt = table.clone().rebuild();
    assert_eq!(count(&bench, app_of(&rebuilt), &table, 8).await?, fold(&[("k0", 8)]));
    if !matches!(bench.backend, Backend::Memory(_)) {
        let tables = bench.state_dir("reader").join(bench.name("reader")).join("tables");
        let stores = std::fs::read_dir(tables)?.map(|store| store.unwrap().path());
        let names = stores.flat_map(|store| std::fs::read_dir(store).unwrap()).map(|entry| entry.unwrap().file_name());
        let kept = names.filter(|name| name.to_string_lossy().starts_with("kept-")).count();
        assert_eq!(kept, 1, "the old store is beside the new one");
    }
    Ok(())
}

#[cfg(feature = "kafka")]
mod on_kafka {
    use rdkafka::admin::{AdminOptions, NewPartitions};

    use super::super::on_kafka::{admin, delete_before};
    use super::*;

    #[tokio::test]
    async fn records_that_are_gone_are_refused_or_left_out() -> Result<()> {
        let Some(bench) = Bench::kafka() else { return Ok(()) };
        let (table, out) = (counts(), Seen::default());
        bench.write("cut", 1, records(3, 6)).await?;
        let app_of = |table: &Counts| app(&bench, "cut", 1, table, &out).conf(conf(&bench));
        count(&bench, app_of(&table), &table, 6).await?;
        bench.write("cut", 1, records(1, 6)).await?;
        delete_before(&bench, "cut", 8).await;
        assert_refused(app_of(&table).run().await, &["as of offset 6", "begins at 8", &bench.name("cut")]);
        let elsewhere = app_of(&table).conf(bench.member("reader", "other"));
        assert_refused(elsewhere.run().await, &["no rows here yet", "begins at 8"]);
        let rebuilt = table.clone().rebuild();
        assert_eq!(count(&bench, app_of(&rebuilt), &table, 12).await?, fold(&[("k0", 4)]));
        Ok(())
    }

    #[tokio::test]
    async fn partitions_that_were_added_are_refused_or_counted() -> Result<()> {
        let Some(bench) = Bench::kafka() else { return Ok(()) };
        let (table, out) = (counts(), Seen::default());
        bench.write("grown", 2, records(3, 6)).await?;
        let app_of = |table: &Counts| app(&bench, "grown", 2, table, &out).conf(conf(&bench));
        count(&bench, app_of(&table), &table, 6).await?;
        let name = bench.name("grown");
        let grown = admin(&bench).create_partitions([&NewPartitions::new(&name, 4)], &AdminOptions::new()).await;
        assert!(grown.unwrap().iter().all(std::result::Result::is_ok));
        let topic = bench.raw("grown", 2);
        let is_grown = async || bench.ends("grown").await.is_ok_and(|ends| ends.is_some_and(|ends| ends.len() == 4));
        while !is_grown().await {
            tokio::task::yield_now().await;
        }
        drop(topic);
        assert_refused(app_of(&table).run().await, &["4 partitions", "it had 2", "counts"]);
        let rebuilt = table.clone().rebuild();
        let rows = count(&bench, app_of(&rebuilt), &table, 6).await?;
        assert_eq!(rows, fold(&[("k0", 2), ("k1", 2), ("k2", 2)]));
        Ok(())
    }
}
