//! The flights example as a program: on whatever broker, however late its weather is, and whatever happens to it, it prints
//! the figures of the batch computation.
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
use slipstream::booblik::broker::{Broker, BrokerOptions, Server, ServerOptions};
use slipstream::{Conf, Topic, testing};

/// Far beyond what a run takes.
const LIMIT: Duration = Duration::from_mins(1);
const KILLS: u32 = 3;
/// The topics and their partitions, as the example declares them.
const TOPICS: [(&str, usize); 3] = [("weather", 1), ("flights", 1), ("enriched", 4)];

/// Where the example's topics are.
enum Home {
    /// Nothing is configured: in the process.
    Own,
    /// On a booblik broker.
    Booblik(Serving),
    /// On Kafka, at these servers.
    Kafka(String),
}

/// A broker that serves.
struct Serving {
    runtime: tokio::runtime::Runtime,
    broker: Broker,
    server: Server,
    _directory: tempfile::TempDir,
}

impl Serving {
    fn start() -> Result<Self> {
        let (runtime, directory) = (tokio::runtime::Runtime::new()?, tempfile::tempdir()?);
        let start = async {
            let broker = Broker::open(directory.path(), BrokerOptions::default()).await?;
            let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
            Ok::<_, anyhow::Error>((broker, server))
        };
        let (broker, server) = runtime.block_on(start)?;
        Ok(Self { runtime, broker, server, _directory: directory })
    }
}

impl Home {
    fn booblik() -> Result<Self> {
        Ok(Self::Booblik(Serving::start()?))
    }

    fn kafka() -> Result<Self> {
        let servers = std::env::var("KAFKA_BOOTSTRAP").context("KAFKA_BOOTSTRAP is not set: see scripts/kafka.sh")?;
        Ok(Self::Kafka(servers))
    }

    fn url(&self) -> Option<String> {
        match self {
            Self::Own => None,
            Self::Booblik(serving) => Some(format!("booblik://{}", serving.server.local_addr())),
            Self::Kafka(servers) => Some(format!("kafka://{servers}")),
        }
    }
}

/// The records of a topic on a broker.
fn stored(broker: &Broker, topic: &str) -> i64 {
    let partitions = broker.metrics().into_iter().filter(|of| of.topic == topic);
    partitions.map(|of| of.high_watermark - of.log_start).sum()
}

/// The example with a directory, an app id and topics that nobody else has.
struct Demo {
    dir: tempfile::TempDir,
    id: String,
    home: Home,
    arguments: &'static [&'static str],
}

