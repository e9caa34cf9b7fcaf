//! The flights example as a program: whatever happens to it, it prints the figures of the batch computation.
//!
//! Needs `KAFKA_BOOTSTRAP`, and the example built: `scripts/kafka.sh run -- cargo test` sees to both.

#[path = "../examples/flights/batch.rs"]
mod batch;
#[path = "../examples/flights/records.rs"]
#[expect(dead_code, reason = "what only the example needs")]
mod records;

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use records::{load_flights, load_weather};
use slipstream::{Conf, Topic, testing};

/// Far beyond what a run takes.
const LIMIT: Duration = Duration::from_mins(1);
const KILLS: u32 = 3;

/// The example with a directory, an app id and topics that nobody else has.
struct Demo {
    dir: tempfile::TempDir,
    id: String,
    broker: String,
}

impl Demo {
    fn new(name: &str, broker: String) -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let demo = Self { dir: tempfile::tempdir()?, id: format!("flights-{name}-{now}"), broker };
        demo.name_topics(&demo.id)?;
        Ok(demo)
    }

    fn on_kafka(name: &str) -> Result<Self> {
        let servers = std::env::var("KAFKA_BOOTSTRAP").context("KAFKA_BOOTSTRAP is not set: see scripts/kafka.sh")?;
        Self::new(name, format!("kafka://{servers}"))
    }

    /// Gives the topics other names, as on a cluster where others have such topics too.
    fn name_topics(&self, prefix: &str) -> Result<()> {
        let section = |topic: &str| format!("[topic.{topic}]\nname = \"{prefix}-{topic}\"\n");
        let text = ["weather", "flights", "enriched"].map(section).concat();
        Ok(fs::write(self.dir.path().join("slipstream.toml"), text)?)
    }

    fn start(&self) -> Result<Child> {
        let program = std::env::current_exe()?.with_file_name("../examples/flights");
        let file = |name: &str| File::create(self.dir.path().join(name));
        Command::new(&program)
            .current_dir(self.dir.path())
            .env("SLIPSTREAM_BROKER", &self.broker)
            .env("SLIPSTREAM_APP_ID", &self.id)
            .env_remove("SLIPSTREAM_CONF")
            .env_remove("SLIPSTREAM_STATE_DIR")
            .stdin(Stdio::null())
            .stdout(file("stdout")?)
            .stderr(file("stderr")?)
            .spawn()
            .with_context(|| format!("{} cannot be run: `cargo build --example flights`", program.display()))
    }

    /// Runs it to its end.
    fn run(&self) -> Result<Printed> {
        let mut child = self.start()?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if begun.elapsed() > LIMIT {
                child.kill()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(10)); // there is no other way to wait for a child with a limit
        };
        let printed = fs::read_to_string(self.dir.path().join("stdout"))?;
        if status.is_some_and(|status| status.success()) {
            return Ok(Printed(printed));
        }
        let log = fs::read_to_string(self.dir.path().join("stderr"))?;
        bail!("the example ended with {status:?}; it printed\n{printed}\nand logged\n{log}")
    }

    /// Runs it for so long and ends it with SIGKILL.
    fn run_and_kill(&self, after: Duration) -> Result<()> {
        let mut child = self.start()?;
        std::thread::sleep(after); // the moment is arbitrary: that is what is tested
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// How many records its topic has.
    fn records(&self, topic: &str) -> Result<i64> {
        Conf::set("broker", &*self.broker)?;
        let topic: Topic<String> = Topic::named(format!("{}-{topic}", self.id));
        let found = testing::block_on(async { topic.admin()?.describe().await })?;
        Ok(found.context("no such topic")?.partitions.iter().map(|(begin, end)| end - begin).sum())
    }
}

struct Printed(String);

impl Printed {
    /// The line that begins with these words, without them.
    fn line(&self, words: &str) -> Result<Vec<String>> {
        let rest = self.0.lines().find_map(|line| line.strip_prefix(words));
        let rest = rest.with_context(|| format!("no line {words:?} in\n{}", self.0))?;
        Ok(rest.split_whitespace().map(|word| word.replace(',', "")).collect())
    }

    fn says(&self, words: &str) -> bool {
        self.0.contains(words)
    }

