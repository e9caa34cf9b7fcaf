//! `slipstream broker serve` as a child.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Long enough for a machine with other things to do.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The program, with nothing of the environment that could tell a broker something.
pub fn slipstream() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipstream"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BOOBLIK_")) {
        command.env_remove(name);
    }
    command.env("RUST_LOG", "warn").arg("broker").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn finished(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Both pipes are emptied while it runs.
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = ended(&mut child);
    Output { status, stdout: out.join().unwrap().unwrap(), stderr: err.join().unwrap().unwrap() }
}

/// How a child ended; it is killed when it takes too long.
fn ended(child: &mut Child) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if since.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("process {} did not end within {PATIENCE:?}", child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A broker that listens.
pub struct Broker {
    child: Child,
    address: SocketAddr,
    /// Its standard output, which stays open.
    out: BufReader<std::process::ChildStdout>,
}

impl Broker {
    /// With the topics of the kit.
    pub fn of_the_kit(directory: &TempDir) -> Self {
        Self::start(directory.path(), &["--topic", "conformance:3", "--topic", "single:1"])
    }

    pub fn start(directory: &Path, flags: &[&str]) -> Self {
        let mut command = slipstream();
        command.arg("serve").arg("--dir").arg(directory).args(["--listen", "127.0.0.1:0"]).args(flags);
        Self::of(command)
    }

    /// By a command that becomes one.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = out.by_ref().lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("booblik starting"));
        let address = lines.find_map(|line| Some(line.strip_prefix("booblik listening on ")?.parse().unwrap()));
        Self { address: address.expect("the line that says it is ready"), child, out }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads its standard output until a line has these words.
    pub fn until_it_says(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it has ended and not said {words:?}");
        }
    }

    /// Waits until one of its threads writes into a pipe that is full.
    pub fn until_nobody_reads(&self) {
        let since = Instant::now();
        let waits = |task: std::io::Result<std::fs::DirEntry>| {
            let place = task.and_then(|task| std::fs::read_to_string(task.path().join("wchan")));
            place.is_ok_and(|place| place.contains("pipe_write"))
        };
        while !std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().any(waits) {
            assert!(since.elapsed() < PATIENCE, "its output has room for ever");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM or another signal by its name, and how it ended.
    pub fn signal(mut self, name: &str) -> ExitStatus {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        ended(&mut self.child)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
