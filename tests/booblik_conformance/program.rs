//! The commands of the program, as someone at a shell sees them.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use super::process::{Broker, finished, slipstream};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = finished(slipstream().args(arguments));
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs a command for a broker; what it printed, if it went well.
fn asked(broker: &Broker, arguments: &[&str]) -> String {
    let address = broker.address().to_string();
    let (code, out, err) = run(&[arguments, &["--broker", &address]].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

#[test]
fn records_go_in_with_produce_and_come_out_with_tail() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), &["--topic", "words:3"]);
    assert_eq!(
        asked(&broker, &["produce", "words", "a", "b\nc", "--partition", "1"]),
        "words-1: 2 records, offsets 0 to 1\n"
    );
    assert_eq!(
        asked(&broker, &["produce", "words", "d", "--key", "user-1", "--acks", "forced"]),
        "words-1: 1 record, offsets 2 to 2\n"
    );
    assert_eq!(asked(&broker, &["produce", "words", "e", "--partition", "2", "--acks", "none"]), "words-2: 1 record\n");

    let tail = |more: &[&str]| asked(&broker, &[&["tail", "words", "--partition", "1"], more].concat());
    assert_eq!(tail(&["--from", "earliest", "--until-end"]), "1\t0\ta\n1\t1\tb\\nc\n1\t2\td\n");
    assert_eq!(tail(&["--from", "1", "--max", "1", "--format", "hex", "--values"]), "620a63\n");
    assert_eq!(tail(&["--until-end"]), "", "it begins at the end unless it is told otherwise");

    let topics = asked(&broker, &["topics", "words"]);
    let rows: Vec<Vec<&str>> = topics.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[..2], [["words", "0", "0", "0"], ["words", "1", "0", "3"]]);
    assert_eq!(asked(&broker, &["health"]), "ok: 1 topics, 3 partitions\n");
}

#[test]
fn tail_follows_and_produce_reads_lines() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), &["--topic", "t:2"]);
    let address = broker.address().to_string();
    let mut follow = slipstream();
    follow.args(["tail", "t", "--from", "earliest", "--values", "--max", "3", "--broker", &address]);
    let follow = std::thread::spawn(move || finished(&mut follow));

    let mut produce = slipstream();
    produce.args(["produce", "t", "--broker", &address]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = produce.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\r\nthree").unwrap();
    let written = child.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8(written.stdout).unwrap(),
        "t-0: 2 records, offsets 0 to 1\nt-1: 1 record, offsets 0 to 0\n"
    );

    let followed = String::from_utf8(follow.join().unwrap().stdout).unwrap();
    let mut values: Vec<&str> = followed.lines().collect();
    values.sort_unstable();
    assert_eq!(values, ["one", "three", "two"]);
}

#[test]
fn a_signal_ends_it_gently_and_a_second_start_finds_everything() {
    let directory = tempfile::tempdir().unwrap();
    for (round, signal) in ["TERM", "INT"].into_iter().enumerate() {
        let broker = Broker::start(directory.path(), &["--topic", "t:1"]);
        let found = asked(&broker, &["tail", "t", "--from", "earliest", "--until-end"]);
        assert_eq!(found.lines().count(), round);
        asked(&broker, &["produce", "t", "record"]);
        assert_eq!(broker.signal(signal).code(), Some(0));
    }
}

#[test]
fn a_held_fetch_does_not_hold_up_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), &["--topic", "t:1"]);
    let mut request = b"\0\0\0\x23\0\x02\0\x02\0\0\0\x01\0\x01t".to_vec();
    for number in [0_i32, 0, 0, 1 << 20, 60_000, 1] {
        request.extend(number.to_be_bytes());
    }
    let mut stream = std::net::TcpStream::connect(broker.address()).unwrap();
    stream.write_all(&request).unwrap();
    asked(&broker, &["topics"]);
    assert_eq!(broker.signal("TERM").code(), Some(0));
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
    assert_eq!(answer.len(), 22, "an empty answer, and then the end");
}

/// Its metrics fill the pipe that it writes to.
#[test]
fn one_who_does_not_read_its_output_holds_up_neither_clients_nor_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--topic", "t:1", "--set", "booblik.metrics.interval.millis=1"];
    let broker = Broker::start(directory.path(), &flags);
    broker.until_nobody_reads();
    assert_eq!(asked(&broker, &["produce", "t", "record"]), "t-0: 1 record, offsets 0 to 0\n");
    assert_eq!(broker.signal("TERM").code(), Some(0));
}

