//! What is said in the log of the program, because nobody would notice it otherwise.

use slipstream::prelude::*;

use super::bench::{Bench, Raw, RawTopic, record, text};

/// The lines that were logged by this thread.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Begins to keep them, until what is returned is dropped.
    fn keep(&self) -> tracing::subscriber::DefaultGuard {
        let lines = self.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn with(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

/// On a broker where plain records are the default, what does not travel is said once for each topic, unless it is meant.
#[tokio::test]
async fn what_a_plain_record_leaves_out_is_said_once() -> Result<()> {
    let (bench, lines) = (Bench::booblik().await, Lines::default());
    let _kept = lines.keep();
    let write = async |part: &str, encoding: Option<&str>, message: Raw| {
        bench.create(part, 1);
        let conf = bench.url().leak();
        let conf: Vec<_> =
            [("broker", &*conf)].into_iter().chain(encoding.map(|set| ("encoding", &*set.to_owned().leak()))).collect();
        let topic = RawTopic::named(bench.name(part)).conf(conf.leak());
        topic.send(message.clone()).await?;
        topic.send(message).await?;
        topic.close().await
    };
    let full = || text("k", "v").with_headers(Headers::new().with("h", "x")).with_timestamp(5);
    write("keyed", None, full()).await?;
    write("bare", None, record(None, Some(b"v"))).await?;
    write("meant", Some("plain"), full()).await?;
    write("whole", Some("envelope"), full()).await?;
    let said = lines.with("encoding = envelope");
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["WARN", &bench.name("keyed"), "key, headers, timestamp"] {
        assert!(said[0].contains(part), "{} does not say {part}", said[0]);
    }
    Ok(())
}

/// The number of partitions of a topic that is there already stays.
#[tokio::test]
async fn a_topic_with_other_partitions_than_declared_is_said_once() -> Result<()> {
    for bench in [Bench::embedded(), Bench::booblik().await] {
        bench.create("four", 4);
        bench.write("four", 4, vec![text("k", "v")]).await?;
        let lines = Lines::default();
        let kept = lines.keep();
        let topic = RawTopic::named(bench.name("four")).partitions(2);
        assert_eq!(bench.read("reader", &topic, 1).await?.len(), 1);
        drop(kept);
        let said = lines.with("it has 4 partitions, not 2");
        assert!(said.len() == 1 && said[0].contains("WARN") && said[0].contains(&bench.name("four")), "{said:?}");
    }
    Ok(())
}

/// Also for one who only sends, in a process of its own since the process-wide configuration is meant.
#[tokio::test]
async fn sender() -> Result<()> {
    if std::env::var_os(SENDER).is_none() {
        return Ok(());
    }
    slipstream::log::init();
    let topic: Topic<String> = Topic::new("sent");
    topic.send("one".to_owned()).await?;
    topic.close().await
}

const SENDER: &str = "CONFORMANCE_SENDER";

#[tokio::test]
async fn where_topics_live_without_a_broker_is_said_outside_of_apps_too() -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut sender = std::process::Command::new(std::env::current_exe()?);
    sender.args(["--exact", "saying::sender", "--nocapture"]).env(SENDER, "1").env_remove("SLIPSTREAM_BROKER");
    sender.env("SLIPSTREAM_STATE_DIR", state.path()).current_dir(state.path());
    let output = tokio::task::spawn_blocking(move || sender.output()).await.unwrap()?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = format!("topics live in embedded:{}", state.path().join("_broker").display());
    assert!(output.status.success() && said.contains(&line), "{said}");
    Ok(())
}