impl Demo {
    fn new(name: &str, home: Home) -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let (dir, id) = (tempfile::tempdir()?, format!("flights-{name}-{now}"));
        let demo = Self { dir, id, home, arguments: &[] };
        demo.name_topics()?;
        demo.create_topics()?;
        Ok(demo)
    }

    fn with(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Gives the topics other names, as on a cluster where others have such topics too.
    fn name_topics(&self) -> Result<()> {
        let section = |(topic, _)| format!("[topic.{topic}]\nname = \"{}\"\n", self.name_of(topic));
        Ok(fs::write(self.dir.path().join("slipstream.toml"), TOPICS.map(section).concat())?)
    }

    fn name_of(&self, topic: &str) -> String {
        format!("{}-{topic}", self.id)
    }

    /// On a booblik broker, whose clients cannot.
    fn create_topics(&self) -> Result<()> {
        let Home::Booblik(Serving { runtime, broker, .. }) = &self.home else { return Ok(()) };
        for (topic, partitions) in TOPICS {
            runtime.block_on(broker.ensure_topic(&self.name_of(topic), partitions))?;
        }
        Ok(())
    }

    fn move_to(&mut self, home: Home) -> Result<()> {
        self.home = home;
        self.create_topics()
    }

    fn start(&self) -> Result<Child> {
        let program = std::env::current_exe()?.with_file_name("../examples/flights");
        let file = |name: &str| File::create(self.dir.path().join(name));
        Command::new(&program)
            .args(self.arguments)
            .current_dir(self.dir.path())
            .env_remove("SLIPSTREAM_BROKER")
            .envs(self.home.url().map(|url| ("SLIPSTREAM_BROKER", url)))
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
        let name = self.name_of(topic);
        match &self.home {
            Home::Own => testing::block_on(async {
                let broker = Broker::open(self.dir.path().join("state/_broker"), BrokerOptions::default()).await?;
                let records = stored(&broker, &name);
                broker.close().await?;
                Ok(records)
            }),
            Home::Booblik(serving) => Ok(stored(&serving.broker, &name)),
            Home::Kafka(_) => {
                Conf::set("broker", self.home.url().context("an address")?)?;
                let topic: Topic<String> = Topic::named(name);
                let found = testing::block_on(async { topic.admin()?.describe().await })?;
                Ok(found.context("no such topic")?.partitions.iter().map(|(begin, end)| end - begin).sum())
            }
        }
    }

    /// Of `weather`, `flights` and `enriched`.
    fn all_records(&self) -> Result<[i64; 3]> {
        Ok([self.records("weather")?, self.records("flights")?, self.records("enriched")?])
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

    /// How many messages of `weather` and of `flights` were handled in this run.
    fn just_read(&self) -> Result<(u64, u64)> {
        let read =
            |topic: &str| Ok::<_, anyhow::Error>(self.line(topic)?.get(1).context("one number")?.parse::<u64>()?);
        Ok((read("topic weather")?, read("topic flights")?))
    }

    /// How often it said that this happened.
    fn count(&self, what: &str) -> usize {
        self.0.lines().filter(|line| line.starts_with(&format!("  {what} "))).count()
    }

    /// Everything once, and those flights again that were sent back.
    fn read_everything(&self) -> Result<()> {
        let (weather, flights) = self.just_read()?;
        ensure!(weather == 2_227, "{}", self.0);
        ensure!(flights >= 27_004 + u64::try_from(self.count("rewound"))?, "{}", self.0);
        Ok(())
    }
}

/// It prints the figures of the batch computation, and a second run handles nothing twice.
fn twice(demo: &Demo) -> Result<Printed> {
    let first = demo.run()?;
    first.has_the_figures()?;
    first.read_everything()?;
    assert!(first.says("26,483 new departures, 0 were there already."));
    let records = demo.all_records()?;
    assert!(records >= [2_227, 27_004, 26_483]);

    let second = demo.run()?;
    second.has_the_figures()?;
    assert_eq!(second.just_read()?, (0, 0));
    assert!(second.says("0 new departures, 26,483 were there already."));
    assert_eq!(demo.all_records()?, records);
    Ok(first)
}

/// In detect mode: as often as it was paused it went back, and a row that was written too early is written again.
fn corrects(printed: &Printed, rows: &[&str]) {
    let count = |what| printed.count(what);
    assert!(count("paused") >= rows.len(), "{}", printed.0);
    assert_eq!([count("rewound"), count("held")], [count("paused"), 0], "{}", printed.0);
    for row in rows {
        assert!(printed.0.lines().any(|line| line == format!("  corrected  {row}")), "{row}:\n{}", printed.0);
    }
}

/// In hold mode: whatever waited was released, and no row was written twice.
fn holds(demo: &Demo, printed: &Printed, at_least: usize) -> Result<()> {
    let count = |what| printed.count(what);
    assert!(count("held") >= at_least, "{}", printed.0);
    assert_eq!(count("released"), count("held"), "{}", printed.0);
    assert_eq!(["too early", "paused", "rewound", "corrected"].map(count), [0; 4], "{}", printed.0);
    assert_eq!(printed.just_read()?, (2_227, 27_004));
    assert_eq!(demo.records("enriched")?, 26_483);
    Ok(())
}

const FIRST: &str = "EWR/UA1545/2013-01-01T10: clear instead of unknown";
const AFTER_THE_NIGHT: &str = "EWR/US1117/2013-01-15T10: clear instead of rain";

/// Killed three times, it prints the same figures. `whole` is of the same kind, and is not killed.
#[expect(clippy::print_stdout, reason = "which moments they were, for who looks into a failure")]
fn killed(whole: &Demo, demo: &Demo) -> Result<()> {
    let begun = Instant::now();
    whole.run()?;
    let takes = begun.elapsed();

    let random = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.subsec_micros();
    for kill in 1..=KILLS {
        // Each a third later than the one before, and somewhere within that third.
        let per_mille = (kill - 1) * 1000 / KILLS + random / 10_u32.pow(kill) % (1000 / KILLS);
        println!("kill {kill} at {per_mille} of 1000");
        demo.run_and_kill(takes * per_mille / 1000)?;
    }
    demo.run()?.has_the_figures()?;
    let [weather, flights, enriched] = demo.all_records()?;
    assert_eq!([weather, flights], [2_227, 27_004], "nothing is loaded twice");
    assert!(enriched >= 26_483);
    assert!(demo.run()?.says("0 new departures, 26,483 were there already."));
    Ok(())
}

/// Without what the run before it stored it reads the topics again.
fn forgetful(home: Home) -> Result<()> {
    let demo = Demo::new("forgetful", home)?;
    demo.run()?;
    fs::remove_dir_all(demo.dir.path().join("state").join(&demo.id))?;
    let again = demo.run()?;
    again.has_the_figures()?;
    again.read_everything()?;
    assert_eq!([demo.records("weather")?, demo.records("flights")?], [2_227, 27_004]);
    Ok(())
}

#[test]
fn the_first_flight_comes_before_the_weather_and_is_corrected() -> Result<()> {
    corrects(&twice(&Demo::new("late", Home::Own)?)?, &[FIRST]);
    Ok(())
}

#[test]
fn after_an_outage_the_first_flight_of_the_morning_is_corrected() -> Result<()> {
    corrects(&twice(&Demo::new("outage", Home::Own)?.with(&["--outage"]))?, &[FIRST, AFTER_THE_NIGHT]);
    Ok(())
}

#[test]
fn held_back_no_row_is_written_twice() -> Result<()> {
    let demo = Demo::new("hold", Home::Own)?.with(&["--hold"]);
    holds(&demo, &twice(&demo)?, 1)
}

#[test]
fn held_back_in_an_outage_no_row_is_written_twice() -> Result<()> {
    let demo = Demo::new("hold-outage", Home::Own)?.with(&["--hold", "--outage"]);
    holds(&demo, &twice(&demo)?, 2)
}

#[test]
fn on_booblik_a_second_run_handles_nothing_twice() -> Result<()> {
    corrects(&twice(&Demo::new("twice", Home::booblik()?)?)?, &[FIRST]);
    Ok(())
}

#[test]
fn on_kafka_a_second_run_handles_nothing_twice() -> Result<()> {
    corrects(&twice(&Demo::new("twice", Home::kafka()?)?)?, &[FIRST]);
    Ok(())
}

#[test]
fn in_the_process_three_kills_amid_an_outage_change_no_figure() -> Result<()> {
    let demo = |name| Ok::<_, anyhow::Error>(Demo::new(name, Home::Own)?.with(&["--outage"]));
    killed(&demo("whole-outage")?, &demo("killed-outage")?)
}

#[test]
fn on_booblik_three_kills_change_no_figure() -> Result<()> {
    killed(&Demo::new("whole", Home::booblik()?)?, &Demo::new("killed", Home::booblik()?)?)
}

#[test]
fn on_kafka_three_kills_change_no_figure() -> Result<()> {
    killed(&Demo::new("whole", Home::kafka()?)?, &Demo::new("killed", Home::kafka()?)?)
}

#[test]
fn in_the_process_it_reads_the_topics_again_without_its_state() -> Result<()> {
    forgetful(Home::Own)
}

#[test]
fn on_booblik_it_reads_the_topics_again_without_its_state() -> Result<()> {
    forgetful(Home::booblik()?)
}

#[test]
fn on_kafka_it_reads_the_topics_again_without_its_state() -> Result<()> {
    forgetful(Home::kafka()?)
}

#[test]
fn where_the_topics_are_empty_it_fills_them_and_changes_no_row() -> Result<()> {
    let mut demo = Demo::new("moved", Home::Own)?;
    demo.run()?.has_the_figures()?;
    for home in [Home::booblik()?, Home::kafka()?] {
        demo.move_to(home)?;
        let moved = demo.run()?;
        moved.has_the_figures()?;
        moved.read_everything()?;
        assert!(moved.says("0 new departures, 26,483 were there already."));
        assert_eq!([demo.records("weather")?, demo.records("flights")?], [2_227, 27_004]);
    }
    Ok(())
}