#[test]
fn what_cannot_be_served_is_said_with_the_code_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), &["--topic", "t:1"]);
    let address = broker.address().to_string();
    let (own, other) = (directory.path().to_str().unwrap(), other.path().to_str().unwrap());

    let (code, _, err) = run(&["serve", "--dir", other, "--listen", &address]);
    assert_eq!(code, Some(1));
    assert!(err.contains(&format!("address {address}: cannot be listened on")) && err.contains("in use"), "{err}");

    let (code, _, err) = run(&["serve", "--dir", own, "--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("has it open") && err.contains(own), "{err}");

    for (flags, told) in [
        (["--topic", "words"], "`booblik.topics` is `words`, and has to be a list"),
        (["--topic", "a/b:1"], "`booblik.topics` is `a/b:1`"),
        (["--topic", "words:0"], "`booblik.topics` is `words:0`"),
        (["--listen", "9092"], "flag --listen: `booblik.listen` is `9092`"),
        (["--set", "booblik.prot=1"], "did you mean `booblik.port`?"),
        (["--config", "nowhere.toml"], "nowhere.toml: it cannot be read"),
        (["--topics", "a:1"], "unexpected argument '--topics'"),
    ] {
        let (code, out, err) = run(&["serve", "--dir", other, flags[0], flags[1]]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{flags:?}: {err}");
        assert!(err.contains(told), "{flags:?}: {err}");
    }
}

#[test]
fn a_configuration_file_is_enough() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("broker.toml");
    let text = "booblik.topics = \"words:2\"\nbooblik.topic.words.segment.capacity.bytes = 64\n";
    std::fs::write(&file, text).unwrap();
    let data = directory.path().join("data");
    let broker = Broker::start(&data, &["--config", file.to_str().unwrap()]);
    for _ in 0..3 {
        asked(&broker, &["produce", "words", "forty bytes, so that each fills a segment", "--partition", "0"]);
    }
    assert_eq!(broker.signal("TERM").code(), Some(0));
    assert_eq!(segments(&data.join("words-0")).len(), 3);
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    files.sort();
    files
}

/// A stopped broker's directory with three segments of two records of 16 bytes.
fn three_segments() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), &["--topic", "t:1", "--set", "booblik.segment.capacity.bytes=50"]);
    for _ in 0..6 {
        asked(&broker, &["produce", "t", "sixteen bytes..."]);
    }
    assert_eq!(broker.signal("TERM").code(), Some(0));
    assert_eq!(segments(&directory.path().join("t-0")).len(), 3);
    directory
}

/// Everything that is in a directory, byte for byte.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    segments(directory).into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn check_finds_nothing_wrong_in_what_a_broker_left() {
    let directory = three_segments();
    let (code, out, _) = run(&["check", directory.path().to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(0), "ok: partitions 1, segments 3, records 6, bytes 144\n"));
}

#[test]
fn check_names_file_and_byte_of_damage_and_changes_nothing() {
    type Damage = fn(&[PathBuf]);
    let damages: [(Damage, usize, &str); 4] = [
        (
            |files| OpenOptions::new().write(true).open(&files[2]).unwrap().set_len(47).unwrap(),
            2,
            "byte 24, offset 5: the file ends within record 5, and no good one follows in the file; a broker that opens it \
             cuts it off there",
        ),
        (
            |files| OpenOptions::new().write(true).open(&files[0]).unwrap().write_all_at(b"X", 40).unwrap(),
            0,
            "byte 24, offset 1: the checksum of record 1 does not match, and no good one follows in the file; records 1 to 1 are missing",
        ),
        (|files| std::fs::remove_file(&files[1]).unwrap(), 0, "byte 48, offset 2: records 2 to 3 are missing"),
        (
            |files| OpenOptions::new().write(true).open(&files[1]).unwrap().set_len(24).unwrap(),
            1,
            "byte 24, offset 3: records 3 to 3 are missing",
        ),
    ];
    for (damage, file, told) in damages {
        let directory = three_segments();
        let partition = directory.path().join("t-0");
        let files = segments(&partition);
        damage(&files);
        let before = contents(&partition);
        let (code, out, _) = run(&["check", directory.path().to_str().unwrap()]);
        assert_eq!(code, Some(1));
        assert!(out.contains(&format!("{}: {told}", files[file].display())), "{out}");
        assert_eq!(contents(&partition), before);
    }
}

