//! The app under test: a process of its own, since it gets killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
#[cfg(feature = "rocksdb")]
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::schedule::{PATIENCE, until};
#[cfg(feature = "kafka")]
use crate::{
    broker::{Feeder, create_topic, unique},
    echoes::Echoes,
    watch::Commits,
};

/// Partitions of every topic here.
pub const PARTITIONS: u8 = 4;

/// Topics and a group.
#[cfg(feature = "kafka")]
pub struct Place {
    servers: String,
    output_servers: String,
    app: String,
    input: String,
    output: String,
    state: tempfile::TempDir,
}

/// A place and everything that feeds and watches it.
#[cfg(feature = "kafka")]
pub struct Scene {
    pub place: Place,
    pub feeder: Feeder,
    pub echoes: Echoes,
    pub commits: Commits,
}

#[cfg(feature = "kafka")]
impl Place {
    pub fn new(servers: &str) -> Self {
        Self::between(servers, servers)
    }

    /// With the output on another broker than the input.
    pub fn between(servers: &str, output_servers: &str) -> Self {
        let (app, input, output) = (unique("app"), unique("in"), unique("out"));
        create_topic(servers, &input, i32::from(PARTITIONS));
        create_topic(output_servers, &output, i32::from(PARTITIONS));
        let state = tempfile::tempdir().expect("a directory");
        Self { servers: servers.to_owned(), output_servers: output_servers.to_owned(), app, input, output, state }
    }

    pub fn feeder(&self) -> Feeder {
        Feeder::new(&self.servers, &self.input, u64::from(PARTITIONS))
    }

    pub fn watch(self) -> Scene {
        let partitions = i32::from(PARTITIONS);
        Scene {
            feeder: self.feeder(),
            echoes: Echoes::of(&self.output_servers, &self.output, partitions),
            commits: Commits::of(&self.servers, &self.app, &self.input, partitions),
            place: self,
        }
    }

    /// Where a member keeps its state.
    pub fn state(&self, member: &str) -> PathBuf {
        self.state.path().join(member)
    }

    /// Names of the broker, the input and the output.
    #[cfg(feature = "rocksdb")]
    pub fn names(&self) -> (&str, &str, &str) {
        (&self.servers, &self.input, &self.output)
    }

    /// How to start the app. `member` tells members of one group apart.
    pub fn plan(&self, member: &str) -> Plan {
        Plan::new()
            .with("CHAOS_SERVERS", &self.servers)
            .with("CHAOS_APP", &self.app)
            .with("CHAOS_INPUT", &self.input)
            .with("CHAOS_OUTPUT", &self.output)
            .with("CHAOS_OUTPUT_SERVERS", &self.output_servers)
            .with("CHAOS_STATE", self.state(member).display())
            .conf("max.in.flight", 64)
            .conf("commit.interval", "50ms")
    }
}

#[cfg(feature = "kafka")]
impl Scene {
    pub fn new(servers: &str) -> Self {
        Place::new(servers).watch()
    }

    pub fn plan(&self, member: &str) -> Plan {
        self.place.plan(member)
    }
}

/// How a process is started.
#[derive(Clone)]
pub struct Plan {
    variables: Vec<(&'static str, String)>,
    conf: Vec<String>,
}

impl Plan {
    pub fn new() -> Self {
        Self { variables: Vec::new(), conf: Vec::new() }
    }

    pub fn with(mut self, variable: &'static str, value: impl std::fmt::Display) -> Self {
        self.variables.push((variable, value.to_string()));
        self
    }

    pub fn conf(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.conf.push(format!("{key}={value}"));
        self
    }

    /// Delays of the handler, in milliseconds.
    pub fn delay(self, from: u64, to: u64) -> Self {
        self.with("CHAOS_DELAY_MIN_MS", from).with("CHAOS_DELAY_MAX_MS", to)
    }

    /// These ids take much longer.
    pub fn stuck(self, ids: &str, time: Duration) -> Self {
        self.with("CHAOS_STUCK", ids).with("CHAOS_STUCK_MS", time.as_millis())
    }

    pub fn start(&self, life: u32) -> Child {
        let mut command = Command::new(program());
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        command.env("CHAOS_CONF", self.conf.join(",")).env("CHAOS_LIFE", life.to_string());
        command.env("RUST_LOG", std::env::var("CHAOS_LOG").unwrap_or_else(|_| "info".to_owned())).env("NO_COLOR", "1");
        // The end of the log, which a failure shows, has the error and not where in the code it was made.
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the app starts");
        let (events, log) = (Lines::default(), Lines::default());
        let (answer, answers) = channel();
        let (out, err) = (process.stdout.take().expect("piped"), process.stderr.take().expect("piped"));
        let told = events.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                match line.strip_prefix("reply ") {
                    Some(reply) => {
                        // Nobody waits for it when the test has failed.
                        let _failed = answer.send(reply.to_owned());
                    }
                    None => told.add(line.strip_prefix("event ").unwrap_or(&line)),
                }
            }
        });
        let logged = log.clone();
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).for_each(|line| logged.add(&line));
        });
        let commands = process.stdin.take();
        Child { process, commands, answers, events, log, life }
    }
}

