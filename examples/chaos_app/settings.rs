//! What the harness asks of this process, by variables that all begin with `CHAOS_`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use slipstream::Conf;

#[derive(Clone)]
pub struct Settings {
    /// Where the topics live.
    pub broker: String,
    /// The same as a list of Kafka's servers, if it is one.
    #[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "for the wrong app"))]
    pub servers: String,
    /// App id, and with it the group.
    pub app: String,
    pub input: String,
    pub output: String,
    /// Where the output lives, if not where the input does.
    pub output_servers: Option<String>,
    /// Which start of which process this is; written into each echo.
    pub life: u32,
    pub concurrency: usize,
    /// Shortest and longest delay of the handler, in milliseconds.
    pub delay_ms: (u64, u64),
    /// Ids whose handler takes [`stuck_for`](Self::stuck_for) instead.
    pub stuck: Vec<u64>,
    pub stuck_for: Duration,
    /// Serve HTTP beside the sources.
    pub http: bool,
    #[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "for the wrong app"))]
    /// The wrong app, which commits whatever ended last.
    pub commits_early: bool,
    /// The app that keeps its counts in tables.
    pub tables: bool,
    /// How its tables are to be stored wrongly, if they are.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "for tables"))]
    pub mistake: Option<String>,
    /// Ids that the app itself writes to its input every [`FEED_EVERY`]; 0: somebody else does.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "for tables"))]
    pub feeds: u64,
    /// Join instead of echo: `detect` or `hold`, as the checkpoint does; `never` corrects nothing.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "joins need a cache"))]
    pub joins: String,
    /// Steps of outages and rewinds, in order, at the last of which the process kills itself.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "joins need a cache"))]
    pub kill_at: String,
    pub state_dir: PathBuf,
    /// `key=value` pairs of the configuration.
    pub conf: Vec<(String, String)>,
}

impl Settings {
    pub fn read() -> Result<Self> {
        let must = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        let or = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let (from, to) = (or("CHAOS_DELAY_MIN_MS", "1").parse()?, or("CHAOS_DELAY_MAX_MS", "15").parse()?);
        let stuck = or("CHAOS_STUCK", "");
        let conf = or("CHAOS_CONF", "");
        let servers = or("CHAOS_SERVERS", "");
        Ok(Self {
            broker: or("CHAOS_BROKER", &format!("kafka://{servers}")),
            servers,
            app: must("CHAOS_APP")?,
            input: must("CHAOS_INPUT")?,
            output: must("CHAOS_OUTPUT")?,
            output_servers: std::env::var("CHAOS_OUTPUT_SERVERS").ok(),
            life: or("CHAOS_LIFE", "0").parse()?,
            concurrency: or("CHAOS_CONCURRENCY", "3").parse()?,
            delay_ms: (from, to),
            stuck: stuck.split(',').filter(|id| !id.is_empty()).map(str::parse).collect::<Result<_, _>>()?,
            stuck_for: Duration::from_millis(or("CHAOS_STUCK_MS", "0").parse()?),
            http: or("CHAOS_HTTP", "no") == "yes",
            commits_early: or("CHAOS_COMMITS_EARLY", "no") == "yes",
            tables: or("CHAOS_TABLES", "no") == "yes",
            mistake: std::env::var("CHAOS_MISTAKE").ok(),
            feeds: or("CHAOS_FEEDS", "0").parse()?,
            joins: or("CHAOS_JOINS", ""),
            kill_at: or("CHAOS_KILL_AT", ""),
            state_dir: PathBuf::from(must("CHAOS_STATE")?),
            conf: conf.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect(),
        })
    }

    /// The configuration of the app; the environment has no part in it.
    pub fn conf(&self) -> Conf {
        let conf = Conf::isolated()
            .with("broker", self.broker.as_str())
            .with("app.id", self.app.as_str())
            .with("state.dir", self.state_dir.display().to_string());
        self.conf.iter().fold(conf, |conf, (key, value)| conf.with(key.as_str(), value.as_str()))
    }

    /// How long the handler of `id` takes in this life: the same for the same schedule.
    pub fn delay(&self, id: u64) -> Duration {
        if self.stuck.contains(&id) {
            return self.stuck_for;
        }
        let (from, to) = self.delay_ms;
        let mixed = (id ^ (u64::from(self.life) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        Duration::from_millis(from + mixed % (to - from + 1))
    }
}

/// How often an app that feeds itself does so.
#[cfg(feature = "rocksdb")]
pub const FEED_EVERY: Duration = Duration::from_millis(2);

/// What is written for a record.
pub fn echo(id: u64, partition: i32, offset: i64, life: u32) -> String {
    format!("{id} {partition} {offset} {life}")
}