    /// Every number of the table is that of the batch computation, and there are no more.
    fn has_the_figures(&self) -> Result<()> {
        let figures = batch::figures(&load_flights()?, &load_weather()?);
        for ((airport, band), (departures, minutes)) in &figures {
            #[expect(clippy::cast_precision_loss, reason = "a month of minutes is exact in 53 bits")]
            let mean = *minutes as f64 / *departures as f64;
            let expected = [departures.to_string(), minutes.to_string(), format!("{mean:.2}")];
            ensure!(self.line(&format!("{airport:<9}{band:<15}"))? == expected, "{airport} {band}:\n{}", self.0);
        }
        let rows =
            self.0.lines().filter(|line| ["EWR ", "JFK ", "LGA "].iter().any(|airport| line.starts_with(airport)));
        ensure!(rows.count() == figures.len(), "{}", self.0);
        ensure!(self.line("topic weather")?.starts_with(&["2226".to_owned()]), "{}", self.0);
        ensure!(self.line("topic flights")?.starts_with(&["27004".to_owned()]), "{}", self.0);
        ensure!(self.line("  departed")? == ["26483"], "{}", self.0);
        ensure!(self.line("  cancelled")? == ["521"], "{}", self.0);
        Ok(())
    }

    fn just_read(&self) -> Result<(String, String)> {
        let read = |topic: &str| Ok::<_, anyhow::Error>(self.line(topic)?.get(1).context("one number")?.clone());
        Ok((read("topic weather")?, read("topic flights")?))
    }
}

fn strings(weather: &str, flights: &str) -> (String, String) {
    (weather.to_owned(), flights.to_owned())
}

#[test]
fn it_prints_the_figures_of_the_batch_computation_and_a_second_run_handles_nothing_twice() -> Result<()> {
    let demo = Demo::on_kafka("twice")?;
    let first = demo.run()?;
    first.has_the_figures()?;
    assert_eq!(first.just_read()?, strings("2226", "27004"));
    assert!(first.says("26,483 new departures, 0 were there already."));

    let second = demo.run()?;
    second.has_the_figures()?;
    assert_eq!(second.just_read()?, strings("0", "0"));
    assert!(second.says("0 new departures, 26,483 were there already."));
    let records = ["weather", "flights", "enriched"].map(|topic| demo.records(topic).unwrap());
    assert_eq!(records, [2_226, 27_004, 26_483]);
    Ok(())
}

#[test]
fn killed_three_times_it_prints_the_same_figures() -> Result<()> {
    let whole = Demo::on_kafka("whole")?;
    let begun = Instant::now();
    whole.run()?;
    let takes = begun.elapsed();

    let demo = Demo::on_kafka("killed")?;
    let random = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.subsec_micros();
    for kill in 1..=KILLS {
        // Each a third later than the one before, and somewhere within that third.
        let per_mille = (kill - 1) * 1000 / KILLS + random / 10_u32.pow(kill) % (1000 / KILLS);
        println!("kill {kill} at {per_mille} of 1000");
        demo.run_and_kill(takes * per_mille / 1000)?;
    }
    demo.run()?.has_the_figures()?;
    assert_eq!([demo.records("weather")?, demo.records("flights")?], [2_226, 27_004], "nothing is loaded twice");
    assert!(demo.records("enriched")? >= 26_483);
    assert!(demo.run()?.says("0 new departures, 26,483 were there already."));
    Ok(())
}

#[test]
fn without_the_state_of_the_run_before_it_reads_the_topics_again() -> Result<()> {
    let demo = Demo::on_kafka("forgetful")?;
    demo.run()?;
    fs::remove_dir_all(demo.dir.path().join("state"))?;
    let again = demo.run()?;
    again.has_the_figures()?;
    assert_eq!(again.just_read()?, strings("2226", "27004"));
    assert_eq!([demo.records("weather")?, demo.records("flights")?], [2_226, 27_004]);
    Ok(())
}

#[test]
fn where_the_topics_are_empty_it_fills_them_and_changes_no_row() -> Result<()> {
    let mut demo = Demo::new("moved", "memory:".to_owned())?;
    demo.run()?.has_the_figures()?;
    demo.broker = Demo::on_kafka("target")?.broker.clone();
    let moved = demo.run()?;
    moved.has_the_figures()?;
    assert_eq!(moved.just_read()?, strings("2226", "27004"));
    assert!(moved.says("0 new departures, 26,483 were there already."));
    assert_eq!([demo.records("weather")?, demo.records("flights")?], [2_226, 27_004]);
    Ok(())
}