/// The example `chaos_app`, which cargo builds next to the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(std::path::Path::parent).expect("target/<profile>/deps/<test>");
    profile.join("examples/chaos_app")
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn add(&self, line: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub struct Child {
    process: std::process::Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
    events: Lines,
    log: Lines,
    pub life: u32,
}

impl Child {
    /// Asks for something and waits for the answer.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> String {
        let pipe = self.commands.as_mut().expect("not ended");
        writeln!(pipe, "{command}").expect("the app listens");
        self.answers.recv_timeout(PATIENCE).expect("the app answers")
    }

    /// The same of an app that may die meanwhile: then there is none.
    #[cfg(feature = "rocksdb")]
    pub fn try_ask(&mut self, command: &str) -> Option<String> {
        writeln!(self.commands.as_mut().expect("not ended"), "{command}").ok()?;
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the app neither answers `{command}` nor ends"),
        }
    }

    pub fn health(&mut self) -> Value {
        serde_json::from_str(&self.ask("health")).expect("health is JSON")
    }

    pub fn is_well(&mut self) -> bool {
        self.health()["ok"] == true
    }

    /// How many partitions it has.
    pub fn lanes(&mut self) -> usize {
        let health = self.health();
        let lanes = health["sources"][0]["lanes"].as_array();
        // Those of a partition; the others are lanes behind one of these.
        lanes.map_or(0, |lanes| lanes.iter().filter(|lane| lane["partition"].as_i64() >= Some(0)).count())
    }

    /// Handlers that began and that ended.
    pub fn counts(&mut self) -> (u64, u64) {
        let reply = self.ask("counts");
        let (begun, ended) = reply.split_once(' ').expect("two numbers");
        (begun.parse().expect("a number"), ended.parse().expect("a number"))
    }

    /// What follows `event <start> ` in the first event that begins so.
    pub fn event(&self, start: &str) -> Option<String> {
        self.events.all().iter().find_map(|line| line.strip_prefix(start)).map(|rest| rest.trim().to_owned())
    }

    #[track_caller]
    pub fn await_event(&self, start: &str) -> String {
        until(PATIENCE, start, || self.event(start).is_some());
        self.event(start).unwrap_or_default()
    }

    pub fn log(&self) -> Vec<String> {
        self.log.all()
    }

    pub fn runs(&mut self) -> bool {
        self.process.try_wait().expect("its state").is_none()
    }

    pub fn signal(&self, signal: libc::c_int) {
        send_signal(libc::pid_t::try_from(self.process.id()).expect("a process id"), signal);
    }

    /// For a check that failed.
    fn say_health(&mut self) {
        let Some(mut pipe) = self.commands.take().filter(|_| self.runs()) else { return };
        self.signal(libc::SIGCONT);
        for command in ["health", "counts"] {
            let _gone = writeln!(pipe, "{command}");
            let answer = self.answers.recv_timeout(Duration::from_secs(2));
            eprintln!("{command} of life {}: {}", self.life, answer.unwrap_or_else(|_| "no answer".to_owned()));
        }
    }

    /// SIGKILL, and its end, which must not have come by itself before.
    #[track_caller]
    pub fn kill(mut self) {
        if let Some(status) = self.process.try_wait().expect("its state") {
            panic!("the app ended by itself before it was killed: {status}");
        }
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
    }

    /// Waits for its end; how it ended and how long that took.
    #[track_caller]
    pub fn ends(&mut self, limit: Duration) -> (ExitStatus, Duration) {
        let began = Instant::now();
        until(limit, "the app ends", || !self.runs());
        (self.process.wait().expect("it ended"), began.elapsed())
    }

    /// SIGTERM, and an orderly end.
    #[track_caller]
    pub fn leave(&mut self) {
        self.signal(libc::SIGTERM);
        let (status, _) = self.ends(PATIENCE);
        assert!(status.success(), "{status}");
    }

    /// Processor time that it has used.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs");
        let after_name = stat.rsplit_once(')').expect("the name is in brackets").1;
        let ticks: u64 =
            after_name.split_whitespace().skip(11).take(2).filter_map(|part| part.parse::<u64>().ok()).sum();
        // USER_HZ, which Linux promises to be 100 to programs.
        Duration::from_millis(ticks * 10)
    }
}

/// Sends a signal to a process that this harness started and has not waited for, so that its number is still its own.
#[expect(unsafe_code, reason = "the standard library can only send SIGKILL")]
pub fn send_signal(process: libc::pid_t, signal: libc::c_int) {
    // SAFETY: takes two integers.
    let sent = unsafe { libc::kill(process, signal) };
    assert!(sent == 0 || std::thread::panicking(), "signal {signal} to {process}");
}

impl Drop for Child {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.say_health();
        }
        let _ended_before = self.process.kill();
        let _ended_before = self.process.wait();
        if std::thread::panicking() {
            let log = self.log();
            eprintln!("The log of life {}, its end:", self.life);
            log.iter().skip(log.len().saturating_sub(40)).for_each(|line| eprintln!("  {line}"));
        }
    }
}
