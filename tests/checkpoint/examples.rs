//! The two examples of the model print what they say, in the second run in a directory too.
//!
//! Needs the examples built, to which `cargo test` sees.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Far beyond what a run takes.
const LIMIT: Duration = Duration::from_mins(1);

/// The lines that the example prints in this directory, and nothing but its own configuration.
fn lines(example: &str, directory: &Path) -> Vec<String> {
    let program = std::env::current_exe().unwrap().with_file_name("../examples").join(example);
    let file = |name: &str| File::create(directory.join(name)).unwrap();
    let configured = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("SLIPSTREAM_"));
    let mut command = Command::new(&program);
    for name in configured {
        command.env_remove(name);
    }
    let started =
        command.current_dir(directory).stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).spawn();
    let mut child = started.unwrap_or_else(|error| {
        panic!("{} cannot be run: {error}: `cargo build --example {example}`", program.display())
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10)); // there is no other way to wait for a child with a limit
    };
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let (printed, log) = (read("stdout"), read("stderr"));
    assert!(status.success(), "{status} after\n{printed}\nand\n{log}");
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn checkpoint_has_each_line_right_the_first_time() {
    let directory = tempfile::tempdir().unwrap();
    for run in 1..=2 {
        let shown = ["swimming: sun", "walking: clouds", "reading: rain"];
        assert_eq!(lines("checkpoint", directory.path()), shown, "run {run}");
    }
}

#[cfg(all(feature = "json", feature = "rocksdb"))]
#[test]
fn s_8_synchronization_corrects_what_came_too_early() {
    let directory = tempfile::tempdir().unwrap();
    for run in 1..=2 {
        let all = lines("synchronization", directory.path());
        let (told, joined): (Vec<_>, Vec<_>) = all.iter().map(String::as_str).partition(|line| line.starts_with("  ["));
        let wrong = "shopping: clouds (wrong: the weather is late)";
        let shown =
            ["swimming: sun", "walking home: clouds", wrong, "walking home: clouds", "shopping: rain", "lunch: storm"];
        assert_eq!(joined, shown, "run {run}: {all:#?}");
        assert_eq!(told, ["  [paused: weather: 5400s]", "  [recovered, back to [(0, 1)]]"], "run {run}: {all:#?}");
        let place = |line: &str| all.iter().position(|own| own == line).unwrap();
        let recovered = place(told[1]);
        assert!(place(wrong) < recovered && recovered < place("shopping: rain"), "run {run}: {all:#?}");
    }
}
