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