#[test]
fn check_misses_partitions_that_the_topic_should_have_and_refuses_what_is_no_log() {
    let directory = tempfile::tempdir().unwrap();
    drop(Broker::start(directory.path(), &["--topic", "t:3"]));
    std::fs::remove_dir_all(directory.path().join("t-1")).unwrap();
    let (code, out, _) = run(&["check", directory.path().to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(out.contains("t-1: there is no such partition, but topic t has 3"), "{out}");
    // The last one is known from what the broker has written down.
    std::fs::remove_dir_all(directory.path().join("t-2")).unwrap();
    let (code, out, _) = run(&["check", directory.path().to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(out.contains("t-2: there is no such partition, but topic t has 3"), "{out}");
    std::fs::write(directory.path().join("booblik.topics"), "t three\n").unwrap();
    let (code, out, _) = run(&["check", directory.path().to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(out.contains("`t three` is no topic and its number of partitions"), "{out}");

    let empty = tempfile::tempdir().unwrap();
    let (code, _, err) = run(&["check", empty.path().to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(err.contains("it holds no partition"), "{err}");
}

#[test]
fn health_says_when_nobody_answers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (code, _, err) = run(&["health", "--broker", &address]);
    assert_eq!(code, Some(1), "the connection is accepted, but nobody answers: {err}");
    drop(listener);
    let (code, _, err) = run(&["health", "--broker", &address]);
    assert_eq!(code, Some(1));
    assert!(err.contains("cannot connect"), "{err}");
}

#[test]
fn all_interfaces_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut command = slipstream();
    command.args(["serve", "--listen", "0.0.0.0:0", "--dir"]).arg(directory.path().join("data"));
    let mut child = command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("booblik listening on 0.0.0.0:") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut out, &mut line).unwrap(), 0, "it has ended");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(std::fs::read_to_string(log).unwrap().contains("all interfaces"));
}

#[test]
fn a_broker_says_what_its_configuration_comes_to_and_from_where() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = slipstream();
    command.env("BOOBLIK_PORT", "0").args(["serve", "--topic", "t:1", "--max", "1"]);
    assert_eq!(finished(&mut command).status.code(), Some(2), "a flag that it does not have");
    let file = directory.path().join("data");
    std::fs::write(&file, "").unwrap();
    let mut command = slipstream();
    command.env("BOOBLIK_PORT", "0").args(["serve", "--topic", "t:1", "--dir"]).arg(&file);
    let Output { status, stdout, .. } = finished(&mut command);
    assert_eq!(status.code(), Some(1));
    let out = String::from_utf8(stdout).unwrap();
    assert!(out.starts_with("booblik starting\n"), "{out}");
    assert!(out.contains("\n  booblik.port = 0 (environment variable BOOBLIK_PORT)\n"), "{out}");
    assert!(out.contains("\n  booblik.topics = t:1 (flag --topic)\n"), "{out}");
}

#[test]
fn topics_that_are_not_there_or_cannot_be_are_told_with_those_that_are() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), &["--topic", "words:1"]);
    let address = broker.address().to_string();
    for command in [&["tail", "wrods"][..], &["topics", "wrods"], &["produce", "wrods", "x"]] {
        let (code, _, err) = run(&[command, &["--broker", &address]].concat());
        assert_eq!(code, Some(1));
        assert!(err.contains(&format!("topic wrods: broker {address} has no such topic; it has words")), "{err}");
    }
    let (code, _, err) = run(&["produce", "no topic", "x", "--broker", &address]);
    assert_eq!(code, Some(2));
    assert!(err.contains("no topic can have this name"), "{err}");
    let (code, _, err) = run(&["tail", "words", "--from", "5", "--until-end", "--broker", &address]);
    assert_eq!(code, Some(1));
    assert!(err.contains("offset 5 is outside of the log, which has 0 to 0"), "{err}");
}

/// A broker that may have so many files open and no more.
fn with_open_files(limit: u32, directory: &Path, flags: &str) -> std::process::Command {
    let program = env!("CARGO_BIN_EXE_slipstream");
    let mut command = std::process::Command::new("sh");
    let serve = format!("ulimit -n {limit}; exec {program} broker serve --listen 127.0.0.1:0 {flags} --dir \"$0\"");
    command.arg("-c").arg(serve).arg(directory).env("RUST_LOG", "warn");
    command
}

#[test]
fn too_few_open_files_are_told_and_leave_a_directory_that_opens() {
    let directory = tempfile::tempdir().unwrap();
    drop(Broker::start(directory.path(), &["--topic", "t:1"]));
    let Output { status, stderr, .. } = finished(&mut with_open_files(100, directory.path(), "--topic big:1000"));
    assert_eq!(status.code(), Some(1));
    let err = String::from_utf8(stderr).unwrap();
    assert!(err.contains("ulimit -n"), "{err}");
    let broker = Broker::start(directory.path(), &[]);
    assert_eq!(asked(&broker, &["health"]), "ok: 1 topics, 1 partitions\n");
    assert!(!directory.path().join("big-0").exists());
}

#[test]
fn idle_connections_leave_files_to_the_writers() {
    let directory = tempfile::tempdir().unwrap();
    let segments = "--topic t:1 --set booblik.segment.capacity.bytes=1024";
    let broker = Broker::of(with_open_files(200, directory.path(), segments));
    let mut idle: Vec<_> = (0..300).filter_map(|_| std::net::TcpStream::connect(broker.address()).ok()).collect();
    // The last one is turned away when all before it have been looked at: nobody waits to take the room that is made.
    let mut last = idle.pop().unwrap();
    last.set_read_timeout(Some(super::process::PATIENCE)).unwrap();
    assert_eq!(last.read(&mut [0]).unwrap(), 0);
    // A few of the first, which were taken in, make room for one that has something to say.
    drop(idle.drain(..5));
    let address = broker.address().to_string();
    let since = std::time::Instant::now();
    while run(&["health", "--broker", &address]).0 != Some(0) {
        assert!(since.elapsed() < super::process::PATIENCE, "nobody is taken in");
    }
    let text = "x".repeat(900);
    for _ in 0..20 {
        asked(&broker, &["produce", "t", &text]);
    }
}
